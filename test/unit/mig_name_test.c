/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <string.h>

#include "base/auto.h"

#include "partition/mig_name.h"

static void check_round(const char *in, const char *canonical, const char *label)
{
    struct mig_name n;
    char buf[MIG_NAME_BYTES];
    cr_assert_eq(mig_name_parse(in, &n, NULL), 0, "%s", in);
    cr_assert_str_eq(mig_name_format(&n, buf), canonical);
    cr_assert_str_eq(mig_name_format_label(&n, buf), label);
}

static void check_refused(const char *in, const char *part)
{
    struct mig_name n = {.gb = 77};
    auto_err struct err e = {0};
    cr_assert_eq(mig_name_parse(in, &n, &e), -ERR_INVALID, "%s", in);
    cr_assert_not_null(strstr(err_msg(&e), part), "%s: %s", in, err_msg(&e));
    cr_assert_eq(n.gb, 77, "outs are untouched");
}

Test(mig_name, reads_every_shape_and_prints_it_canonically)
{
    check_round("1g.10gb", "1g.10gb", "1g.10gb");
    check_round("MIG 1g.10gb+me", "1g.10gb+me", "1g.10gb.me");
    check_round("1c.3g.40gb", "1c.3g.40gb", "1c.3g.40gb");
    check_round("1g.24gb+me.all", "1g.24gb+me.all", "1g.24gb.me.all");
    check_round("2g.48gb-me", "2g.48gb-me", "2g.48gb-me");
    check_round("1g.24gb+gfx", "1g.24gb+gfx", "1g.24gb.gfx");
    check_round("1g.24gb+gfx,me", "1g.24gb+gfx,me", "1g.24gb.gfx,me");
    check_round("1c.2g.48gb+me.all", "1c.2g.48gb+me.all", "1c.2g.48gb.me.all");
    check_round("3g.0gb", "3g.0gb", "3g.0gb");
}

Test(mig_name, a_compute_instance_that_fills_its_gpu_instance_has_no_prefix)
{
    check_round("3c.3g.40gb", "3g.40gb", "3g.40gb");
    struct mig_name n = {.ci_slices = 3, .gi_slices = 3, .gb = 40};
    char buf[MIG_NAME_BYTES];
    cr_assert_str_eq(mig_name_format(&n, buf), "3g.40gb");
}

Test(mig_name, says_what_is_wrong)
{
    static const char *const shapes[] = {"",         "gpu",        "1g",         "1g.10",
                                         "1g.gb",    "g.10gb",     "c.3g.40gb",  "1c.3.40gb",
                                         "1c.g.4gb", "01g.10gb",   "1g.00010gb", "10000g.1gb",
                                         " 1g.10gb", "1G.10GB",    "-1g.10gb",   "1g 10gb",
                                         "1c.",      "mig-1g.5gb", "1g.99999gb"};
    for (size_t i = 0; i < ARRAY_LEN(shapes); i++)
        check_refused(shapes[i], "expected a form such as");
    check_refused("0g.10gb", "1 slice or more");
    check_refused("0c.3g.40gb", "1 slice or more");
    check_refused("4c.3g.40gb", "fits its GPU instance");
    check_refused("1g.10gb ", "only attributes");
    check_refused("1g.10gb.me", "only attributes");
    check_refused("1g.10gb+", "letters, digits");
    check_refused("1g.10gb+1me", "letters, digits");
    check_refused("1g.10gb+me.", "letters, digits");
    check_refused("1g.10gb+me..all", "letters, digits");
    check_refused("1g.10gb+me,", "letters, digits");
    check_refused("1g.10gb+me-gfx", "letters, digits");
    check_refused("1g.10gb+me,gfx,me", "twice");
    check_refused("1g.10gb+abcdefghijklmnopqrstuvwxyz", "too long");
}

Test(mig_name, an_attribute_that_starts_like_another_is_not_the_same)
{
    check_round("1g.24gb+me,mf", "1g.24gb+me,mf", "1g.24gb.me,mf");
    check_round("1g.24gb+me,me.all", "1g.24gb+me,me.all", "1g.24gb.me,me.all");
}

Test(mig_name, the_label_spelling_has_a_dot_for_the_plus)
{
    struct mig_name n;
    char buf[MIG_NAME_BYTES];
    cr_assert_eq(mig_name_parse_label("1g.24gb.me.all", &n, NULL), 0);
    cr_assert_str_eq(mig_name_format(&n, buf), "1g.24gb+me.all");
    cr_assert_eq(mig_name_parse_label("1g.24gb-me", &n, NULL), 0);
    cr_assert_str_eq(mig_name_format(&n, buf), "1g.24gb-me");
    cr_assert_eq(mig_name_parse_label("1g.24gb+me", &n, NULL), -ERR_INVALID);
}

Test(mig_name, the_longest_name_is_cut_and_not_overrun)
{
    struct mig_name n = {UINT32_MAX, UINT32_MAX - 1, UINT32_MAX, "+abcdefghijklmnopqr"};
    char buf[MIG_NAME_BYTES];
    cr_assert_eq(strlen(mig_name_format(&n, buf)), MIG_NAME_BYTES - 1);
}
