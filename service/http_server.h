/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/auto.h"
#include "base/err.h"
#include "base/scope.h"

#include "service/access_gate.h"
#include "service/http_route.h"
#include "service/metrics.h"
#include "service/tls_files.h"

/*
 * The small HTTP server of our programs (health, readiness, metrics; calls of the kube-scheduler).
 * A child process for each port (http_child.h) talks to strangers; it has no rights, cannot open
 * anything, and has only the paths of the routes. This side binds the sockets, makes the pages'
 * texts, and sends each when the child asks for it (http_channel.h). A request with a body comes to
 * this side once it is complete.
 *
 * A child that exits or breaks the protocol is ended and started again. The sockets stay open
 * meanwhile, so new connections wait; a socket that no longer listens is bound anew. When a
 * certificate was renewed, the child exits after its last connection, and the next child has the
 * new one.
 */

struct http_listener {
    /* "127.0.0.1:8081"; ":8080" for all addresses; port 0 for a free one; "" or NULL: off. */
    const char *addr;
    const struct http_route *routes; /* borrowed for the server's life */
    size_t n_routes;
    /* The gate that judges visitors' bearer tokens; NULL: pages are open. Borrowed; a listener with
     * a gate shares neither the gate nor its address, and none of its routes takes a body: one
     * would be held in memory for a visitor whose token is not judged yet. */
    struct access_gate *gate;
    /* TLS with a certificate that is read again when its files change. The listener does not share
     * its address. The paths are borrowed. */
    struct tls_files tls;
    /* The pair may be missing or unusable at first: the port is opened once it is there. */
    bool awaits_tls;
    int renew_ms; /* age at which the serving process is replaced; 0: a day */
    /* Processor time after which one that takes bodies is replaced; 0: 150 s. */
    int renew_cpu_ms;
};

struct http_server;

/* Binds the listeners (at most 4); those with the same address share one port. Counts in metrics
 * (borrowed; NULL: not counted). The program runs itself as the child: its main must call
 * http_child_main for HTTP_CHILD_VERB. ERR_INVALID for a bad address, for a shared one with a gate or
 * TLS, or for a gate before a route that takes a body; ERR_EXISTS when another process still has an
 * address after two seconds; ERR_UNAVAILABLE when it cannot be had for another reason; and what
 * tls_files_read returns. */
int http_server_new(const struct http_listener *listeners, size_t n, struct metrics *metrics,
                    struct http_server **ret, struct err *e) MUST_CHECK;
/* The listener's actual port, 0 when it is off or awaits its certificate. Any thread. */
int http_server_port(const struct http_server *srv, size_t listener);
/* True while a listener awaits its certificate. Any thread. */
bool http_server_awaits_tls(const struct http_server *srv, size_t listener);
/* Serves until the scope ends, with a thread for each port. ERR_SYSTEM: a thread could not be
 * started. arg is a struct http_server (a service_fn of the manager). */
int http_server_run(void *arg, struct scope *s, struct err *e) MUST_CHECK;
/* Call when it is not running. NULL allowed; returns NULL. */
struct http_server *http_server_free(struct http_server *srv);
AUTO_DEFINE_PTR(http_server, struct http_server, http_server_free)
#define auto_http_server AUTO_PTR(http_server)
