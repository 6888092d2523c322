/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "nodeagent/offer/card_choice.h"
#include "nodeagent/offer/share_card.h"
#include "nodeagent/slots/share_wish.h"
#include "nodeagent/slots/slot_bind.h"

/*
 * On which cards the shares of a container lie, where it asks for them with slots. Pure policy.
 */

/* A card of the node. */
struct share_place {
    struct share_card card; /* total.shares 0: it takes no new ones, and may still have old ones */
    bool open;              /* may get new shares: it is not ill, and no change is about to begin */
};

struct share_places {
    const struct share_place *items; /* borrowed, as shares */
    size_t n;
    const struct shares *shares; /* those that stand */
    /* How well the cards are connected, by their places in items; NULL: not known. */
    const struct card_scores *scores;
};

/* For whom: b's pod and container. The slots are those of b->bound (b->n of them), whose card and
 * quota are filled in.
 *  - A share that was made for this container stays where it is, however full or closed its card
 *    is; while the card is missing the container waits.
 *  - Else, where a scheduler chose (share_wish.h), the cards that it named and no others.
 *  - Else the planner chooses, by the pod's own wishes (partition/fraction.h).
 *
 * What an earlier pod left under one of the slots does not count. ERR_UNAVAILABLE: there may be
 * room later; ERR_INVALID: this node can never hold it. */
int share_place(const struct share_places *p, const struct share_wish *wish, struct slot_binding *b,
                struct err *e) MUST_CHECK;
