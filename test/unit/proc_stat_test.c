/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "limiter/proc_stat.h"

#define NUMBERS "1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 "

/* A line whose process has this name, this state, 3 threads, and started at 12345. */
static const char *line(const char *name, char state)
{
    static char text[256];
    (void)snprintf(text, sizeof(text), "77 (%s) %c " NUMBERS "3 0 12345 999 1\n", name, state);
    return text;
}

Test(proc_stat, has_the_state_the_threads_and_the_start)
{
    struct proc_stat s;
    cr_assert(proc_stat_parse(line("python3", 'S'), &s));
    cr_expect_eq(s.state, 'S');
    cr_expect_eq(s.threads, 3);
    cr_expect_eq(s.started, 12345);
}

Test(proc_stat, is_not_deceived_by_a_name)
{
    static const char *const names[] = {"", " ", ") Z 1", "a) Z 9 9 9", "((", "))", "x\ny", "Z"};
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        struct proc_stat s = {0};
        cr_assert(proc_stat_parse(line(names[i], 'R'), &s), "%s", names[i]);
        cr_expect_eq(s.state, 'R', "%s", names[i]);
        cr_expect_eq(s.started, 12345, "%s", names[i]);
    }
}

Test(proc_stat, that_is_cut_short_is_refused_and_nothing_is_written)
{
    const char *whole = line("python3", 'S');
    size_t needed = (size_t)(strstr(whole, "12345") - whole);
    for (size_t n = 0; n <= needed; n++) {
        char text[256] = "";
        struct proc_stat s = {.started = 7};
        memcpy(text, whole, n);
        cr_expect_not(proc_stat_parse(text, &s), "%s", text);
        cr_expect_eq(s.started, 7);
    }
}

Test(proc_stat, numbers_end_where_their_digits_do)
{
    cr_expect_eq(proc_stat_number("4026531836]"), UINT64_C(4026531836));
    cr_expect_eq(proc_stat_number(""), 0);
    cr_expect_eq(proc_stat_number("-1"), 0);
}
