/* SPDX-License-Identifier: Apache-2.0 */
#include "partition/mig_feasible.h"

#include "partition/mig_pack.h"

/* The fewest GPU instances that hold the demand; false when a profile cannot hold its share. */
static bool sum_instances(const struct mig_table *t, const struct mig_demand *d,
                          struct mig_effort *effort, struct mig_counts *ret)
{
    *ret = (struct mig_counts){0};
    for (unsigned p = 0; p < t->n_profiles; p++) {
        unsigned total = mig_cuts_total(&d->of[p]);
        if (total == d->of[p].n[0]) { /* whole instances need no packing */
            ret->of[p] = total;
            continue;
        }
        struct mig_packing bins;
        bins.n = 0;
        if (!mig_pack(t->profiles[p].slices, &d->of[p], t->profiles[p].max_count, effort, &bins))
            return false;
        ret->of[p] = bins.n;
    }
    return true;
}

bool mig_feasible_within(const struct mig_table *t, const struct mig_limits *l,
                         const struct mig_wants *wants, struct mig_effort *effort)
{
    struct mig_demand d;
    struct mig_counts all;
    return mig_demand_init(t, wants, &d) && sum_instances(t, &d, effort, &all) &&
           mig_limits_check(t, l, &all).limit == MIG_LIMIT_NONE &&
           mig_fits(t, /* taken= */ 0, &all, effort);
}

bool mig_feasible(const struct mig_table *t, const struct mig_wants *wants)
{
    struct mig_limits l;
    struct mig_effort effort = mig_effort_whole();
    mig_limits_init(t, &l);
    return mig_feasible_within(t, &l, wants, &effort);
}
