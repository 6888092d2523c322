/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "base/err.h"
#include "base/scope.h"

#include "service/http_route.h"
#include "service/tls_files.h"

/*
 * The process that serves one port (http_child.h), as its parent has it: how it starts, what is
 * sent to it, and how it ends. One thread.
 */
struct http_process {
    pid_t pid;
    int channel, words; /* words: its standard error; -1: none */
};

struct http_process_options {
    int socket;                  /* the port's, which listens; borrowed */
    uid_t uid;                   /* 0: no change of user */
    bool guarded;                /* it asks for visitors' tokens */
    const struct tls_pair *pair; /* empty: plain HTTP. Borrowed */
    const struct http_route *const
        *routes; /* at most HTTP_MAX_ROUTES, in the order of their numbers */
    size_t n_routes;
};

/* Runs this program again as HTTP_CHILD_VERB. ERR_SYSTEM. *ret is the caller's
 * (http_process_end). */
int http_process_start(const struct http_process_options *o, struct http_process *ret,
                       struct err *e) MUST_CHECK;

/* Sends all of it. False: the child accepts no more, or the scope ended. */
bool http_process_send(const struct http_process *c, const struct scope *s, const void *p,
                       size_t len);

/* Closes the channel, and kills a child that does not end by that. An end that was not expected is
 * logged with the child's last words. addr: the port's, for the log. */
void http_process_end(struct http_process *c, const char *addr, bool expected);
