/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stddef.h>

#include "base/sb.h"

/* A path of the HTTP server, and who answers there: a page, or a function that takes a body. */

/* Writes the body and returns the HTTP status. Called on its port's thread; must not block. */
typedef int http_get_fn(void *arg, struct sb *body);

/* A request with a body, which is to be answered exactly once, from any thread and at any time. */
struct http_reply;

/* Takes a request's body of len bytes, at most HTTP_MAX_UPLOAD_BYTES (http_channel.h), and a NUL
 * behind them; it is borrowed for the call. Called on its port's thread; must not block. */
typedef void http_post_fn(void *arg, struct http_reply *reply_take, const char *body, size_t len);

/* Gives the answer, of type application/json, and frees the reply. status: 200 to 599. The body is
 * borrowed for the call. Any thread, within http_post_fn or later. When the visitor, the child or
 * the server is gone by then, nobody gets the answer. */
void http_reply_give(struct http_reply *reply_take, int status, const struct sb *body);

struct http_route {
    const char *path; /* matched exactly: "/healthz" */
    /* Exactly one of them: for GET and HEAD, or for POST. */
    http_get_fn *get;
    http_post_fn *post;
    void *arg; /* borrowed */
};
