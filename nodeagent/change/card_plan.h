/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>

#include "nodeagent/change/card_steps.h"

/*
 * Plans the change of one card: pure functions, no I/O, no clock. A layout is a card's whole
 * configuration with exact placements. The mode's row chooses the target layout (target_of; for MIG
 * by mig_plan, for slices by sgpu_plan), and card_steps_to the way to it.
 */

/* True when both wishes are the same. */
bool card_wish_equal(const struct card_wish *a, const struct card_wish *b);

enum card_verdict {
    CARD_NOTHING,    /* the card is as wanted */
    CARD_CHANGE,     /* the steps can be taken now; they touch nothing in use */
    CARD_DRAIN,      /* possible once everything in steps.blocking and card_blocking is free; no
                        step before that */
    CARD_INFEASIBLE, /* no steps: the layout does not fit the empty card, or reason names what else
                        stands in the way */
};

struct card_plan {
    enum card_verdict verdict;
    const char *reason; /* CamelCase, static: InUse, Infeasible, NotCapable, …; "" else */
    char message[384];  /* for a person; "" unless DRAIN or INFEASIBLE */
    bool resets;        /* the steps include a reset of the card */
    struct card_layout target;
    struct card_steps steps;  /* CHANGE and DRAIN */
    struct mig_wants nearest; /* INFEASIBLE layout: the nearest feasible one */
};

/* Plans the smallest change that turns the card into the wish. Every input gets a verdict.
 * INFEASIBLE, besides a layout that does not fit:
 *  - an unhealthy card, reason Unhealthy;
 *  - a card that cannot have the wanted mode, reason NotCapable;
 *  - a search for a MIG layout that was given up without a proof, reason TooComplex;
 *  - a change of mode on a card with foreign slices, reason Infeasible;
 *  - a card whose users the driver does not report, reason UsersUnknown, unless the change only
 *    creates;
 *  - a change to or from virtual functions, with the reasons of partition/resolve.h. */
void card_plan(const struct gpu_card *card, const struct card_wish *wish, struct card_plan *ret);
