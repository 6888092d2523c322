/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <jansson.h>
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
    unsigned plans;       /* questions to the planner that are left; one that takes longer than the
                           * worst about a real card counts as several (MIG_WORST_STEPS) */
    bool cut;             /* not all was looked at: a smaller change may exist */
    struct fix_cost most; /* changes that do not cost less are not looked for */
};
#define FIX_EFFORT(n) ((struct fix_effort){.plans = (n), .most = {UINT_MAX, UINT_MAX, UINT_MAX}})
/* Takes so many questions from those that are left. False: there are not so many, and the search is
 * cut. */
bool fix_effort_spend(struct fix_effort *effort, size_t plans);

struct layout_fix {
    struct fix_cost cost;
    int mode;           /* of the card then (enum api_mode) */
    json_t *partitions; /* of MIG, as a MIGConfig writes them: {"1g.10gb": 2}; else NULL */
    char *layout;       /* what the card would be: "1g.10gb: 2, 3g.40gb: 1", or "native" */
    char *at;           /* what would be made, with its place: "2g.20gb@2"; "" for a whole card */
};

/* Finds the change that gives so many partitions of this name ("1g.10gb") more than the card has.
 * table: status_card_table. False: nothing that can be done now, and touches nothing in use, gives
 * them. */
bool layout_fix_partitions(const struct device_card *card, const struct mig_table *table,
                           const char *profile, unsigned more, struct fix_effort *effort,
                           struct layout_fix *ret);
/* Finds the change that makes the card as this want has it, which is native or has slices, called
 * `layout`. table NULL: the card has no MIG. False: as above, and where the card is so already. */
bool layout_fix_want(const struct device_card *card, const struct mig_table *table,
                     const struct device_want *want, const char *layout, struct layout_fix *ret);
void layout_fix_done(struct layout_fix *f);

/* True when a costs less: fewer changes of mode, then fewer parts that go, then fewer cards. */
bool fix_cost_is_less(const struct fix_cost *a, const struct fix_cost *b);
struct fix_cost fix_cost_sum(const struct fix_cost *a, const struct fix_cost *b);
