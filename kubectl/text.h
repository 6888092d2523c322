/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <jansson.h>
#include <stdint.h>
#include <stdlib.h>

#include "base/text.h"

/* Texts of lists and documents, which may be absent (NULL): that is the same as empty. */

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
