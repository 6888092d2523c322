/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/auto.h"
#include "base/reactor.h"

#include "nodeagent/kubelet/grpc.h"

/*
 * A gRPC server on a unix socket, inside a reactor. Every method takes one message and answers with
 * one, or with a stream of them. A peer's error ends its call or its connection, and nothing else.
 * One thread, the reactor's.
 */
struct grpc_server;
struct grpc_call;

/* Handles a call whose request is complete. The call is the handler's until it finishes it, now or
 * later, or its on_end function is called. The request's bytes are borrowed for the call of the
 * handler. */
typedef void grpc_handler_fn(void *arg, struct grpc_call *call, const uint8_t *request, size_t len);

struct grpc_method {
    const char *path; /* "/v1beta1.DevicePlugin/Allocate" */
    grpc_handler_fn *fn;
};

struct grpc_server_options {
    const char *path;                  /* the socket's; an unused socket there is replaced */
    const struct grpc_method *methods; /* borrowed */
    size_t n_methods;
    void *arg; /* for the handlers */
    struct grpc_limits limits;
};

/* Binds, mode 0600, and listens. ERR_EXISTS: another process serves there; ERR_INVALID: path too
 * long for a socket (107 bytes); ERR_SYSTEM. */
int grpc_server_new(struct reactor *r, const struct grpc_server_options *o,
                    struct grpc_server **ret, struct err *e) MUST_CHECK;
/* Ends all calls (UNAVAILABLE) and connections, and calls the on_end functions; calls without one
 * are freed too. Removes the socket's path if it still is this server's socket (by inode). Not from
 * a handler or an on_end function. NULL allowed; returns NULL. */
struct grpc_server *grpc_server_free(struct grpc_server *s);
/* True while the path still names this server's socket. */
bool grpc_server_is_reachable(const struct grpc_server *s);

/* Queues one message; bytes are copied. ERR_TOO_LARGE: more than limits.max_queued would wait. */
int grpc_call_send(struct grpc_call *c, const uint8_t *message, size_t len,
                   struct err *e) MUST_CHECK;
/* Ends the call with a status, after what is queued; text may be NULL. c is freed. */
void grpc_call_finish(struct grpc_call *c, enum grpc_code code, const char *text);
/* Sets fn, which is called once when the peer ends an unfinished call (reset, closed, deadline); c
 * is freed after it. It is not called after grpc_call_finish. Without fn, c stays until it is
 * finished, and messages sent on it are dropped. */
void grpc_call_on_end(struct grpc_call *c, void (*fn)(void *arg), void *arg);

AUTO_DEFINE_PTR(grpc_server, struct grpc_server, grpc_server_free)
#define auto_grpc_server AUTO_PTR(grpc_server)
