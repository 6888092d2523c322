/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <jansson.h>

#include "base/auto.h"
#include "base/err.h"
#include "base/sb.h"

/*
 * Parses objects of one kind without the text of two of their members. One is mostly the same, such
 * as what each node's Device says of the model of its cards: its value is shared where its text is
 * one of the last that were seen. The other is read by nobody, and left out. One thread, for the
 * values too.
 */
struct sparing_parser {
    /* Paths to objects or lists, as in kc_list_opts; borrowed. NULL: there is none. */
    const char *const *shared, *const *without;
    struct shared_text *seen; /* owned */
    size_t next;
    struct sb rest; /* of the object that is being parsed */
    char mark[24];  /* JSON text that stands for what is spared, random: no object can have it */
};

/* As jx_parse, for a parser whose members but the paths are 0 at first. What is in the text of a
 * spared member is not judged. A shared value is one object in several results: nobody may change
 * it. */
int sparing_parse(struct sparing_parser *p, const char *text, size_t len, size_t max_bytes,
                  json_t **ret, struct err *e) MUST_CHECK;
void sparing_parser_done(struct sparing_parser *p);
