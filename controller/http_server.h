/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stddef.h>

#include "base/auto.h"
#include "base/err.h"
#include "base/sb.h"
#include "base/scope.h"

#include "controller/access_gate.h"
#include "controller/metrics.h"
#include "controller/tls_files.h"

/*
 * The small HTTP server of both processes (health, readiness, metrics). Strangers talk to a child
 * process (http_child.h), one for each port, that has no rights, can open nothing, and knows
 * nothing but the names of the pages; this side binds the sockets, makes the pages' texts, and
 * hands each over when the child asks for it (http_channel.h). A child that ends, or that says what
 * it must not, is ended and started again; the sockets stay open meanwhile, and who connects waits.
 * One that does not listen any more by then is bound anew. A child whose
 * certificate was renewed ends once it has answered whom it has, and the next one shows the new.
 */

/* Writes the body and returns the HTTP status. Called on the thread of its port; must
 * not block. */
typedef int http_get_fn(void *arg, struct sb *body);

struct http_route {
    const char *path; /* exact: "/healthz" */
    http_get_fn *get;
    void *arg; /* borrowed */
};

struct http_listener {
    const char *addr; /* "127.0.0.1:8081", ":8080" for all addresses, port 0 for a free one, "" or
                         NULL: off */
    const struct http_route *routes; /* borrowed while the server lives */
    size_t n_routes;
    /* Whose leave a visitor needs, by a bearer token; NULL: pages are open. Borrowed; of one
     * listener alone, which shares its address with no other. */
    struct access_gate *gate;
    /* TLS, with a certificate that is read again when the files change. Shares its address with no
     * other. The paths are borrowed. */
    struct tls_files tls;
};

struct http_server;

/* Binds the listeners (at most 4); those with the same address share one port. Counts in metrics,
 * borrowed, unless NULL. The program is run again as the child: its main hands HTTP_CHILD_VERB to
 * http_child_main. ERR_INVALID for an address, or one with a gate or TLS that another
 * shares, ERR_UNAVAILABLE when it is taken, and what tls_files_read returns. */
int http_server_new(const struct http_listener *listeners, size_t n, struct metrics *metrics,
                    struct http_server **ret, struct err *e) MUST_CHECK;
/* The port a listener got, 0 when it is off. */
int http_server_port(const struct http_server *srv, size_t listener);
/* Serves until the scope ends, with a thread for each port. ERR_SYSTEM: one could not be started.
 * arg is a struct http_server: fits the manager's services. */
int http_server_run(void *arg, struct scope *s, struct err *e) MUST_CHECK;
/* Not while running. NULL allowed; returns NULL. */
struct http_server *http_server_free(struct http_server *srv);
AUTO_DEFINE_PTR(http_server, struct http_server, http_server_free)
#define auto_http_server AUTO_PTR(http_server)
