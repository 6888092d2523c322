/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>

#include "base/auto.h"
#include "base/quantity.h"

Test(quantity, reads_what_kubernetes_writes)
{
    static const struct {
        const char *text;
        int64_t want;
    } cases[] = {
        {"0", 0},
        {"7", 7},
        {"+7", 7},
        {"-7", -7},
        {"100m", 1},
        {"1000m", 1},
        {"1001m", 2},
        {"-1500m", -2},
        {"1n", 1},
        {"2u", 1},
        {"1k", 1000},
        {"1M", 1000000},
        {"1E", 1000000000000000000},
        {"1e3", 1000},
        {"1E3", 1000},
        {"1e+3", 1000},
        {"12e-1", 2},
        {"16Gi", INT64_C(17179869184)},
        {"1.5Gi", INT64_C(1610612736)},
        {"0.1Ki", 103},
        {".5", 1},
        {"5.", 5},
        {"0.000", 0},
        {"0e9999", 0},
        {"1e-9999", 1},
        {"7Ei", INT64_C(8070450532247928832)},
        {"9223372036854775807", INT64_MAX},
        {"-9223372036854775807", -INT64_MAX},
        {"9223372036854775806.5", INT64_MAX},
        {"0.0000000000000000000000000000000000000001Ei", 1},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        int64_t n = -1;
        auto_err struct err e = {0};
        cr_assert_eq(quantity_parse(cases[i].text, &n, &e), 0, "%s", err_msg(&e));
        cr_expect_eq(n, cases[i].want, "%s is %lld", cases[i].text, (long long)n);
    }
}

Test(quantity, refuses_what_is_none)
{
    static const char *const bad[] =
        {"",     ".",       "-",
         "+",    "Gi",      "1 Gi",
         " 1",   "1gi",     "1KI",
         "1ki",  "1K",      "1e",
         "1e+",  "1e+-3",   "1e1.5",
         "1..2", "1.2.3",   "--1",
         "0x1",  "1e99999", "1Gi ",
         "1mm",  "NaN",     "11111111111111111111111111111111111111111111111111111111111111111"};
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        int64_t n = 42;
        auto_err struct err e = {0};
        cr_expect_eq(quantity_parse(bad[i], &n, &e), -ERR_INVALID, "%s", bad[i]);
        cr_expect_eq(n, 42);
    }
}

Test(quantity, refuses_what_does_not_fit)
{
    static const char *const bad[] = {"8Ei",
                                      "9223372036854775808",
                                      "9223372036854775807.1",
                                      "1e19",
                                      "1e9999",
                                      "-8Ei",
                                      "99999999999999999999999999999999999999Ei"};
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        int64_t n;
        auto_err struct err e = {0};
        cr_expect_eq(quantity_parse(bad[i], &n, &e), -ERR_TOO_LARGE, "%s", bad[i]);
    }
}

Test(quantity, formats_whole_numbers)
{
    auto_free char *text = quantity_format(INT64_MIN);
    cr_expect_str_eq(text, "-9223372036854775808");
}

Test(quantity, formats_in_the_largest_binary_unit_that_divides)
{
    static const struct {
        int64_t value;
        const char *text;
    } table[] = {
        {0, "0"},
        {1023, "1023"},
        {INT64_C(64) << 30, "64Gi"},
        {INT64_C(81559) << 20, "81559Mi"},
        {INT64_C(1) << 62, "4Ei"},
        {-(INT64_C(3) << 10), "-3Ki"},
    };
    for (size_t i = 0; i < ARRAY_LEN(table); i++) {
        auto_free char *text = quantity_format_binary(table[i].value);
        int64_t back = 0;
        cr_expect_str_eq(text, table[i].text);
        cr_expect_eq(quantity_parse(text, &back, NULL), 0);
        cr_expect_eq(back, table[i].value);
    }
}
