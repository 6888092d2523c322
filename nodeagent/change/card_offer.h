/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>

#include "api/device.h"
#include "nodeagent/change/card_plan.h"
#include "nodeagent/gpu/gpu.h"
#include "nodeagent/mode/card_part.h"

/*
 * The devices of one card that a node advertises: the card itself, or some of its parts.
 *
 * A part that a change destroys is withdrawn before the change's first step, so that no more is
 * ever advertised than exists. Pure values.
 */
struct card_offer {
    bool whole; /* the card itself, while it is not cut */
    bool slots; /* slots: slices can be made on it for pods */
    bool fixed; /* all its parts; no step ever removes one */
    unsigned n;
    struct card_offer_item {
        int number, ci;                       /* as in struct card_part */
    } items[MIG_MAX_INSTANCES * MIG_MAX_CIS]; /* the parts that are on offer, unless fixed */
};

/* Everything that exists on the card. */
void card_offer_of(const struct gpu_card *card, struct card_offer *ret);
/* Removes from the offer what the steps destroy. */
void card_offer_withdraw(struct card_offer *o, const struct card_steps *steps);
/* True when `left` has of each kind as many parts as exist and are wanted. Then only parts that are
 * no longer wanted were withdrawn, and none is being moved. */
bool card_offer_keeps(const struct card_offer *left, const struct gpu_card *card,
                      const struct device_want *want);
/* True when the steps destroy nothing that is on offer. */
bool card_offer_allows(const struct card_offer *o, const struct card_steps *steps);
/* True when both offer the same. */
bool card_offer_equal(const struct card_offer *a, const struct card_offer *b);
/* True when this part is on offer. */
bool card_offer_has(const struct card_offer *o, const struct card_part *p);
