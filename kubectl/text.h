/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <jansson.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* Texts of entries that own them behind const, so that callers can lend theirs; NULL: none. */

/* As strcmp; none comes first, as the empty text. */
static inline int text_order(const char *a, const char *b)
{
    return strcmp(a ? a : "", b ? b : "");
}

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
