/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>

#include "base/num.h"

static void expect_number(const char *text, int64_t want)
{
    int64_t n = 0;
    auto_err struct err e = {0};
    cr_assert_eq(num_parse(text, INT64_MIN, INT64_MAX, &n, &e), 0, "%s", err_msg(&e));
    cr_expect_eq(n, want);
}

static void refuse(const char *text)
{
    int64_t n = 42;
    auto_err struct err e = {0};
    cr_expect_eq(num_parse(text, -100, 100, &n, &e), -ERR_INVALID, "%s", text);
    cr_expect_eq(n, 42, "outs are untouched on failure");
}

Test(num, reads_whole_numbers)
{
    expect_number("0", 0);
    expect_number("-7", -7);
    expect_number("007", 7);
    expect_number("9223372036854775807", INT64_MAX);
    expect_number("-9223372036854775808", INT64_MIN);
}

Test(num, refuses_everything_else)
{
    const char *const bad[] = {"",
                               "-",
                               "+1",
                               " 1",
                               "1 ",
                               "1.0",
                               "0x1",
                               "1e3",
                               "--1",
                               "101",
                               "-101",
                               "9223372036854775808",
                               "99999999999999999999999"};
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        refuse(bad[i]);
}

Test(num, tells_the_range)
{
    int64_t n;
    auto_err struct err e = {0};
    cr_assert_eq(num_parse("9", 1, 5, &n, &e), -ERR_INVALID);
    cr_expect_str_eq(err_msg(&e), "\"9\" is not a whole number from 1 to 5");
    cr_assert_eq(num_parse("many", 1, 5, &n, &e), -ERR_INVALID);
    cr_expect_str_eq(err_msg(&e), "\"many\" is not a whole number from 1 to 5");
}

Test(num, reads_pci_ids)
{
    uint32_t n = 0;
    cr_assert_eq(num_parse_hex32("0x233010DE", &n, NULL), 0);
    cr_expect_eq(n, 0x233010de);
    cr_assert_eq(num_parse_hex32("0Xffffffff", &n, NULL), 0);
    cr_expect_eq(n, UINT32_MAX);
    cr_assert_eq(num_parse_hex32("17", &n, NULL), 0);
    cr_expect_eq(n, 17);
}

Test(num, refuses_what_is_no_pci_id)
{
    const char *const bad[] = {"",         "0x",         "0xg",
                               "0x-1",     "0x 1",       "0x100000000",
                               "233010DE", "4294967296", "0xffffffffffffffffffff"};
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        uint32_t n = 42;
        auto_err struct err e = {0};
        cr_expect_eq(num_parse_hex32(bad[i], &n, &e), -ERR_INVALID, "%s", bad[i]);
        cr_expect_eq(n, 42);
    }
}
