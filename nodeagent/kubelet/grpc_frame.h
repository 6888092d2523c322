/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/sb.h"

#include "nodeagent/kubelet/byte_queue.h"
#include "nodeagent/kubelet/grpc.h"

/*
 * The part of gRPC above HTTP/2 (grpc.io: "gRPC over HTTP2"), without I/O: each message has a
 * prefix of a flag and its length in four bytes; a timeout is digits and a unit; a status text is
 * percent-encoded.
 */

#define GRPC_PREFIX_BYTES   5
#define GRPC_MAX_TEXT_BYTES 1024 /* a status text's, sent or shown */

/* Collects the single message of a unary request or answer. Memory grows with the bytes that
 * arrive, not with the announced length. */
struct grpc_reader {
    size_t max; /* bound on the message's bytes */
    uint8_t prefix[GRPC_PREFIX_BYTES];
    size_t prefix_len;
    size_t expected;
    struct byte_queue message;
};

/* Adds the next bytes. Not GRPC_OK: compressed (UNIMPLEMENTED), longer than max
 * (RESOURCE_EXHAUSTED), or more than one message (UNIMPLEMENTED, by grpc.io's "Status codes" for a
 * violated cardinality). Add nothing more after that. */
struct grpc_status grpc_reader_add(struct grpc_reader *r, const uint8_t *p, size_t len);
/* True when exactly one message has arrived. */
bool grpc_reader_is_whole(const struct grpc_reader *r);
void grpc_reader_done(struct grpc_reader *r);

/* Queues one message with its prefix. len is below 4 GiB. */
void grpc_frame_add(struct byte_queue *q, const uint8_t *message, size_t len);

/* "100m" → milliseconds, rounded up; false: not a timeout. */
bool grpc_timeout_parse(const char *s, size_t len, int64_t *ret_ms);
/* The shortest timeout that is not less: at most eight digits and a unit. Caller frees. */
char *grpc_timeout_format(int64_t ms);

/* Percent-encodes all but printable ASCII; at most GRPC_MAX_TEXT_BYTES of the text. */
void grpc_text_encode(struct sb *b, const char *text);
/* Decodes to UTF-8 that can be shown: invalid UTF-8 becomes U+FFFD, control characters become
 * blanks, a broken escape stays as it is. At most GRPC_MAX_TEXT_BYTES. Caller frees. */
char *grpc_text_decode(const uint8_t *s, size_t len);

/* True for "application/grpc", alone or followed by +proto or parameters. */
bool grpc_is_content_type(const uint8_t *s, size_t len);
/* The gRPC code for an HTTP status where gRPC's own is missing (grpc.io: "HTTP to gRPC Status Code
 * Mapping"). */
int grpc_code_of_http(int status);
