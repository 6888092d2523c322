/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "nodeagent/kubelet/grpc_client.h"
#include "nodeagent/kubelet/grpc_server.h"

/*
 * A server and a client of ours in one reactor, on a clock that stands still, and a peer that sends
 * bytes. Everything happens in one process and at once, so nothing has to be waited for.
 */

/* What the handlers know. Methods: Echo answers with the request, Fail with FAILED_PRECONDITION and
 * the request as text, Stream sends the request back and stays open, Keep says nothing and does not
 * want to be told of the end. */
struct grpc_seen {
    unsigned calls, ends;
    struct grpc_call *open; /* of Stream or Keep, the newest */
};

struct grpc_world {
    struct clock *clk;
    struct reactor *reactor;
    char *folder, *path;
    struct grpc_server *server;
    struct grpc_client *client;
    struct grpc_seen *seen;
};

#define GRPC_ECHO   "/test.Test/Echo"
#define GRPC_FAIL   "/test.Test/Fail"
#define GRPC_STREAM "/test.Test/Stream"
#define GRPC_KEEP   "/test.Test/Keep"

/* Both ends with these limits. */
struct grpc_world *grpc_world_new(const struct grpc_limits *limits);
struct grpc_world *grpc_world_free(struct grpc_world *w);
AUTO_DEFINE_PTR(grpc_world, struct grpc_world, grpc_world_free)
#define auto_grpc_world AUTO_PTR(grpc_world)

/* Runs until nothing more happens. */
void grpc_settle(struct grpc_world *w);
/* Lets time pass, then settles. */
void grpc_pass(struct grpc_world *w, int64_t ms);

/* What a call came to. A zeroed value is to be given to grpc_ask. */
struct grpc_asked {
    unsigned replies;
    int code;
    char *text;
    char *message;
    size_t len;
};
void grpc_asked_done(struct grpc_asked *a);
AUTO_DEFINE(grpc_asked, struct grpc_asked, grpc_asked_done)
#define auto_grpc_asked AUTO(grpc_asked)
#define GRPC_ASK_MS     5000

/* Calls, without settling. */
void grpc_ask(struct grpc_world *w, const char *method, const char *message,
              struct grpc_asked *ret);
void grpc_on_asked(void *arg, const struct grpc_reply *reply);

/* ---- a peer that sends bytes ---- */

/* A connection to the path, not blocking. */
int grpc_raw_connect(const char *path);
/* Sends, and lets the server read. False: the connection is closed. */
bool grpc_raw_send(struct grpc_world *w, int fd, const void *p, size_t len);
/* The preface and empty settings. */
bool grpc_raw_hello(struct grpc_world *w, int fd);
/* Drops what the server says. False: it has closed the connection. */
bool grpc_raw_is_open(int fd);
/* One frame into buf (room for 9 + len); returns its length. */
size_t grpc_raw_frame(uint8_t *buf, uint8_t type, uint8_t flags, uint32_t stream, const void *p,
                      size_t len);
/* A HEADERS frame of names and values in turn, up to a NULL, into buf (room for 64 kB). END_HEADERS
 * is in flags 4, END_STREAM in 1. */
size_t grpc_raw_fields(uint8_t *buf, uint8_t flags, uint32_t stream, const char *const *fields);
/* NULL: what a proper call of Echo has. */
struct grpc_raw_headers {
    const char *method, *path, *type;
    const char *name, *value; /* one more */
};
/* The headers of a call. */
size_t grpc_raw_request(uint8_t *buf, uint8_t flags, uint32_t stream,
                        const struct grpc_raw_headers *h);
/* What the server said on a connection with one call; -1: nothing of the kind. */
struct grpc_raw_reply {
    int http_status, grpc_status, reset;
};
struct grpc_raw_reply grpc_raw_receive(int fd);
/* Bytes that the process has allocated. */
size_t grpc_allocated(void);
