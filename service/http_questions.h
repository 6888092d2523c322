/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "service/http_channel.h"
#include "service/http_text.h"
#include "service/http_upload.h"

/*
 * The questions of http_front.h to its parent (http_channel.h), and the requests that wait for the
 * answers. A question that the channel has no room for waits in a queue. One thread.
 */

struct MHD_Connection;

/* From the end of its headers to the end of its answer. */
struct request {
    struct MHD_Connection *connection;
    size_t route;
    struct upload upload;
    bool covered;         /* its question was sent after it had come */
    struct text *text;    /* the answer; NULL: not there yet, or given */
    struct request *next; /* in the list of requests that wait for one question */
};

/* Open pages have the questions with the numbers of their routes, one for each. A request that
 * comes while its question is unanswered waits for the next one, so no visitor gets a text older
 * than its request. A request with a token or a body has a question of its own. */
struct question {
    struct request *waiting;
    bool queued; /* it is to be sent */
    bool asked;  /* it was sent and is unanswered */
};

struct questions {
    int channel;
    struct http_terms terms;
    struct uploads uploads;
    struct question all[HTTP_MAX_QUESTIONS];
    uint16_t queue[HTTP_MAX_QUESTIONS]; /* numbers, a ring; each is in it at most once */
    size_t first, n_queued;
    bool begun;  /* the first one's head was sent */
    size_t sent; /* bytes of its body */
    bool broken; /* sending failed */
};

/* The bearer token of RFC 6750 in the request's headers; NULL: none, or not a legal one. */
const char *http_token_of(struct MHD_Connection *connection);
/* Asks for the answer to a complete request and suspends its connection. Where pages are guarded,
 * it has a token. */
void questions_ask(struct questions *qs, struct request *r);
/* Sends what the channel has room for. Call it when the channel is writable while any is queued. */
void questions_send(struct questions *qs);
/* True when the parent may answer the question of this number. */
bool questions_expects(const struct questions *qs, size_t number);
/* The route of which a question that was asked is. */
size_t questions_route(const struct questions *qs, size_t number);
/* Gives the text that has just arrived to every request that came before it was asked for, and
 * resumes their connections. */
void questions_deliver(struct questions *qs, size_t number, struct text *t);
/* Resumes all connections: the library ends no suspended one. */
void questions_release(struct questions *qs);
