/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/scope.h"

#include "service/access_gate.h"
#include "service/http_channel.h"
#include "service/http_process.h"
#include "service/http_reply.h"
#include "service/http_route.h"
#include "service/tls_files.h"

/*
 * The conversation with the process of one port: its questions for pages and for visitors' access
 * are answered, requests with a body are handed on and their answers sent as they are given, and it
 * is ordered to leave when its certificate was renewed or it is old. One thread.
 */

/* What the conversation needs of the port. pair and complained change in it. */
struct http_port {
    const char *addr;                                 /* for the log */
    const struct http_route *routes[HTTP_MAX_ROUTES]; /* as the child numbers them */
    struct http_terms terms;                          /* of these routes */
    struct access_gate *gate;                         /* NULL: pages are open. Borrowed */
    struct http_replies *replies;                     /* NULL: no route takes a body. The port's */
    struct tls_files tls;
    struct tls_pair pair; /* the certificate of the next child; empty: plain HTTP */
    bool complained;      /* it was logged that the files are unusable */
    int renew_ms;         /* age at which the process is replaced; 0: a day */
    int renew_cpu_ms;     /* processor time after which one that takes bodies is; 0: 150 s */
};

/* Why a conversation ended. */
enum http_end {
    HTTP_STOPPED, /* the scope ended */
    HTTP_BROKEN,  /* the child ended or broke the protocol */
    HTTP_RENEWED, /* the child was ordered to leave: the next one is to start */
};

/* Reads the certificate's files, if there are any; true when they hold another pair, which the port
 * then uses. An unusable pair may be half of a renewal, so the old one stays. */
bool http_session_renew(struct http_port *port);

/* Talks with the child until one of these. */
enum http_end http_session_run(struct http_port *port, const struct http_process *c,
                               const struct scope *s);
