/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stddef.h>

#include "base/jx.h"

/* Labels that are being collected. One thread; the owner frees the items. */
struct label_list {
    struct jx_pair *items;
    size_t n;
};

/* Sets a label. The later one of two with the same key wins. Both texts are legal and copied. */
void label_put(struct label_list *l, const char *key, const char *value);
/* Sets a label of a resource: base is "nvidia.com/gpu", what is ".count". */
void label_put_of(struct label_list *l, const char *base, const char *what, const char *fmt, ...)
    PRINTF_LIKE(4, 5);
/* Sets a label to a text of foreign origin, cut and cleaned; NULL: "". */
void label_put_text(struct label_list *l, const char *base, const char *what, const char *text);

/* Splits "570.86.15" into its parts, for the labels of a version; a missing part is "". */
void label_split_version(const char *text, char parts[3][24]);
