/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>

#include "nodeagent/change/card_steps.h"

/*
 * The change of one card, as data: pure functions, no I/O, no clock. A layout is a card's whole
 * configuration with exact placements. The planner chooses the target layout once; card_steps.h has
 * the way to it.
 */

/* True when both wishes are the same. */
bool card_wish_equal(const struct card_wish *a, const struct card_wish *b);

enum card_verdict {
    CARD_NOTHING,    /* the card is as wanted */
    CARD_CHANGE,     /* the steps can be taken now; they touch nothing in use */
    CARD_DRAIN,      /* possible once everything in steps.blocking and card_blocking is free; no
                        step before that */
    CARD_INFEASIBLE, /* not possible on this card, even when it is empty */
};

struct card_plan {
    enum card_verdict verdict;
    const char *reason; /* CamelCase, static: InUse, Infeasible, NotCapable, …; "" else */
    char message[384];  /* for a person; "" unless DRAIN or INFEASIBLE */
    bool resets;        /* the steps include a reset of the card */
    struct card_layout target;
    struct card_steps steps;  /* CHANGE and DRAIN */
    struct mig_wants nearest; /* INFEASIBLE geometry: the nearest feasible layout */
};

/* Plans the smallest change that turns the card into the wish. Every input gets a verdict.
 * INFEASIBLE, besides a geometry that does not fit:
 *  - an unhealthy card, reason Unhealthy;
 *  - a card whose users the driver does not report, reason UsersUnknown, unless the change only
 *    creates;
 *  - a change to or from virtual functions, with the reasons of partition/resolve.h. */
void card_plan(const struct gpu_card *card, const struct card_wish *wish, struct card_plan *ret);
