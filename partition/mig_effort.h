/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "partition/mig.h"

/*
 * The remaining budget of a search, in steps of some 2 ns. Steps are counted instead of time, so
 * that the same question has the same answer everywhere. A search that has spent its budget gives
 * up, and its result means nothing; the caller that started it checks with mig_effort_is_spent.
 * Internal to partition/.
 */
struct mig_effort {
    uint64_t left;
};

/* A table that takes sixteen times what the worst question about a real card does is not a real
 * card's. */
#define MIG_MAX_STEPS (16 * MIG_WORST_STEPS)

static inline struct mig_effort mig_effort_whole(void)
{
    return (struct mig_effort){.left = MIG_MAX_STEPS};
}

static inline unsigned mig_effort_spent(const struct mig_effort *w)
{
    return (unsigned)(MIG_MAX_STEPS - w->left);
}

static inline bool mig_effort_is_spent(const struct mig_effort *w)
{
    return w->left == 0;
}

/* False: the budget is spent. */
static inline bool mig_effort_spend(struct mig_effort *w, unsigned steps)
{
    w->left = w->left > steps ? w->left - steps : 0;
    return w->left > 0;
}
