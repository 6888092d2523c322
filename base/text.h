/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <string.h>

/* Comparisons of texts that may be absent (NULL). */

/* True for equal texts, and for two that are absent. */
static inline bool text_same(const char *a, const char *b)
{
    return a && b ? strcmp(a, b) == 0 : a == b;
}

/* As strcmp, where an absent text is an empty one. */
static inline int text_order(const char *a, const char *b)
{
    return strcmp(a ? a : "", b ? b : "");
}

/* True for equal texts, where an absent one is an empty one. */
static inline bool text_equal(const char *a, const char *b)
{
    return text_order(a, b) == 0;
}
