/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/auto.h"
#include "base/err.h"

#include "controller/tls_files.h"

/*
 * The side of the HTTP server that strangers reach: HTTP/1.1 on libmicrohttpd, GET and HEAD only,
 * bounded connections, headers, memory and time for each. It knows the names of the pages; their
 * text it asks for over a channel (http_channel.h). One thread. It opens no file and no socket: its
 * descriptors are those that it is given, what http_front_new makes, and its connections.
 */
struct http_front;

enum {
    /* Connections that are kept. For one more the oldest goes. */
    HTTP_FRONT_CONNECTIONS = 64,
    /* With those that have to go, which are counted until they are gone. */
    HTTP_FRONT_MAX_CONNECTIONS = HTTP_FRONT_CONNECTIONS + 16,
};

struct http_front_options {
    int socket;                 /* listens, and does not block; the caller's */
    const char *const *paths;   /* exact; borrowed; numbered from 0 on the channel */
    size_t n_paths;             /* at most HTTP_MAX_ROUTES */
    const struct tls_pair *tls; /* borrowed; NULL: plain HTTP */
    bool guarded;               /* the pages are behind a token, which the parent judges */
    int channel;                /* keeps records apart (SOCK_SEQPACKET); the caller's */
};

/* ERR_SYSTEM. */
int http_front_new(const struct http_front_options *o, struct http_front **ret,
                   struct err *e) MUST_CHECK;
/* Waits until there is something to do, at most max_wait_ms (-1: without limit), and does it.
 * *ret_busy (may be NULL): was there something? ERR_CANCELED: the channel was closed,
 * or the parent wanted an end and the last connection has ended.
 * ERR_PROTOCOL: it says what it must not. */
int http_front_step(struct http_front *f, int max_wait_ms, bool *ret_busy,
                    struct err *e) MUST_CHECK;
/* Ends all connections. NULL allowed; returns NULL. */
struct http_front *http_front_free(struct http_front *f);
AUTO_DEFINE_PTR(http_front, struct http_front, http_front_free)
#define auto_http_front AUTO_PTR(http_front)
