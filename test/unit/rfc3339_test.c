/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>

#include "base/auto.h"
#include "base/rfc3339.h"

Test(rfc3339, reads_times)
{
    static const struct {
        const char *text;
        int64_t ms;
    } cases[] = {
        {"1970-01-01T00:00:00Z", 0},
        {"1969-12-31T23:59:59.999Z", -1},
        {"2026-11-20T22:55:35Z", INT64_C(1795215335000)},
        {"2026-11-20T22:55:35.123456Z", INT64_C(1795215335123)},
        {"2026-11-20T22:55:35.1Z", INT64_C(1795215335100)},
        {"2026-11-20T22:55:35.123456789012Z", INT64_C(1795215335123)},
        {"2026-11-21T00:55:35+02:00", INT64_C(1795215335000)},
        {"2026-11-20T17:25:35-05:30", INT64_C(1795215335000)},
        {"2024-02-29T00:00:00Z", INT64_C(1709164800000)},
        {"0001-01-01T00:00:00Z", INT64_C(-62135596800000)},
        {"9999-12-31T23:59:59.999Z", INT64_C(253402300799999)},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        int64_t ms = 42;
        auto_err struct err e = {0};
        cr_assert_eq(rfc3339_parse(cases[i].text, &ms, &e), 0, "%s", err_msg(&e));
        cr_expect_eq(ms, cases[i].ms, "%s", cases[i].text);
    }
}

Test(rfc3339, refuses_what_is_no_time)
{
    static const char *const bad[] = {
        "",
        "now",
        "2026-11-20",
        "2026-11-20T22:55:35",
        "2026-11-20 22:55:35Z",
        "2026-11-20T22:55:35z",
        "2026-13-20T22:55:35Z",
        "2026-00-20T22:55:35Z",
        "2026-02-29T22:55:35Z",
        "2026-11-31T22:55:35Z",
        "2026-11-00T22:55:35Z",
        "2026-11-20T24:00:00Z",
        "2026-11-20T22:60:35Z",
        "2026-11-20T22:55:60Z",
        "2026-11-20T22:55:35.Z",
        "2026-11-20T22:55:35,5Z",
        "2026-11-20T22:55:35+0200",
        "2026-11-20T22:55:35+24:00",
        "2026-11-20T22:55:35+02:60",
        "2026-11-20T22:55:35Zx",
        "+2026-11-20T22:55:35Z",
        "12026-11-20T22:55:35Z",
        "-026-11-20T22:55:35Z",
    };
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        int64_t ms = 42;
        auto_err struct err e = {0};
        cr_expect_eq(rfc3339_parse(bad[i], &ms, &e), -ERR_INVALID, "%s", bad[i]);
        cr_expect_eq(ms, 42);
    }
}

Test(rfc3339, writes_seconds_and_microseconds)
{
    char text[RFC3339_BYTES];
    cr_expect_str_eq(rfc3339_format(INT64_C(1795215335987), text), "2026-11-20T22:55:35Z");
    cr_expect_str_eq(rfc3339_format_micro(INT64_C(1795215335123), text),
                     "2026-11-20T22:55:35.123000Z");
    cr_expect_str_eq(rfc3339_format_micro(-1, text), "1969-12-31T23:59:59.999000Z");
}

Test(rfc3339, stays_within_four_digit_years)
{
    char text[RFC3339_BYTES];
    cr_expect_str_eq(rfc3339_format(INT64_MAX, text), "9999-12-31T23:59:59Z");
    cr_expect_str_eq(rfc3339_format(INT64_MIN, text), "0000-01-01T00:00:00Z");
}

Test(rfc3339, reads_back_what_it_wrote)
{
    for (int64_t ms = INT64_C(-62167219200000); ms < INT64_C(253402300800000);
         ms += INT64_C(86399999999)) {
        char text[RFC3339_BYTES];
        int64_t again = 0;
        cr_assert_eq(rfc3339_parse(rfc3339_format_micro(ms, text), &again, NULL), 0, "%s", text);
        cr_assert_eq(again, ms);
    }
}

Test(rfc3339, has_another_value_where_there_is_no_time)
{
    cr_expect_eq(rfc3339_or("1970-01-01T00:00:01Z", 7), 1000);
    cr_expect_eq(rfc3339_or("yesterday", 7), 7);
    cr_expect_eq(rfc3339_or(NULL, 7), 7);
}
