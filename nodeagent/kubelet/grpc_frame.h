/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/sb.h"

#include "nodeagent/kubelet/byte_queue.h"
#include "nodeagent/kubelet/grpc.h"

/*
 * What gRPC puts on top of HTTP/2 (grpc.io: "gRPC over HTTP2"), without any I/O: each message
 * behind a flag and its length in four bytes; a timeout as digits and a unit; a status text that
 * is percent-encoded.
 */

#define GRPC_PREFIX_BYTES   5
#define GRPC_MAX_TEXT_BYTES 1024 /* of a status text, sent or shown */

/* Collects the one message that a unary request or answer has. Memory grows with what arrives, not
 * with what the length promises. */
struct grpc_reader {
    size_t max; /* bytes of the message */
    uint8_t prefix[GRPC_PREFIX_BYTES];
    size_t prefix_len;
    size_t expected;
    struct byte_queue message;
};

/* The next bytes, as they come. Not GRPC_OK: compressed (UNIMPLEMENTED), longer than max
 * (RESOURCE_EXHAUSTED), more than one message (UNIMPLEMENTED, as grpc.io's "Status codes" has it
 * for a violated cardinality). Nothing more is to be added then. */
struct grpc_verdict grpc_reader_add(struct grpc_reader *r, const uint8_t *p, size_t len);
/* Has exactly one message arrived? */
bool grpc_reader_is_whole(const struct grpc_reader *r);
void grpc_reader_done(struct grpc_reader *r);

/* Queues one message with its prefix. len is below 4 GiB. */
void grpc_frame_add(struct byte_queue *q, const uint8_t *message, size_t len);

/* "100m" → milliseconds, rounded up; false: not a timeout. */
bool grpc_timeout_parse(const char *s, size_t len, int64_t *ret_ms);
/* The shortest that is not less: at most eight digits and a unit. Caller frees. */
char *grpc_timeout_format(int64_t ms);

/* Percent-encodes what is not printable ASCII; at most GRPC_MAX_TEXT_BYTES of the text. */
void grpc_text_encode(struct sb *b, const char *text);
/* Decodes to UTF-8 that can be shown: what is no UTF-8 becomes U+FFFD, control characters become
 * blanks, a broken escape stands for itself. At most GRPC_MAX_TEXT_BYTES. Caller frees. */
char *grpc_text_decode(const uint8_t *s, size_t len);

/* "application/grpc", alone or with +proto or parameters behind it. */
bool grpc_is_content_type(const uint8_t *s, size_t len);
/* What a status of plain HTTP means where gRPC's own is missing (grpc.io: "HTTP to gRPC Status Code
 * Mapping"). */
int grpc_code_of_http(int status);
