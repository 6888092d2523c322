/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <string.h>

#include "base/sb.h"

Test(sb, appends_in_order)
{
    auto_sb struct sb b = SB_INIT(100);
    cr_expect_str_eq(sb_str(&b), "");
    sb_add(&b, "a");
    sb_add_char(&b, 'b');
    sb_addf(&b, "%d%s", 1, "c");
    sb_add_mem(&b, "\0d", 2);
    sb_add_mem(&b, NULL, 0);
    cr_expect_eq(b.len, 6);
    cr_expect_eq(memcmp(sb_str(&b), "ab1c\0d", 7), 0);
    cr_expect_eq(sb_check(&b, NULL), 0);
}

Test(sb, takes_exactly_its_cap)
{
    auto_sb struct sb b = SB_INIT(3);
    sb_add(&b, "abc");
    cr_expect_eq(sb_check(&b, NULL), 0);
    sb_add(&b, "");
    cr_expect_eq(sb_check(&b, NULL), 0);
    sb_add_char(&b, 'd');
    auto_err struct err e = {0};
    cr_expect_eq(sb_check(&b, &e), -ERR_TOO_LARGE);
    cr_expect_str_eq(err_msg(&e), "text longer than 3 bytes");
    cr_expect_str_eq(sb_str(&b), "abc");
}

Test(sb, overflow_sticks_until_reset)
{
    auto_sb struct sb b = SB_INIT(3);
    sb_add(&b, "abcd");
    sb_add(&b, "x");
    cr_expect_str_eq(sb_str(&b), "", "nothing is added behind a gap");
    sb_reset(&b);
    sb_add(&b, "x");
    cr_expect_eq(sb_check(&b, NULL), 0);
    cr_expect_str_eq(sb_str(&b), "x");
}

Test(sb, drops_from_the_front)
{
    auto_sb struct sb b = SB_INIT(100);
    sb_drop_front(&b, 0);
    sb_add(&b, "line\nrest");
    sb_drop_front(&b, 5);
    cr_expect_str_eq(sb_str(&b), "rest");
    sb_drop_front(&b, 4);
    cr_expect_str_eq(sb_str(&b), "");
    cr_expect_eq(b.len, 0);
}

Test(sb, hands_its_text_over)
{
    auto_sb struct sb b = SB_INIT(100);
    auto_free char *none = sb_take(&b);
    cr_expect_str_eq(none, "");
    sb_add(&b, "text");
    auto_free char *text = sb_take(&b);
    cr_expect_str_eq(text, "text");
    cr_expect_eq(b.len, 0);
    sb_add(&b, "again");
    cr_expect_str_eq(sb_str(&b), "again");
}

Test(sb, grows_far)
{
    auto_sb struct sb b = SB_INIT(1 << 20);
    for (int i = 0; i < 100000; i++)
        sb_add(&b, "0123456789");
    cr_expect_eq(b.len, 1000000);
    cr_expect_eq(strlen(sb_str(&b)), 1000000);
}

static void expect_utf8(const char *in, size_t max, const char *want)
{
    auto_sb struct sb b = SB_INIT(1000);
    sb_add_utf8(&b, in, max);
    cr_expect_str_eq(sb_str(&b), want);
}

#define BAD "\xef\xbf\xbd"

Test(sb, shows_bytes_that_are_no_utf8)
{
    expect_utf8("", 100, "");
    expect_utf8("caf\xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80", 100,
                "caf\xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80");
    expect_utf8("a\xff"
                "b",
                100, "a" BAD "b");
    expect_utf8("\xc0\x80", 100, BAD BAD);
    expect_utf8("\xe0\x80\x80", 100, BAD BAD BAD);
    expect_utf8("\xed\xa0\x80", 100, BAD BAD BAD);
    expect_utf8("\xf4\x90\x80\x80", 100, BAD BAD BAD BAD);
    expect_utf8("\xf0\x80\x80\x80", 100, BAD BAD BAD BAD);
    expect_utf8("\xf5\x80", 100, BAD BAD);
    expect_utf8("\xe2\x82", 100, BAD BAD);
    expect_utf8("\xf0\x9f\x98", 100, BAD BAD BAD);
    expect_utf8("\x80x", 100, BAD "x");
}

Test(sb, cuts_between_characters)
{
    expect_utf8("ab\xc3\xa9z", 3, "ab");
    expect_utf8("ab\xc3\xa9z", 4, "ab\xc3\xa9");
    expect_utf8("abc", 0, "");
}
