/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>

#include "api/device.h"
#include "nodeagent/card_part.h"
#include "nodeagent/card_plan.h"
#include "nodeagent/gpu/gpu.h"

/*
 * What of one card others are told that they may have: the card itself, or some of its partitions,
 * or slices by their numbers, or all of its virtual functions.
 * What a change takes away is withdrawn before its first step, so that nobody is ever told of more
 * than there is. Pure values.
 */
struct card_offer {
    bool whole; /* the card, while it is not cut */
    bool slots; /* it can be asked for slices that are made for pods */
    bool vfs;   /* those that it has: no step of ours takes one away */
    unsigned n;
    struct card_offer_item {
        unsigned gi_id, ci_id;
    } items[MIG_MAX_INSTANCES * MIG_MAX_CIS];
    unsigned n_slices;
    unsigned slices[SGPU_MAX_SLICES];
};

/* All that stands. */
void card_offer_of(const struct gpu_card *card, struct card_offer *ret);
/* Takes out what the steps take away. */
void card_offer_withdraw(struct card_offer *o, const struct card_steps *steps);
/* After `left` nothing of what stands on the card and is wanted is missing: only what is wanted no
 * more has gone, none was moved elsewhere. */
bool card_offer_keeps(const struct card_offer *left, const struct gpu_card *card,
                      const struct device_want *want);
/* Do the steps leave alone all that is on offer? */
bool card_offer_allows(const struct card_offer *o, const struct card_steps *steps);
/* Do they offer the same? */
bool card_offer_equal(const struct card_offer *a, const struct card_offer *b);
/* Is this part on offer? */
bool card_offer_has(const struct card_offer *o, const struct card_part *p);
