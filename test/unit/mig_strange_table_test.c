/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"

#include "partition/mig.h"

/*
 * Tables that no driver has shown yet: other grids, other limits, placements that make no sense.
 * Whatever the table says, there is a verdict.
 */

static struct mig_profile profile(const char *name, unsigned slices, unsigned size, unsigned most)
{
    struct mig_profile p = {.slices = slices, .size = size, .max_count = most};
    (void)snprintf(p.name, sizeof(p.name), "%s", name);
    return p;
}

/* A profile that can start at every multiple of its size, as far as there is room to list them. */
static struct mig_profile aligned(const char *name, unsigned slices, unsigned size,
                                  unsigned memory_slices)
{
    struct mig_profile p = profile(name, slices, size, memory_slices / size);
    for (unsigned at = 0; at + size <= memory_slices && p.n_starts < MIG_MAX_PLACEMENTS; at += size)
        p.starts[p.n_starts++] = (uint8_t)at;
    return p;
}

static struct mig_plan plan_empty(const struct mig_table *t, const struct mig_wants *w)
{
    struct mig_plan plan;
    mig_plan(t, &(struct mig_state){.n = 0}, w, &plan);
    return plan;
}

Test(mig_strange_table, more_instances_than_are_handled_are_refused)
{
    struct mig_table t = {.memory_slices = 32, .slices = 32, .n_profiles = 2};
    t.profiles[0] = aligned("1g.1gb", 1, 1, 32);
    t.profiles[1] = aligned("1g.1gb+me", 1, 1, 32);
    struct mig_wants w = {.n = 1, .items = {{.profile = 0, .count = 17}}};
    cr_assert_str_eq(plan_empty(&t, &w).reason,
                     "1g.1gb x17 needs 17 GPU instances, at most 16 are handled");
    w.items[0].count = 16;
    cr_assert_eq(plan_empty(&t, &w).verdict, MIG_PLAN_CHANGE);
}

Test(mig_strange_table, engines_that_run_out_are_named)
{
    struct mig_table t = {.memory_slices = 4, .slices = 4, .n_profiles = 3};
    t.profiles[0] = aligned("1g.1gb", 1, 1, 4);
    t.profiles[1] = aligned("2g.2gb", 2, 2, 4);
    t.profiles[2] = aligned("4g.4gb", 4, 4, 4);
    t.profiles[0].max_count = 2;
    t.profiles[0].engines.jpeg = 2;
    t.profiles[1].max_count = 1;
    t.profiles[1].engines.jpeg = t.profiles[2].engines.jpeg = 4;
    struct mig_wants w = {.n = 2,
                          .items = {{.profile = 0, .count = 1}, {.profile = 1, .count = 1}}};
    cr_assert_str_eq(plan_empty(&t, &w).reason, "1g.1gb x1, 2g.2gb x1 needs 6 of 4 JPEG engines");
}

Test(mig_strange_table, a_grid_of_32_with_large_compute_instances)
{
    struct mig_table t = {.memory_slices = 32, .slices = 20, .n_profiles = 1};
    t.profiles[0] = aligned("20g.32gb", 20, 32, 32);
    struct mig_wants w = {.n = 1, .items = {{.profile = 0, .ci_slices = 8, .count = 2}}};
    struct mig_plan plan = plan_empty(&t, &w);
    cr_assert_eq(plan.n_create, 1);
    cr_assert_eq(plan.create[0].n_cis, 2);
    w.items[0].ci_slices = 10; /* more than a compute instance is known to have */
    cr_assert_str_eq(plan_empty(&t, &w).reason, "20g.32gb offers no compute instance of 10 slices");
    cr_assert_eq(plan_empty(&t, &w).nearest.n, 0);
}

Test(mig_strange_table, placements_outside_the_grid_are_not_used)
{
    struct mig_table t = {.memory_slices = 4, .slices = 4, .n_profiles = 1};
    t.profiles[0] = profile("1g.1gb", 1, 2, 4);
    t.profiles[0].n_starts = 3;
    memcpy(t.profiles[0].starts, (const uint8_t[]){0, 3, 40}, 3);
    struct mig_wants w = {.n = 1, .items = {{.profile = 0, .count = 1}}};
    cr_assert_eq(plan_empty(&t, &w).create[0].start, 0);
    w.items[0].count = 2;
    cr_assert_eq(plan_empty(&t, &w).verdict, MIG_PLAN_INFEASIBLE);
    t.profiles[0].n_starts = 0;
    w.items[0].count = 1;
    cr_assert_eq(plan_empty(&t, &w).verdict, MIG_PLAN_INFEASIBLE);
    cr_assert_eq(plan_empty(&t, &w).nearest.n, 0, "not even one can stand");
}

Test(mig_strange_table, profiles_of_one_size_and_other_places_keep_apart)
{
    struct mig_table t = {.memory_slices = 4, .slices = 4, .n_profiles = 2};
    t.profiles[0] = profile("1g.1gb+aa", 1, 1, 1);
    t.profiles[0].n_starts = 1;
    t.profiles[0].starts[0] = 3;
    t.profiles[1] = profile("1g.1gb+bb", 1, 1, 1);
    t.profiles[1].n_starts = 1;
    struct mig_wants w = {.n = 2,
                          .items = {{.profile = 0, .count = 1}, {.profile = 1, .count = 1}}};
    struct mig_plan plan = plan_empty(&t, &w);
    cr_assert_eq(plan.n_create, 2);
    cr_assert_eq(plan.create[0].start, 3);
    cr_assert_eq(plan.create[1].start, 0);
}

Test(mig_strange_table, the_base_profile_is_the_one_that_goes_in_most_often)
{
    struct mig_table t = {.memory_slices = 8, .slices = 4, .n_profiles = 4};
    t.profiles[0] = aligned("1g.2gb", 1, 2, 8);
    t.profiles[0].max_count = 2;
    t.profiles[1] = aligned("1g.1gb+me", 1, 1, 8);
    t.profiles[2] = aligned("1g.1gb", 1, 1, 8);
    t.profiles[3] = aligned("2g.2gb", 2, 2, 8);
    struct mig_wants w;
    bool enabled;
    cr_assert_eq(mig_named_layout(&t, "all-balanced", &enabled, &w, NULL), 0);
    auto_free char *text = mig_wants_text(&t, &w);
    cr_assert_str_eq(text, "1g.1gb x2, 2g.2gb x1");
}

/* 32 profiles of one memory slice, of which two and two compete for the same. */
static void make_pairs(struct mig_table *t, struct mig_wants *w)
{
    *t = (struct mig_table){.memory_slices = 32, .slices = 32, .n_profiles = MIG_MAX_PROFILES};
    w->n = MIG_MAX_WANTS;
    for (unsigned i = 0; i < MIG_MAX_PROFILES; i++) {
        char name[MIG_NAME_BYTES];
        (void)snprintf(name, sizeof(name), "%ug.%ugb", i < 16 ? 1U : 2U, i);
        t->profiles[i] = profile(name, 1, 1, 1);
        t->profiles[i].n_starts = 1;
        t->profiles[i].starts[0] = (uint8_t)(i / 2);
        w->items[i] = (struct mig_want){.profile = i, .count = 1};
    }
}

Test(mig_strange_table, a_search_without_end_ends_with_what_it_found)
{
    struct mig_table t;
    struct mig_wants w;
    make_pairs(&t, &w);
    struct mig_plan plan = plan_empty(&t, &w);
    cr_assert_eq(plan.verdict, MIG_PLAN_INFEASIBLE);
    cr_assert(mig_feasible(&t, &plan.nearest));
    cr_assert_gt(plan.nearest.n, 0);
}

Test(mig_strange_table, a_long_list_is_cut_so_that_the_reason_stays_whole)
{
    struct mig_table t;
    struct mig_wants w;
    make_pairs(&t, &w);
    for (unsigned i = 0; i < MIG_MAX_PROFILES; i++)
        t.profiles[i].starts[0] = (uint8_t)i;
    t.slices = 16;
    struct mig_plan plan = plan_empty(&t, &w);
    cr_assert_not_null(strstr(plan.reason, "... needs"), "%s", plan.reason);
    cr_assert_not_null(strstr(plan.reason, "17 of 16 compute slices"), "%s", plan.reason);
}

Test(mig_strange_table, a_full_list_of_kinds_takes_no_replacement_of_another)
{
    struct mig_table t;
    struct mig_wants w;
    make_pairs(&t, &w);
    t.profiles[0] = profile("2g.2gb", 2, 1, 1);
    w.items[0] = (struct mig_want){.profile = 0, .ci_slices = 1, .count = 3};
    struct mig_plan plan = plan_empty(&t, &w);
    cr_assert_eq(plan.verdict, MIG_PLAN_INFEASIBLE);
    cr_assert(mig_feasible(&t, &plan.nearest));
}

Test(mig_strange_table, a_profile_without_size_or_slices_is_not_used)
{
    struct mig_table t = {.memory_slices = 4, .slices = 4, .n_profiles = 3};
    t.profiles[0] = profile("1g.1gb", 1, 0, 4);
    t.profiles[1] = profile("0g.1gb", 0, 1, 4);
    t.profiles[2] = aligned("4g.4gb", 4, 4, 4);
    struct mig_wants w = {.n = 1, .items = {{.profile = 0, .count = 1}}};
    struct mig_plan plan = plan_empty(&t, &w);
    cr_assert_str_eq(plan.reason, "1g.1gb has no placement on this card");
    cr_assert_eq(plan.nearest.n, 0);
    w.items[0].profile = 1;
    cr_assert_eq(plan_empty(&t, &w).verdict, MIG_PLAN_INFEASIBLE);
    t.profiles[1].slices = UINT32_MAX;
    cr_assert_eq(plan_empty(&t, &w).verdict, MIG_PLAN_INFEASIBLE);
    w.items[0] = (struct mig_want){.profile = 2, .count = 2};
    cr_assert_eq(plan_empty(&t, &w).nearest.items[0].count, 1);
    struct mig_state now = {.n = 2, .items = {{.profile = 0, .n_cis = 1}, {.profile = 1}}};
    mig_plan(&t, &now, &w, &plan);
    cr_assert_eq(plan.verdict, MIG_PLAN_INFEASIBLE);
    w.items[0].count = 1;
    mig_plan(&t, &now, &w, &plan);
    cr_assert_eq(plan.destroy, 3);
    t = (struct mig_table){.memory_slices = 0};
    cr_assert_eq(plan_empty(&t, &(struct mig_wants){.n = 0}).verdict, MIG_PLAN_NOTHING);
}

/* Thirty-two compute instances in one GPU instance: nothing has room to list them. */
Test(mig_strange_table, more_compute_instances_than_are_handled_are_not_offered)
{
    struct mig_table t = {.memory_slices = 4, .slices = 32, .n_profiles = 1};
    t.profiles[0] = aligned("3g.40gb", 32, 4, 4);
    struct mig_wants w = {.n = 1, .items = {{.profile = 0, .ci_slices = 1, .count = 24}}};
    cr_expect_str_eq(plan_empty(&t, &w).reason, "3g.40gb offers no compute instance of 1 slices");
    struct mig_state now = {.n = 1, .items = {{.size = 4, .n_cis = 1, .cis = {{.slices = 1}}}}};
    struct mig_plan plan;
    mig_plan(&t, &now, &w, &plan);
    cr_expect_eq(plan.verdict, MIG_PLAN_INFEASIBLE);
    cr_expect_eq(mig_ci_max(32, 1), 0);
    cr_expect_eq(mig_ci_max(32, 4), 8);
    for (unsigned g = 1; g <= MIG_MAX_MEMORY_SLICES; g++)
        for (unsigned c = 1; c <= g; c++)
            cr_expect_leq(mig_ci_max(g, c), MIG_MAX_CIS);
}

/* ---- time ---- */

/* Profiles of one memory slice each that differ in name alone: every order of them is another
 * layout. */
static void many_alike(unsigned kinds, unsigned memory_slices, struct mig_table *t,
                       struct mig_wants *w)
{
    *t = (struct mig_table){.memory_slices = memory_slices, .slices = 8, .n_profiles = kinds};
    *w = (struct mig_wants){.n = kinds};
    for (unsigned i = 0; i < kinds; i++) {
        struct mig_profile *p = &t->profiles[i];
        *p = profile("", 1, 1, 1);
        (void)snprintf(p->name, sizeof(p->name), "1g.%ugb", i + 1);
        p->id = i;
        for (unsigned at = i % 2; at < memory_slices && p->n_starts < MIG_MAX_PLACEMENTS - i / 2;
             at++)
            p->starts[p->n_starts++] = (uint8_t)at;
        w->items[i] = (struct mig_want){.profile = i, .count = 1};
    }
}

/* A table that an agent may send: the controller says that it does not know, and soon. */
Test(mig_strange_table, what_takes_too_long_is_undecided_and_never_infeasible)
{
    struct mig_table t;
    struct mig_wants w;
    many_alike(8, 32, &t, &w);
    cr_assert_eq(mig_table_check(&t, NULL), 0);
    struct mig_plan plan = plan_empty(&t, &w);
    cr_expect_eq(plan.verdict, MIG_PLAN_INFEASIBLE);
    cr_expect(plan.undecided);
    cr_expect_str_eq(plan.reason, "whether 8 kinds of partitions fit could not be decided in "
                                  "2000000 steps; ask for fewer kinds on one card");
    cr_expect_eq(plan.nearest.n, 0);
    cr_expect_eq(plan.steps, 2000000);
    cr_expect(mig_feasible(&t, &w), "they do fit: what is undecided is how best");
}

Test(mig_strange_table, an_undecided_card_keeps_what_stands)
{
    struct mig_table t;
    struct mig_wants w;
    many_alike(8, 32, &t, &w);
    struct mig_state now = {.n = 1, .items = {{.profile = 0, .size = 1, .n_cis = 1}}};
    now.items[0].cis[0] = (struct mig_ci){.slices = 1, .in_use = true};
    struct mig_plan plan;
    mig_plan(&t, &now, &w, &plan);
    cr_assert(plan.undecided);
    cr_expect_eq(plan.keep, 1);
    cr_expect(!plan.destroy && !plan.blocking && !plan.n_create && !plan.n_recut);
}
