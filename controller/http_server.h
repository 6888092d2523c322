/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stddef.h>

#include "base/auto.h"
#include "base/err.h"
#include "base/sb.h"
#include "base/scope.h"

/*
 * The small HTTP server of both processes (health, readiness, metrics), on libwebsockets: one
 * thread, GET and HEAD only, bounded connections, headers and time for each request. Plain HTTP:
 * these ports carry no secrets and are fenced by a NetworkPolicy.
 */

/* Writes the body and returns the HTTP status. Called on the server's thread; must not block. */
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
};

struct http_server;

/* Binds the listeners (at most 4); those with the same address share one port. ERR_INVALID for an
 * address, ERR_UNAVAILABLE when it is taken. */
int http_server_new(const struct http_listener *listeners, size_t n, struct http_server **ret,
                    struct err *e) MUST_CHECK;
/* The port a listener got, 0 when it is off. */
int http_server_port(const struct http_server *srv, size_t listener);
/* Serves until the scope ends. One thread. arg is a struct http_server: fits the manager's
 * services. */
int http_server_run(void *arg, struct scope *s, struct err *e) MUST_CHECK;
/* Not while running. NULL allowed; returns NULL. */
struct http_server *http_server_free(struct http_server *srv);
AUTO_DEFINE_PTR(http_server, struct http_server, http_server_free)
#define auto_http_server AUTO_PTR(http_server)
