/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <pthread.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/scope.h"

#include "service/http_route.h"
#include "service/http_server.h"
#include "service/metrics.h"

/* An HTTP server that runs on a thread of its own, and its visitors. The test's program is its
 * child, too: it calls http_child_main for HTTP_CHILD_VERB before any test begins. */

struct running {
    struct metrics *metrics;
    struct scope *scope;
    struct http_server *srv;
    pthread_t thread;
    int rc;
};

/* One listener on a free port of 127.0.0.1. The routes are borrowed until the stop. */
void running_start(struct running *r, const struct http_route *routes, size_t n);
/* The thread of a server that a test made itself. arg: the struct running. */
void *running_serve(void *arg);
/* Ends the thread, and frees everything. */
void running_stop(struct running *r);

/* A connection from this address of this machine (host byte order) to the first listener; it gives
 * up waiting after 20 s. */
int running_connect_from(const struct running *r, uint32_t address);
int running_connect(const struct running *r);
/* recv that goes on after a signal. */
ssize_t running_receive(int fd, char *buf, size_t size);

/* The only child of this process, once it is another than the one before. */
pid_t running_child_other_than(pid_t before);
