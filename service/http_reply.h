/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdint.h>

#include "base/auto.h"
#include "base/sb.h"

#include "service/http_route.h"

/*
 * The answers that a port owes to requests with a body. They are given on any thread
 * (http_reply_give) and collected by the port's own. An answer to a child that has ended goes
 * nowhere; one that is given after http_replies_free frees what is left.
 */
struct http_replies;

/* An answer that was given. */
struct http_reply {
    struct http_replies *port;
    uint64_t child;    /* which of the port's children asked */
    uint16_t question; /* its number there */
    int status;
    struct sb body;
    struct http_reply *next; /* in the list of those given */
};

enum {
    /* Owed at a time. A child asks for less than half of them, but those that children before it
     * asked for may be owed still. */
    HTTP_MAX_REPLIES = 256,
};

struct http_replies *http_replies_new(void);
/* Answers that are owed to children so far are not collected any more. Port's thread. */
void http_replies_next_child(struct http_replies *r);
/* For one question of the current child. NULL: HTTP_MAX_REPLIES are owed. The port's thread; the
 * caller hands it to a http_post_fn. */
struct http_reply *http_replies_owe(struct http_replies *r, uint16_t question);
/* Readable while there is something to collect. */
int http_replies_fd(const struct http_replies *r);
/* The next answer that was given to the current child, in the order in which they were given; NULL:
 * none. The caller frees it with http_reply_free. Port's thread. */
struct http_reply *http_replies_collect(struct http_replies *r);
/* NULL allowed; returns NULL. */
struct http_reply *http_reply_free(struct http_reply *reply);
AUTO_DEFINE_PTR(http_reply, struct http_reply, http_reply_free)
#define auto_http_reply AUTO_PTR(http_reply)

/* Replies may be owed still: they keep what they need. NULL allowed; returns NULL. */
struct http_replies *http_replies_free(struct http_replies *r);
