/* SPDX-License-Identifier: Apache-2.0 */
#include "nodeagent/kubelet/grpc.h"

#include <assert.h>

#include "base/auto.h"

#define MIB (UINT64_C(1) << 20)

/* In the order of the numbers (grpc.io, "Status codes"). */
static const struct {
    const char *name;
    enum err_kind kind;
} codes[] = {
    {"OK", 0},
    {"CANCELLED", ERR_CANCELED},
    {"UNKNOWN", ERR_UNAVAILABLE},
    {"INVALID_ARGUMENT", ERR_INVALID},
    {"DEADLINE_EXCEEDED", ERR_TIMEOUT},
    {"NOT_FOUND", ERR_NOT_FOUND},
    {"ALREADY_EXISTS", ERR_EXISTS},
    {"PERMISSION_DENIED", ERR_FORBIDDEN},
    {"RESOURCE_EXHAUSTED", ERR_THROTTLED},
    {"FAILED_PRECONDITION", ERR_CONFLICT},
    {"ABORTED", ERR_CONFLICT},
    {"OUT_OF_RANGE", ERR_INVALID},
    {"UNIMPLEMENTED", ERR_INVALID},
    {"INTERNAL", ERR_PROTOCOL},
    {"UNAVAILABLE", ERR_UNAVAILABLE},
    {"DATA_LOSS", ERR_PROTOCOL},
    {"UNAUTHENTICATED", ERR_FORBIDDEN},
};

static_assert(ARRAY_LEN(codes) == GRPC_UNAVAILABLE + 3, "gRPC's codes are 0 to 16");

const char *grpc_code_name(int code)
{
    return code >= 0 && (size_t)code < ARRAY_LEN(codes) ? codes[code].name : "an unknown code";
}

enum err_kind grpc_code_kind(int code)
{
    return code >= 0 && (size_t)code < ARRAY_LEN(codes) ? codes[code].kind : ERR_UNAVAILABLE;
}

enum grpc_code grpc_code_of(enum err_kind kind)
{
    switch (kind) {
    case ERR_INVALID:
        return GRPC_INVALID_ARGUMENT;
    case ERR_NOT_FOUND:
        return GRPC_NOT_FOUND;
    case ERR_EXISTS:
        return GRPC_ALREADY_EXISTS;
    case ERR_CONFLICT:
        return GRPC_ABORTED;
    case ERR_EXPIRED:
    case ERR_TERMINAL:
        return GRPC_FAILED_PRECONDITION;
    case ERR_FORBIDDEN:
        return GRPC_PERMISSION_DENIED;
    case ERR_THROTTLED:
    case ERR_TOO_LARGE:
        return GRPC_RESOURCE_EXHAUSTED;
    case ERR_UNAVAILABLE:
        return GRPC_UNAVAILABLE;
    case ERR_TIMEOUT:
        return GRPC_DEADLINE_EXCEEDED;
    case ERR_CANCELED:
        return GRPC_CANCELLED;
    case ERR_PROTOCOL:
    case ERR_SYSTEM:
        return GRPC_INTERNAL;
    default:
        return GRPC_UNKNOWN;
    }
}

static size_t or_size(size_t value, size_t fallback)
{
    return value ? value : fallback;
}

static int64_t or_ms(int64_t value, int64_t fallback)
{
    return value ? value : fallback;
}

struct grpc_limits grpc_limits_filled(const struct grpc_limits *l)
{
    return (struct grpc_limits){
        .max_message = or_size(l->max_message, 1 * MIB),
        .max_connections = or_size(l->max_connections, 16),
        .max_streams = or_size(l->max_streams, 64),
        .max_queued = or_size(l->max_queued, 4 * MIB),
        .request_ms = or_ms(l->request_ms, 10000),
        .idle_ms = or_ms(l->idle_ms, 30000),
    };
}
