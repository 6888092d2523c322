/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/*
 * What a search may still cost, in steps of some 20 ns. Counted, not timed: the same
 * question has the same answer everywhere. A search that has spent it all gives up, and what it
 * answers then means nothing; whoever started it asks with mig_effort_is_spent. Internal to
 * partition/.
 */
struct mig_effort {
    uint64_t left;
};

/* The worst question to a real card takes some 30,000 steps, half a millisecond (`planner_bench`
 * asks them all); what takes sixty times that is no card's table. */
#define MIG_MAX_STEPS 2000000

static inline struct mig_effort mig_effort_whole(void)
{
    return (struct mig_effort){.left = MIG_MAX_STEPS};
}

static inline bool mig_effort_is_spent(const struct mig_effort *w)
{
    return w->left == 0;
}

/* False: all is spent. */
static inline bool mig_effort_spend(struct mig_effort *w, unsigned steps)
{
    w->left = w->left > steps ? w->left - steps : 0;
    return w->left > 0;
}
