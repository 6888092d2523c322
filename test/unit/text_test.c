/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>

#include "base/auto.h"
#include "base/text.h"

Test(text, an_absent_text_is_the_same_as_another_and_equal_to_an_empty_one)
{
    static const struct {
        const char *a, *b;
        bool is_same, is_equal;
    } rows[] = {{"x", "x", true, true},    {"x", "y", false, false}, {"x", "", false, false},
                {"x", NULL, false, false}, {"", NULL, false, true},  {NULL, NULL, true, true}};
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        cr_expect_eq(text_same(rows[i].a, rows[i].b), rows[i].is_same, "%zu", i);
        cr_expect_eq(text_same(rows[i].b, rows[i].a), rows[i].is_same, "%zu", i);
        cr_expect_eq(text_equal(rows[i].a, rows[i].b), rows[i].is_equal, "%zu", i);
        cr_expect_eq(text_equal(rows[i].b, rows[i].a), rows[i].is_equal, "%zu", i);
    }
}

Test(text, an_absent_text_comes_before_all_but_the_empty_one)
{
    cr_expect_eq(text_order(NULL, ""), 0);
    cr_expect_lt(text_order(NULL, "a"), 0);
    cr_expect_gt(text_order("a", NULL), 0);
    cr_expect_lt(text_order("a", "b"), 0);
}
