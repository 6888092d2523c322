/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

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
