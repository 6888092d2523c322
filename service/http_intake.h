/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "service/http_channel.h"

/*
 * Reads a child's questions from its channel and puts the body's records together. What a child
 * sends is checked here, before anybody else sees it. One thread. It holds one question, with a
 * body of at most HTTP_MAX_UPLOAD_BYTES.
 */

enum http_taken {
    HTTP_TAKEN_NOTHING, /* nothing more is there for now */
    HTTP_TAKEN_WHOLE,   /* a question is complete; http_intake_done before the next */
    HTTP_TAKEN_BROKEN,  /* the child broke the protocol, or closed the channel */
};

struct http_intake {
    struct http_ask_record ask;
    char *body; /* NUL-terminated once complete; NULL: the route takes none */
    size_t got; /* bytes of the body */
    bool begun; /* ask is sound, and the body incomplete */
};

/* Reads what is there, up to the end of one question. */
enum http_taken http_intake_read(struct http_intake *in, int channel, const struct http_terms *t);
/* Forgets the question. */
void http_intake_done(struct http_intake *in);
