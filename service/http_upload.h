/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/sb.h"

/*
 * The bodies of requests while http_front.h receives them and until the parent has them, with
 * bounds on each and on all together. One thread.
 */

/* All bodies. */
struct uploads {
    size_t held; /* their bytes */
    size_t max_held;
};

enum http_upload_fault {
    HTTP_UPLOAD_SOUND,
    HTTP_UPLOAD_TOO_LONG, /* for HTTP_MAX_UPLOAD_BYTES */
    HTTP_UPLOAD_NO_ROOM,  /* beside the others, for max_held */
};

/* The body of a request. Zero is an empty one. */
struct upload {
    struct sb bytes;              /* at most HTTP_MAX_UPLOAD_BYTES */
    size_t received;              /* with what was discarded */
    enum http_upload_fault fault; /* it exceeded a bound: it is empty, and the rest is discarded */
};

/* The longest body that a length in a request's headers (a decimal number; NULL: none) may
 * announce. */
bool http_upload_may_have(const char *length);
/* Appends what was received. False: the body goes on far beyond the bound, and its connection is to
 * be closed. */
bool http_upload_add(struct uploads *all, struct upload *u, const char *bytes, size_t len);
/* Frees the bytes. */
void http_upload_done(struct uploads *all, struct upload *u);
