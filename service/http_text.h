/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/*
 * The parent's answers as http_front.h sends them to visitors, with a bound on the bytes of all of
 * them. One thread.
 */

struct MHD_Connection;
struct MHD_Response;

#define HTTP_TEXT_PLAIN "text/plain; version=0.0.4; charset=utf-8"
#define HTTP_TEXT_JSON  "application/json"

/* All texts. */
struct texts {
    size_t held; /* bytes of those that are not freed yet */
    size_t max_held;
};

/* A text that is being sent to the connections that requested it. It is freed when no request
 * refers to it and the last answer with it has ended. */
struct text {
    struct texts *all;
    struct MHD_Response *response;
    unsigned status;
    unsigned refs; /* the maker's, and those of requests that were not given the response yet */
    size_t len;
    char *bytes;
};

struct text_options {
    unsigned status;
    const char *type; /* HTTP_TEXT_PLAIN or HTTP_TEXT_JSON */
    bool last;        /* its connection is closed after it */
};

/* True when a text of len bytes more is within the bound. */
bool texts_have_room(const struct texts *all, size_t len);
/* A text with one reference, the caller's. */
struct text *text_new(struct texts *all, const struct text_options *o, char *bytes_take,
                      size_t len);
/* Gives back a reference. */
void text_unref(struct text *t);
/* Starts to send it on a connection. False: the library closes the connection. */
bool text_send(const struct text *t, struct MHD_Connection *connection);

/* Sends a line that is no text of the parent's. allow: the methods that the path has; NULL: the
 * status is not 405. False: the library closes the connection. */
bool text_refuse(struct MHD_Connection *connection, unsigned status, const char *why,
                 const char *allow);
