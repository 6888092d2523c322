/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/auto.h"
#include "base/reactor.h"

#include "nodeagent/kubelet/grpc.h"

/*
 * A gRPC client for a unix socket, inside a reactor. It connects at the first call and again after
 * a lost connection. Calls have one request, one answer and a deadline. One thread, the reactor's.
 */
struct grpc_client;

/* The result of a call. GRPC_OK: message is the answer, borrowed for the call of the function.
 * Otherwise text says why, for a person. */
struct grpc_reply {
    int code; /* enum grpc_code, or the peer's number */
    const char *text;
    const uint8_t *message;
    size_t len;
};
typedef void grpc_reply_fn(void *arg, const struct grpc_reply *reply);

/* path is copied. It does not connect yet, so it cannot fail. */
struct grpc_client *grpc_client_new(struct reactor *r, const char *path,
                                    const struct grpc_limits *limits);
/* Sends a request and calls fn exactly once, from the reactor. The bytes are copied. Codes:
 *  - GRPC_OK: with the answer;
 *  - GRPC_UNAVAILABLE: no such socket, refused, or closed;
 *  - GRPC_DEADLINE_EXCEEDED: after deadline_ms;
 *  - GRPC_RESOURCE_EXHAUSTED: the answer is larger than limits.max_message;
 *  - GRPC_INTERNAL: the peer's bytes are not gRPC. */
void grpc_client_call(struct grpc_client *c, const char *method, const uint8_t *message, size_t len,
                      int64_t deadline_ms, grpc_reply_fn *fn, void *arg);
/* Drops calls in flight without calling their functions. NULL allowed; returns NULL. */
struct grpc_client *grpc_client_free(struct grpc_client *c);

AUTO_DEFINE_PTR(grpc_client, struct grpc_client, grpc_client_free)
#define auto_grpc_client AUTO_PTR(grpc_client)
