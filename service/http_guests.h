/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * The connections of http_front.h: how many there may be, and which are closed to make room, for
 * being slow, or for the end. A connection that is closed here is shut down, and gone only when the
 * library has noticed. One thread.
 */

struct MHD_Connection;

enum {
    /* Open connections. For one more, the oldest is closed that does not wait for an answer, of those
     * that are not known if there are any; where all others wait, none is. */
    HTTP_FRONT_CONNECTIONS = 64,
    /* Including those that are being closed, which count until they are gone. More than these wait
     * in the socket's queue. */
    HTTP_FRONT_MAX_CONNECTIONS = HTTP_FRONT_CONNECTIONS + 16,
};

/* A connection. */
struct guest {
    int fd;
    bool asks;        /* a request on it is being received or answered */
    bool asked;       /* it has made a request before */
    bool posted;      /* one of them had a body */
    bool known;       /* its certificate is one of an authority that visitors need */
    bool waits;       /* its request is complete and the parent's answer is not there */
    bool reads;       /* it is being sent a text */
    bool leaves;      /* it was shut down and ends soon */
    int64_t until_ms; /* when it is shut down, in monotonic time; 0: no such time */
};

struct guests {
    struct guest *all[HTTP_FRONT_MAX_CONNECTIONS]; /* oldest first */
    size_t n;
};

/* The caller keeps the guest for guests_forget. */
struct guest *guests_admit(struct guests *gs, struct MHD_Connection *connection);
void guests_forget(struct guests *gs, struct guest *g);
/* The guest, which the library keeps as the connection's socket context. */
struct guest *guest_of(struct MHD_Connection *connection);

/* Closes every connection that reads a text. */
void guests_dismiss_readers(struct guests *gs);
/* Closes one that has asked before and does not ask now. One that has posted may be about to post
 * again, which its visitor cannot safely repeat: it stays until idle_until_ms. */
void guest_dismiss_idle(struct guest *g, int64_t idle_until_ms);
/* The same for all of them. */
void guests_dismiss_idle(struct guests *gs, int64_t idle_until_ms);
/* Closes those whose time is over. Returns when the next one's is; 0: no such time. */
int64_t guests_dismiss_late(struct guests *gs, int64_t now_ms);
