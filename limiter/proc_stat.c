/* SPDX-License-Identifier: Apache-2.0 */
#include "limiter/proc_stat.h"

#include <stddef.h>
#include <string.h>

/* Counted from 1; the second is a name in parentheses. */
enum { FIELD_STATE = 3, FIELD_THREADS = 20, FIELD_STARTED = 22 };

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* Not the C library's: its newest headers name functions that older ones lack. */
uint64_t proc_stat_number(const char *text)
{
    uint64_t n = 0;
    for (; is_digit(*text); text++)
        n = n * 10 + (uint64_t)(*text - '0');
    return n;
}

bool proc_stat_parse(const char *text, struct proc_stat *ret)
{
    struct proc_stat found = {0};
    const char *at = strrchr(text, ')');
    if (at == NULL || at[1] != ' ')
        return false;
    at += 2;
    found.state = *at;
    for (int field = FIELD_STATE; field < FIELD_STARTED; field++) {
        if (field == FIELD_THREADS)
            found.threads = proc_stat_number(at);
        at = strchr(at, ' ');
        if (at == NULL)
            return false;
        at++;
    }
    if (!is_digit(*at))
        return false;
    found.started = proc_stat_number(at);
    *ret = found;
    return true;
}
