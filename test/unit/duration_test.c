/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>

#include "base/auto.h"
#include "base/duration.h"

static void expect_ms(const char *text, int64_t want)
{
    int64_t ms = -1;
    auto_err struct err e = {0};
    cr_assert_eq(duration_parse(text, 0, INT64_C(86400000), &ms, &e), 0, "%s", err_msg(&e));
    cr_expect_eq(ms, want, "%s", text);
}

Test(duration, reads_what_go_reads)
{
    expect_ms("15s", 15000);
    expect_ms("500ms", 500);
    expect_ms("1m30s", 90000);
    expect_ms("2h", 7200000);
    expect_ms("0s", 0);
}

Test(duration, refuses_everything_else)
{
    const char *const bad[] = {"",
                               "15",
                               "s",
                               "1.5s",
                               "-1s",
                               " 1s",
                               "1s ",
                               "1us",
                               "1sx",
                               "1 s",
                               "1S",
                               "ms1s",
                               "99999999999999999999s",
                               "25h"};
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        int64_t ms = 42;
        auto_err struct err e = {0};
        cr_expect_eq(duration_parse(bad[i], 0, INT64_C(86400000), &ms, &e), -ERR_INVALID, "%s",
                     bad[i]);
        cr_expect_eq(ms, 42, "outs are untouched on failure");
    }
}

Test(duration, keeps_to_its_bounds)
{
    int64_t ms = 42;
    auto_err struct err e = {0};
    cr_expect_eq(duration_parse("99ms", 100, 1000, &ms, &e), -ERR_INVALID);
    err_clear(&e);
    cr_expect_eq(duration_parse("1001ms", 100, 1000, &ms, &e), -ERR_INVALID);
    err_clear(&e);
    cr_expect_eq(duration_parse("1s", 100, 1000, &ms, &e), 0);
    cr_expect_eq(ms, 1000);
}
