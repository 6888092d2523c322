/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>

#include "mig_tables_support.h"
#include "partition/mig_effort.h"
#include "partition/mig_place.h"

/* A budget may end at any step: what was found then is a whole layout, or there is none. */
Test(mig_place, a_budget_that_ends_at_a_layout_gives_no_half_one)
{
    const struct mig_table *t = mig_model(mig_models[0].name);
    struct mig_limits limits;
    mig_limits_init(t, &limits);
    struct mig_counts need = {0};
    need.of[0] = 3;
    size_t found = 0;
    for (uint64_t left = 1; left < 2000; left++) {
        struct mig_effort effort = {.left = left};
        struct mig_layout l = {0};
        if (!mig_place(t, &limits, /* taken= */ 0, &need, &effort, &l))
            continue;
        found++;
        cr_assert_eq(l.n, 3, "with %llu steps", (unsigned long long)left);
    }
    cr_expect_gt(found, 0);
    cr_expect_lt(found, 1999);
}
