/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "kubectl/screen.h"

/* Lists of words, and prose, below a heading, broken into lines. Pure. */
struct word_list {
    struct sb *out;
    const struct screen *screen;
    const char *heading; /* before the first word; further lines are indented as far */
    enum ink ink;
    size_t n, column;
};

/* Appends a word, made safe; the first one with its heading before it. */
void word_list_add(struct word_list *l, const char *word);
/* Ends the line, if there was a word. */
void word_list_end(struct word_list *l);

/* Appends prose, which is ours or was made safe, as lines with the heading before the first;
 * further ones are indented as far. It is broken at its spaces where the screen wraps; a word is
 * never broken, since people copy names and paths. */
void word_list_prose(struct sb *out, const struct screen *s, const char *heading, const char *text);
