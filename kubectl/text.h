/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* Texts that may be absent (NULL), which is the same as the empty text. */

/* As strcmp. */
static inline int text_order(const char *a, const char *b)
{
    return strcmp(a ? a : "", b ? b : "");
}

static inline bool text_equal(const char *a, const char *b)
{
    return text_order(a, b) == 0;
}

/* Frees a text that its entry owns behind const, so that callers can lend theirs. */
static inline void text_free(const char *text)
{
    free((void *)(uintptr_t)text);
}

/* Sets a field of a document; an empty text is none. */
static inline void text_set(json_t *o, const char *key, const char *text)
{
    if (text && *text)
        (void)json_object_set_new(o, key, json_string(text));
}
