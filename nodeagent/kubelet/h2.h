/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/auto.h"
#include "base/reactor.h"

#include "nodeagent/kubelet/byte_queue.h"
#include "nodeagent/kubelet/grpc.h"

/*
 * One HTTP/2 connection over nghttp2, on a socket in a reactor: what gRPC's server and client have
 * in common. Frames of one turn leave in one write. A turn is: read, tell the role what arrived
 * stream by stream (nghttp2 is on the stack: only to be noted), `turn` (the place to call others),
 * write, `turn` again. One thread.
 */
struct h2;

/* Stands first in what the role knows of a stream. */
struct h2_stream {
    struct h2 *h2; /* NULL once the stream is closed */
    int32_t id;
    struct byte_queue out; /* to be sent */
    bool out_ended;        /* nothing more will be queued */
    size_t header_bytes;
};

struct h2_text {
    const uint8_t *s;
    size_t len;
};
#define H2_TEXT(literal)                                                                           \
    (struct h2_text)                                                                               \
    {                                                                                              \
        .s = (const uint8_t *)(literal), .len = sizeof(literal) - 1                                \
    }
bool h2_text_is(struct h2_text t, const char *s);

struct h2_header {
    const char *name;
    const char *value;
};

/* Those that say nothing else are called by nghttp2: nothing may be freed in them, and nobody
 * called who could. */
struct h2_role {
    bool is_server;
    /* The peer opens a stream. Servers only. Never NULL; is given to `closed` at last. */
    struct h2_stream *(*begin)(void *arg, struct h2 *h, int32_t id);
    void (*header)(struct h2_stream *s, struct h2_text name, struct h2_text value);
    void (*headers_end)(struct h2_stream *s);
    void (*data)(struct h2_stream *s, const uint8_t *p, size_t len);
    /* The peer has nothing more to say on this stream. */
    void (*peer_ended)(struct h2_stream *s);
    /* Queued data is all sent; says the trailers with h2_trailers. NULL: there are none. */
    void (*trailers)(struct h2_stream *s);
    /* s->h2 is NULL already; s may be freed. error as in RFC 9113, section 7. */
    void (*closed)(struct h2_stream *s, uint32_t error);
    /* Not from nghttp2: everything is allowed, h2_free included. */
    void (*turn)(void *arg);
    /* Nothing more comes or goes: GRPC_UNAVAILABLE, or GRPC_INTERNAL where the peer does not speak
     * HTTP/2, and a static text. Frees the connection. Streams that are open are not told. */
    void (*over)(void *arg, struct grpc_verdict why);
};

/* Takes fd over, which is not blocking. limits are filled. A connection that is not used
 * (h2_set_used), or is stuck within a frame, is over after limits->idle_ms. ERR_SYSTEM. */
int h2_new(struct reactor *r, int fd, const struct h2_role *role, void *arg,
           const struct grpc_limits *limits, struct h2 **ret, struct err *e) MUST_CHECK;
/* Closes without a word. Streams that are open keep a pointer to it: they are to be freed first.
 * NULL allowed; returns NULL. */
struct h2 *h2_free(struct h2 *h);
/* Says that no new streams are taken, as far as the socket takes it at once. Before h2_free. */
void h2_goodbye(struct h2 *h);
AUTO_DEFINE_PTR(h2, struct h2, h2_free)
#define auto_h2 AUTO_PTR(h2)

/* Idle from now on, it is not over. */
void h2_set_used(struct h2 *h);
/* mono_ms of the last byte that came, at first of h2_new. */
int64_t h2_heard_ms(const struct h2 *h);

/* Opens s with these headers and what is queued in s->out. ERR_UNAVAILABLE: the peer
 * takes no more streams. */
int h2_request(struct h2 *h, struct h2_stream *s, const struct h2_header *headers, size_t n,
               struct err *e) MUST_CHECK;
/* Answers s: headers, then what is queued in s->out, then the role's trailers. */
void h2_respond(struct h2_stream *s, const struct h2_header *headers, size_t n);
/* Answers s with headers alone. What the peer still sends is not waited for. */
void h2_respond_only(struct h2_stream *s, const struct h2_header *headers, size_t n);
void h2_trailers(struct h2_stream *s, const struct h2_header *headers, size_t n);
/* There is more in s->out, or it has ended. */
void h2_resume(struct h2_stream *s);
/* Resets s and is done with it: the role hears nothing more of it. */
void h2_drop(struct h2_stream *s);
