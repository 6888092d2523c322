/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/err.h"

#include "service/http_channel.h"
#include "service/tls_files.h"

/*
 * The part of the HTTP server that strangers reach: HTTP/1.1 on libmicrohttpd, GET and HEAD for
 * pages, POST for routes that take a body, with bounds on connections, headers, bodies, memory and
 * time. It has the paths; the texts it requests over a channel (http_channel.h). One thread. It
 * opens no file and no socket: its descriptors are those passed in, those that http_front_new
 * makes, and its connections.
 *
 * Where the pair names authorities, a request on a connection without a valid certificate of one of
 * them gets 401, which ends the connection. A request with another method gets 405. A body that is longer than HTTP_MAX_UPLOAD_BYTES gets
 * 413: before it is read where the headers tell its length, otherwise once it has ended; one that
 * does not end soon after the bound closes the connection. A body for which max_upload_bytes leave
 * no room gets 503. A body that is not complete 10 s after its headers closes the connection.
 */
struct http_front;

struct http_front_options {
    int socket; /* listening, non-blocking; the caller's */
    /* Matched exactly; borrowed; their indexes are the numbers on the channel. */
    const char *const *paths;
    struct http_terms terms;    /* of these paths; where they are guarded, none takes a body */
    const struct tls_pair *tls; /* borrowed; NULL: plain HTTP */
    int channel;                /* a SOCK_SEQPACKET socket; the caller's */
    const struct clock *clk;    /* for the time of bodies; borrowed; NULL: the real one */
    /* The sum over all pages that are being sent; 0: 16 MiB. One more is held while it is read from
     * the channel; its visitor gets 503 when it does not fit. */
    size_t max_held_bytes;
    /* The sum over all bodies that are received or wait for the channel; 0: 16 MiB. */
    size_t max_upload_bytes;
};

/* ERR_SYSTEM. */
int http_front_new(const struct http_front_options *o, struct http_front **ret,
                   struct err *e) MUST_CHECK;
/* Waits at most max_wait_ms (-1: without limit) for work, and does it. *ret_busy (may be NULL):
 * there was some. ERR_CANCELED: the channel was closed, or the parent ordered the end and the last
 * connection has ended. ERR_PROTOCOL: the parent broke the protocol. */
int http_front_step(struct http_front *f, int max_wait_ms, bool *ret_busy,
                    struct err *e) MUST_CHECK;
/* Closes all connections. NULL allowed; returns NULL. */
struct http_front *http_front_free(struct http_front *f);
AUTO_DEFINE_PTR(http_front, struct http_front, http_front_free)
#define auto_http_front AUTO_PTR(http_front)
