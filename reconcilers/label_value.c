/* SPDX-License-Identifier: Apache-2.0 */
#include "reconcilers/label_value.h"

#include <ctype.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/xalloc.h"

enum { LABEL_VALUE_MAX = 63 };

char *label_value_from(const char *text)
{
    char *value = xmalloc(strlen(text) + 1);
    size_t len = 0;
    for (const char *c = text; *c && len < LABEL_VALUE_MAX; c++) {
        bool edge = len == 0;
        if (isalnum((unsigned char)*c) || (!edge && strchr("-_.", *c)))
            value[len++] = *c;
        else if (*c == ' ' && !edge)
            value[len++] = '-';
    }
    while (len && !isalnum((unsigned char)value[len - 1]))
        len--;
    value[len] = '\0';
    if (len)
        return value;
    free(value);
    return NULL;
}
