/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"

#include "mig_tables_support.h"
#include "partition/mig.h"

/* Resolves the requests and compares with the text. */
static void check(const char *model, const struct mig_request *r, size_t n, const char *expected)
{
    const struct mig_table *t = mig_model(model);
    struct mig_wants w;
    auto_err struct err e = {0};
    cr_assert_eq(mig_resolve(t, r, n, &w, &e), 0, "%s", err_msg(&e));
    auto_free char *text = mig_wants_text(t, &w);
    cr_assert_str_eq(text, expected);
}

static void check_refused(const char *model, const char *name, enum err_kind kind, const char *part)
{
    struct mig_request r = {name, 1};
    struct mig_wants w = {.n = 77};
    auto_err struct err e = {0};
    cr_assert_eq(mig_resolve(mig_model(model), &r, 1, &w, &e), -(int)kind, "%s", name);
    cr_assert_not_null(strstr(err_msg(&e), part), "%s", err_msg(&e));
    cr_assert_eq(w.n, 77, "outs are untouched");
}

#define CHECK(model, expected, ...)                                                                \
    do {                                                                                           \
        const struct mig_request r_[] = {__VA_ARGS__};                                             \
        check(model, r_, ARRAY_LEN(r_), expected);                                                 \
    } while (0)

Test(mig_resolve, exact_names_keep_their_order_and_counts)
{
    CHECK("H100-80", "3g.40gb x1, 1g.10gb x2", {"3g.40gb", 1}, {"1g.10gb", 2});
}

Test(mig_resolve, a_name_whose_memory_drifted_finds_the_closest)
{
    CHECK("H100-80", "1g.10gb x1", {"1g.11gb", 1});
    CHECK("H100-80", "1g.20gb x1", {"1g.20gb", 1});
    CHECK("H100-80", "1g.20gb x1", {"1g.21gb", 1});
    CHECK("B200", "1g.23gb x7", {"1g.24gb", 7});
    CHECK("B200", "7g.180gb x1", {"7g.189gb", 1});
    CHECK("H100-NVL", "3g.47gb x1", {"3g.48gb", 1});
    CHECK("H100-NVL", "1g.12gb+me x1", {"1g.11gb+me", 1});
}

Test(mig_resolve, another_models_name_is_not_taken_for_ours)
{
    check_refused("H100-80", "1g.5gb", ERR_NOT_FOUND,
                  "no profile 1g.5gb; it offers 1g.10gb, 1g.10gb+me, 1g.20gb, 2g.20gb");
    check_refused("A30", "1g.5gb", ERR_NOT_FOUND, "it offers 1g.6gb, 1g.6gb+me");
    check_refused("H100-80", "1g.10gb+gfx", ERR_NOT_FOUND, "no profile 1g.10gb+gfx");
    check_refused("H100-80", "5g.40gb", ERR_NOT_FOUND, "no profile 5g.40gb");
}

/* mig-parted's all-1g.20gb is four of an A100's; an H200 has 1g.18gb seven times. */
Test(mig_resolve, a_name_of_another_kind_is_not_rounded)
{
    check_refused("H200", "1g.20gb", ERR_NOT_FOUND, "it offers 1g.18gb, 1g.18gb+me, 1g.35gb");
    check_refused("H100-80", "1g.18gb", ERR_NOT_FOUND, "no profile 1g.18gb");
    check_refused("H100-NVL", "1g.23gb", ERR_NOT_FOUND, "no profile 1g.23gb");
    check_refused("H200", "1g.34gb", ERR_NOT_FOUND, "no profile 1g.34gb");
    check_refused("A30", "1g.7gb", ERR_NOT_FOUND, "no profile 1g.7gb");
    CHECK("H200", "1g.35gb x1", {"1g.36gb", 1});
    CHECK("B200", "1g.23gb x1", {"1g.24gb", 1});
    CHECK("B200", "1g.45gb x1", {"1g.47gb", 1});
}

static const char *const published[] = {
    "1g.5gb",   "1g.6gb",   "1g.10gb",  "1g.12gb",  "1g.18gb", "1g.20gb",  "1g.23gb",  "1g.24gb",
    "1g.34gb",  "1g.35gb",  "1g.36gb",  "1g.45gb",  "1g.47gb", "1g.67gb",  "1g.70gb",  "2g.10gb",
    "2g.12gb",  "2g.20gb",  "2g.24gb",  "2g.35gb",  "2g.36gb", "2g.45gb",  "2g.47gb",  "2g.67gb",
    "2g.70gb",  "3g.20gb",  "3g.40gb",  "3g.47gb",  "3g.48gb", "3g.71gb",  "3g.72gb",  "3g.90gb",
    "3g.93gb",  "3g.95gb",  "3g.135gb", "3g.139gb", "4g.20gb", "4g.24gb",  "4g.40gb",  "4g.47gb",
    "4g.48gb",  "4g.71gb",  "4g.72gb",  "4g.90gb",  "4g.93gb", "4g.95gb",  "4g.96gb",  "4g.135gb",
    "4g.139gb", "7g.40gb",  "7g.80gb",  "7g.94gb",  "7g.96gb", "7g.141gb", "7g.144gb", "7g.180gb",
    "7g.186gb", "7g.189gb", "7g.269gb", "7g.278gb",
};

/* Whoever asks for a published name on another model gets within a sixteenth of what it says, or
 * one GB where that is an eighth at most, and is told. */
Test(mig_resolve, no_published_name_gets_another_amount_of_memory_unsaid)
{
    static const char *const models[] = {"A100-40",  "A100-80", "A30",  "H100-80",
                                         "H100-NVL", "H200",    "B200", "RTX-PRO-6000"};
    for (size_t m = 0; m < ARRAY_LEN(models); m++)
        for (size_t i = 0; i < ARRAY_LEN(published); i++) {
            const struct mig_request r = {published[i], 1};
            const struct mig_table *t = mig_model(models[m]);
            struct mig_wants w;
            char taken[MIG_NAME_BYTES] = "";
            bool rounds = mig_rounds(t, published[i], taken);
            if (mig_resolve(t, &r, 1, &w, NULL) < 0) {
                cr_expect_not(rounds, "%s %s", models[m], published[i]);
                continue;
            }
            const char *found = t->profiles[w.items[0].profile].name;
            struct mig_name asked, got;
            cr_assert_eq(mig_name_parse(published[i], &asked, NULL), 0);
            cr_assert_eq(mig_name_parse(found, &got, NULL), 0);
            unsigned gap = asked.gb > got.gb ? asked.gb - got.gb : got.gb - asked.gb;
            cr_expect(gap * 16 <= got.gb || (gap == 1 && got.gb >= 8), "%s: %s is %s", models[m],
                      published[i], found);
            cr_expect_eq(rounds, gap > 0, "%s: %s", models[m], published[i]);
            if (gap)
                cr_expect_str_eq(taken, found);
        }
}

Test(mig_resolve, a_rounded_name_is_told_in_either_spelling)
{
    const struct mig_table *t = mig_model("B200");
    char taken[MIG_NAME_BYTES];
    cr_expect(mig_rounds(t, "1g.24gb+me", taken));
    cr_expect_str_eq(taken, "1g.23gb+me");
    cr_expect(mig_rounds(t, "1g.24gb.me", taken));
    cr_expect_str_eq(taken, "1g.23gb+me");
    cr_expect(mig_rounds(t, "1c.3g.93gb", taken));
    cr_expect_str_eq(taken, "1c.3g.90gb");
    cr_expect_not(mig_rounds(t, "1g.23gb", taken));
    cr_expect_not(mig_rounds(t, "balanced", taken));
    cr_expect_not(mig_rounds(t, "1g.5gb", taken));
}

Test(mig_resolve, malformed_names_are_invalid_even_with_count_zero)
{
    check_refused("H100-80", "1g.10", ERR_INVALID, "is no MIG profile name");
    struct mig_request r = {"huh", 0};
    struct mig_wants w;
    cr_assert_eq(mig_resolve(mig_model("H100-80"), &r, 1, &w, NULL), -ERR_INVALID);
}

Test(mig_resolve, zero_counts_are_dropped_also_of_profiles_the_card_lacks)
{
    CHECK("H100-80", "2g.20gb x1", {"1g.5gb", 0}, {"2g.20gb", 1}, {"1g.10gb", 0});
    CHECK("H100-80", "nothing", {"1g.10gb", 0});
}

Test(mig_resolve, spellings_of_one_kind_are_counted_together)
{
    CHECK("H100-80", "1g.10gb x3", {"1g.10gb", 1}, {"MIG 1g.10gb", 1}, {"1g.11gb", 1});
    CHECK("H100-80", "1g.10gb x4294967295", {"1g.10gb", UINT32_MAX}, {"1g.11gb", 1});
}

Test(mig_resolve, compute_instances_are_those_that_the_profile_offers)
{
    CHECK("H100-80", "1c.3g.40gb x3, 3g.40gb x1", {"1c.3g.40gb", 3}, {"3c.3g.40gb", 1});
    check_refused("H100-80", "3c.4g.40gb", ERR_NOT_FOUND,
                  "4g.40gb offers no compute instance of 3 slices");
}

Test(mig_resolve, compute_instance_sizes_are_those_of_the_driver)
{
    static const unsigned max[][8] = {
        [1] = {0, 1},
        [2] = {0, 2, 1},
        [3] = {0, 3, 1, 1},
        [4] = {0, 4, 2, 0, 1},
        [7] = {0, 7, 3, 2, 1, 0, 0, 1},
    };
    for (unsigned g = 1; g <= 7; g++) {
        for (unsigned c = 0; c < 8 && max[g][1]; c++)
            cr_assert_eq(mig_ci_max(g, c), max[g][c], "%uc in %ug", c, g);
    }
}

Test(mig_resolve, too_many_kinds_are_too_large)
{
    struct mig_table t = {.memory_slices = 8, .slices = 7, .n_profiles = MIG_MAX_PROFILES};
    struct mig_request r[MIG_MAX_WANTS + 1];
    char names[MIG_MAX_WANTS + 1][MIG_NAME_BYTES];
    for (unsigned i = 0; i <= MIG_MAX_WANTS; i++) {
        struct mig_name n = {.gi_slices = i < MIG_MAX_PROFILES ? i + 1 : 2, .gb = 10};
        n.ci_slices = i < MIG_MAX_PROFILES ? 0 : 1;
        r[i] = (struct mig_request){mig_name_format(&n, names[i]), 1};
        if (i < MIG_MAX_PROFILES)
            mig_name_format(&n, t.profiles[i].name);
    }
    struct mig_wants w;
    cr_assert_eq(mig_resolve(&t, r, MIG_MAX_WANTS + 1, &w, NULL), -ERR_TOO_LARGE);
    cr_assert_eq(mig_resolve(&t, r, MIG_MAX_WANTS, &w, NULL), 0);
}

Test(mig_resolve, a_profile_with_a_name_of_its_own_is_passed_over)
{
    struct mig_table t = {.memory_slices = 8, .slices = 7, .n_profiles = 1};
    t.profiles[0] = (struct mig_profile){.name = "novel", .slices = 1, .size = 1};
    struct mig_request r = {"1g.10gb", 1};
    struct mig_wants w;
    auto_err struct err e = {0};
    cr_assert_eq(mig_resolve(&t, &r, 1, &w, &e), -ERR_NOT_FOUND);
    cr_assert_str_eq(err_msg(&e), "the card has no profile 1g.10gb; it offers novel");
}

static void check_no_layout(const struct mig_table *t, const char *name)
{
    struct mig_wants w;
    bool enabled;
    auto_err struct err e = {0};
    cr_assert_eq(mig_named_layout(t, name, &enabled, &w, &e), -ERR_NOT_FOUND, "%s", name);
    cr_assert_not_null(strstr(err_msg(&e), name), "%s", err_msg(&e));
}

Test(mig_resolve, a_card_without_mig_knows_only_all_disabled)
{
    struct mig_wants w;
    bool enabled = true;
    cr_assert_eq(mig_named_layout(NULL, "all-disabled", &enabled, &w, NULL), 0);
    cr_assert_not(enabled);
    cr_assert_eq(w.n, 0);
    check_no_layout(NULL, "all-enabled");
    check_no_layout(NULL, "all-balanced");
}

Test(mig_resolve, names_that_are_no_built_in_layout_are_not_found)
{
    const struct mig_table *t = mig_model("H100-80");
    check_no_layout(t, "inference");
    check_no_layout(t, "all-");
    check_no_layout(t, "all-1g.5gb");
    check_no_layout(t, "all-1c.3g.40gb");
    check_no_layout(t, "all-1g.10gb+me");
    check_no_layout(t, "All-enabled");
}

Test(mig_resolve, no_balanced_layout_where_the_rule_has_none)
{
    struct mig_table t = {.memory_slices = 4, .slices = 2, .n_profiles = 1};
    t.profiles[0] = (struct mig_profile){.name = "1g.16gb", .slices = 1, .size = 2, .max_count = 2};
    check_no_layout(&t, "all-balanced");
    t.slices = 4; /* the rule has one, the card has no 2g */
    check_no_layout(&t, "all-balanced");
}

Test(mig_resolve, text_of_wants_skips_zeros_and_survives_unknown_profiles)
{
    const struct mig_table *t = mig_model("H100-80");
    struct mig_wants w = {.n = 3, .items = {{0, 0, 0}, {99, 0, 2}, {4, 1, 3}}};
    auto_free char *text = mig_wants_text(t, &w);
    cr_assert_str_eq(text, "? x2, 1c.3g.40gb x3");
}

Test(mig_resolve, a_partitions_name_never_overruns)
{
    struct mig_profile p = {.slices = 3};
    memset(p.name, 'x', MIG_NAME_BYTES - 1);
    char buf[MIG_NAME_BYTES];
    cr_assert_eq(strlen(mig_partition_name(&p, 1, buf)), MIG_NAME_BYTES - 1);
    cr_assert_str_eq(mig_partition_name(&mig_model("H100-80")->profiles[4], 3, buf), "3g.40gb");
}
