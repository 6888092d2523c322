/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

/* The common part of gRPC's server and client (grpc.io: "gRPC over HTTP2"). */

enum grpc_code {
    GRPC_OK = 0,
    GRPC_CANCELLED = 1,
    GRPC_UNKNOWN = 2,
    GRPC_INVALID_ARGUMENT = 3,
    GRPC_DEADLINE_EXCEEDED = 4,
    GRPC_NOT_FOUND = 5,
    GRPC_ALREADY_EXISTS = 6,
    GRPC_PERMISSION_DENIED = 7,
    GRPC_RESOURCE_EXHAUSTED = 8,
    GRPC_FAILED_PRECONDITION = 9,
    GRPC_ABORTED = 10,
    GRPC_UNIMPLEMENTED = 12,
    GRPC_INTERNAL = 13,
    GRPC_UNAVAILABLE = 14,
};

/* "RESOURCE_EXHAUSTED"; "an unknown code" for a number that gRPC does not have. Static. */
const char *grpc_code_name(int code);
/* The error kind for a peer's code, and the reverse. */
enum err_kind grpc_code_kind(int code);
enum grpc_code grpc_code_of(enum err_kind kind);

/* The result of a check. text is static, NULL with GRPC_OK. */
struct grpc_status {
    enum grpc_code code;
    const char *text;
};

/* Bounds on what a peer can make this process hold. 0: the default in brackets. */
struct grpc_limits {
    size_t max_message;     /* bytes of one received message [1 MiB] */
    size_t max_connections; /* a server's; a new one beyond closes the longest silent connection
                               that has no call at a handler [16] */
    size_t max_streams;     /* at once, on one connection [64] */
    size_t max_queued;      /* bytes waiting to be sent on one stream [4 MiB] */
    int64_t request_ms;     /* from a stream's first frame to its complete request [10000] */
    int64_t idle_ms; /* for a connection without a stream that was never used, or that stopped
                        inside a frame [30000] */
};
/* The limits with defaults in place of zeros. */
struct grpc_limits grpc_limits_filled(const struct grpc_limits *l);
