/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <limits.h>

#include "api/device.h"
#include "partition/mig.h"

/*
 * The smallest change of one card's layout that gives a pod more of what it asks for, beside all that
 * is in use: by the agent's planners (partition/mig.h, nodeagent/change/card_plan.h). Pure.
 */

/* The price of a change. */
struct fix_cost {
    unsigned modes; /* cards whose mode changes */
    unsigned goes;  /* parts that would go, none of which is in use */
    unsigned cards; /* that change */
};

/* How much a search may do, and whether it did it all. Its owner keeps it over several nodes. */
struct fix_effort {
    unsigned plans;       /* questions to the planner that are left */
    bool cut;             /* not all that could be was looked at: a smaller change may exist */
    struct fix_cost most; /* what does not cost less is not looked for */
};
#define FIX_EFFORT(n) ((struct fix_effort){.plans = (n), .most = {UINT_MAX, UINT_MAX, UINT_MAX}})
/* Takes so many questions from those that are left. False: there are not so many, and the search is
 * cut. */
bool fix_effort_spend(struct fix_effort *effort, size_t plans);

struct layout_fix {
    struct fix_cost cost;
    char *layout; /* what the card would be: "1g.10gb: 2, 3g.40gb: 1", or "native" */
    char *at;     /* what would be made, with its place: "2g.20gb@2"; "" for a whole card */
};

/* So many partitions of this name ("1g.10gb") more than the card has. table:
 * status_card_table. False:
 * nothing that can be done now, and touches nothing in use, gives them. */
bool layout_fix_partitions(const struct device_card *card, const struct mig_table *table,
                           const char *profile, unsigned more, struct fix_effort *effort,
                           struct layout_fix *ret);
/* The card as this want has it, called `layout`. table NULL: it has no MIG. False: as above, and where it
 * is so already. */
bool layout_fix_want(const struct device_card *card, const struct mig_table *table,
                     const struct device_want *want, const char *layout, struct layout_fix *ret);
void layout_fix_done(struct layout_fix *f);

/* True when a costs less: fewer changes of mode, then fewer parts that go, then fewer cards. */
bool fix_cost_is_less(const struct fix_cost *a, const struct fix_cost *b);
struct fix_cost fix_cost_sum(const struct fix_cost *a, const struct fix_cost *b);
