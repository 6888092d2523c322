/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "base/auto.h"
#include "base/err.h"

#include "partition/mig.h"
#include "test/unit/mig_tables_support.h"

/* Tables from outside, judged before anything is planned with them. */

Test(mig_check, every_table_of_a_real_card_passes)
{
    for (const struct mig_model *m = mig_models; m->name; m++) {
        auto_err struct err e = {0};
        cr_expect_eq(mig_table_check(&m->table, &e), 0, "%s: %s", m->name, err_msg(&e));
    }
    cr_expect_eq(mig_table_check(&(struct mig_table){0}, NULL), 0, "a card without MIG");
}

typedef void spoil_fn(struct mig_table *t);

static void expect_refused(spoil_fn *spoil, const char *message)
{
    auto_err struct err e = {0};
    struct mig_table t = *mig_model("A100-40");
    spoil(&t);
    cr_expect_eq(mig_table_check(&t, &e), -(int)ERR_INVALID, "%s", message);
    cr_expect_str_eq(err_msg(&e), message);
}

static void more_slices(struct mig_table *t)
{
    t->profiles[0].slices = 32;
}

static void no_slices(struct mig_table *t)
{
    t->profiles[0].slices = 0;
}

static void wide_card(struct mig_table *t)
{
    t->slices = 9;
}

static void wide_grid(struct mig_table *t)
{
    t->memory_slices = 33;
}

static void many_profiles(struct mig_table *t)
{
    t->n_profiles = MIG_MAX_PROFILES + 1;
}

static void no_size(struct mig_table *t)
{
    t->profiles[0].size = 0;
}

static void great_size(struct mig_table *t)
{
    t->profiles[0].size = UINT_MAX;
}

static void off_the_grid(struct mig_table *t)
{
    t->profiles[0].starts[t->profiles[0].n_starts - 1] = 255;
}

static void many_placements(struct mig_table *t)
{
    t->profiles[0].n_starts = UINT_MAX;
}

static void one_placement_twice(struct mig_table *t)
{
    t->profiles[0].starts[1] = t->profiles[0].starts[0];
}

static void great_count(struct mig_table *t)
{
    t->profiles[0].max_count = 33;
}

static void great_id(struct mig_table *t)
{
    t->profiles[0].id = UINT_MAX;
}

static void great_memory(struct mig_table *t)
{
    t->profiles[0].memory_mib = UINT64_MAX;
}

static void many_engines(struct mig_table *t)
{
    t->profiles[0].engines.jpeg = UINT_MAX;
}

static void one_name_twice(struct mig_table *t)
{
    (void)snprintf(t->profiles[1].name, sizeof(t->profiles[1].name), "%s", t->profiles[0].name);
}

static void one_id_twice(struct mig_table *t)
{
    t->profiles[1].id = t->profiles[0].id;
}

Test(mig_check, what_no_card_can_have_is_refused_by_profile_and_value)
{
    expect_refused(more_slices,
                   "MIG profile 1g.5gb: compute slices 32, only 1 to 8 can be handled");
    expect_refused(no_slices, "MIG profile 1g.5gb: compute slices 0, only 1 to 8 can be handled");
    expect_refused(wide_card, "9 compute slices; at most 8 can be handled");
    expect_refused(wide_grid,
                   "7 MIG profiles on 33 memory slices; at most 32 on 32 can be handled");
    expect_refused(many_profiles,
                   "33 MIG profiles on 8 memory slices; at most 32 on 32 can be handled");
    expect_refused(no_size, "MIG profile 1g.5gb: memory slices 0, only 1 to 32 can be handled");
    expect_refused(great_size,
                   "MIG profile 1g.5gb: memory slices 4294967295, only 1 to 32 can be handled");
    expect_refused(off_the_grid,
                   "MIG profile 1g.5gb has placement 255:1, which is not on a grid of "
                   "8 memory slices");
    expect_refused(many_placements,
                   "MIG profile 1g.5gb: placements 4294967295, only 0 to 16 can be handled");
    expect_refused(one_placement_twice,
                   "MIG profile 1g.5gb has placement 0:1 twice, or not in ascending order");
    expect_refused(great_count,
                   "MIG profile 1g.5gb: count per card 33, only 0 to 32 can be handled");
    expect_refused(great_id, "MIG profile 1g.5gb: id 4294967295, only 0 to 2147483647 can be "
                             "handled");
    expect_refused(great_memory, "MIG profile 1g.5gb: MiB of memory 18446744073709551615, only "
                                 "0 to 16777216 can be handled");
    expect_refused(many_engines,
                   "MIG profile 1g.5gb: JPEG engines 4294967295, only 0 to 2147483647 can be "
                   "handled");
    expect_refused(one_name_twice, "two MIG profiles have the name 1g.5gb");
    expect_refused(one_id_twice, "MIG profiles 1g.5gb and 1g.5gb+me both have id 19");
}
