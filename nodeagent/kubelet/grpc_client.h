/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/auto.h"
#include "base/reactor.h"

#include "nodeagent/kubelet/grpc.h"

/*
 * A gRPC client of a unix socket, inside a reactor. Connects at the first call and again after a
 * connection was lost; calls with one request and one answer, each with a deadline of its own. One
 * thread, the reactor's.
 */
struct grpc_client;

/* code GRPC_OK: message holds the answer, borrowed for the call of the function. Otherwise text
 * says why, for a person. */
struct grpc_reply {
    int code; /* enum grpc_code, or what the peer sent */
    const char *text;
    const uint8_t *message;
    size_t len;
};
typedef void grpc_reply_fn(void *arg, const struct grpc_reply *reply);

/* path is copied. Nothing is connected yet, so there is nothing to fail. */
struct grpc_client *grpc_client_new(struct reactor *r, const char *path,
                                    const struct grpc_limits *limits);
/* Sends and calls fn exactly once, from the reactor: with the answer, GRPC_UNAVAILABLE (no such
 * socket, refused, hung up), GRPC_DEADLINE_EXCEEDED after deadline_ms, GRPC_RESOURCE_EXHAUSTED (an
 * answer larger than limits.max_message), GRPC_INTERNAL (not gRPC). The bytes are copied. */
void grpc_client_call(struct grpc_client *c, const char *method, const uint8_t *message, size_t len,
                      int64_t deadline_ms, grpc_reply_fn *fn, void *arg);
/* Calls in flight are dropped, without a call of their functions. NULL allowed; returns NULL. */
struct grpc_client *grpc_client_free(struct grpc_client *c);

AUTO_DEFINE_PTR(grpc_client, struct grpc_client, grpc_client_free)
#define auto_grpc_client AUTO_PTR(grpc_client)
