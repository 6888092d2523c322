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
 * One HTTP/2 connection over nghttp2, on a socket in a reactor: the common part of gRPC's server
 * and client. All frames of one turn leave in one write. One thread. A turn:
 *  1. read, and give the role what arrived, stream by stream; nghttp2 is on the stack, so the role
 *     may only take notes;
 *  2. call `turn`, where the role may call others;
 *  3. write;
 *  4. call `turn` again.
 */
struct h2;

/* First member of the role's own struct for a stream. */
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

/* The callbacks of a server or client. Unless noted, nghttp2 is on the stack when they are called:
 * they may free nothing, and may call nothing that frees. */
struct h2_role {
    bool is_server;
    /* The peer opens a stream. Servers only. Never returns NULL; the result is given to `closed` at
     * the end. */
    struct h2_stream *(*begin)(void *arg, struct h2 *h, int32_t id);
    void (*header)(struct h2_stream *s, struct h2_text name, struct h2_text value);
    void (*headers_end)(struct h2_stream *s);
    void (*data)(struct h2_stream *s, const uint8_t *p, size_t len);
    /* The peer has ended its side of this stream. */
    void (*peer_ended)(struct h2_stream *s);
    /* All queued data is sent; the role sends its trailers with h2_trailers. NULL: it has none. */
    void (*trailers)(struct h2_stream *s);
    /* s->h2 is NULL already; s may be freed. error as in RFC 9113, section 7. */
    void (*closed)(struct h2_stream *s, uint32_t error);
    /* Called without nghttp2 on the stack: everything is allowed, h2_free included. */
    void (*turn)(void *arg);
    /* The connection has ended, and is freed. why: GRPC_UNAVAILABLE, or GRPC_INTERNAL where the
     * peer's bytes are not HTTP/2, with a static text. Open streams get no call. */
    void (*over)(void *arg, struct grpc_status why);
};

/* Takes over fd, which is non-blocking. limits are filled. The connection ends after
 * limits->idle_ms when it is not used (h2_set_used) or stops inside a frame. ERR_SYSTEM. */
int h2_new(struct reactor *r, int fd, const struct h2_role *role, void *arg,
           const struct grpc_limits *limits, struct h2 **ret, struct err *e) MUST_CHECK;
/* Closes without a GOAWAY. Open streams keep a pointer to h, so free them first. NULL allowed;
 * returns NULL. */
struct h2 *h2_free(struct h2 *h);
/* Sends that no new streams are accepted, as far as the socket takes it at once. Before h2_free. */
void h2_goodbye(struct h2 *h);
AUTO_DEFINE_PTR(h2, struct h2, h2_free)
#define auto_h2 AUTO_PTR(h2)

/* Marks the connection as used: from now on it may be idle without ending. */
void h2_set_used(struct h2 *h);
/* mono_ms of the last byte received; before the first one, of h2_new. */
int64_t h2_heard_ms(const struct h2 *h);

/* Opens s with these headers and the data queued in s->out. ERR_UNAVAILABLE: the peer accepts no
 * more streams. */
int h2_request(struct h2 *h, struct h2_stream *s, const struct h2_header *headers, size_t n,
               struct err *e) MUST_CHECK;
/* Answers s: headers, then the data queued in s->out, then the role's trailers. */
void h2_respond(struct h2_stream *s, const struct h2_header *headers, size_t n);
/* Answers s with headers only, without waiting for what the peer still sends. */
void h2_respond_only(struct h2_stream *s, const struct h2_header *headers, size_t n);
void h2_trailers(struct h2_stream *s, const struct h2_header *headers, size_t n);
/* Continues sending: s->out has more data, or has ended. */
void h2_resume(struct h2_stream *s);
/* Resets s and forgets it: the role gets no more calls for it. */
void h2_drop(struct h2_stream *s);
