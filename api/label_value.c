/* SPDX-License-Identifier: Apache-2.0 */
#include "api/label_value.h"

#include <assert.h>
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "base/xalloc.h"

static bool is_alnum(char c)
{
    return isalnum((unsigned char)c);
}

static bool is_inner(char c)
{
    return is_alnum(c) || c == '-' || c == '_' || c == '.';
}

char *label_value_of(const char *text, unsigned max)
{
    assert(max <= LABEL_VALUE_MAX);
    char *value = xmalloc((size_t)max + 1);
    size_t len = 0;
    bool blank = false;
    for (const char *c = text; *c && len < max; c++) {
        if (isspace((unsigned char)*c)) {
            blank = len > 0;
            continue;
        }
        if (!is_inner(*c) || (len == 0 && !is_alnum(*c)))
            continue;
        if (blank)
            value[len++] = '-';
        blank = false;
        if (len < max)
            value[len++] = *c;
    }
    while (len && !is_alnum(value[len - 1]))
        len--;
    value[len] = '\0';
    if (len)
        return value;
    free(value);
    return NULL;
}

char *label_value_from(const char *text)
{
    return label_value_of(text, LABEL_VALUE_MAX);
}

bool label_value_legal(const char *value)
{
    size_t len = strlen(value);
    if (len == 0)
        return true;
    if (len > LABEL_VALUE_MAX || !is_alnum(value[0]) || !is_alnum(value[len - 1]))
        return false;
    for (const char *c = value; *c; c++)
        if (!is_inner(*c))
            return false;
    return true;
}
