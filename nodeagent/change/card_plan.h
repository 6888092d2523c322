/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>

#include "nodeagent/change/card_layout.h"

/*
 * The change of one card, as data: pure functions, no I/O, no clock. A layout is a card's whole
 * configuration with exact placements. The planner chooses the target layout once. One difference
 * function then makes the steps forward, the steps of a rollback and those after a crash, so that
 * all three end in the same placements.
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

/* The present layout of a card, with every placement. */
void card_layout_of(const struct gpu_card *card, struct card_layout *ret);

/* True when the card shows exactly this layout and no mode change is pending. */
bool card_layout_matches(const struct gpu_card *card, const struct card_layout *layout);

/* The ordered steps from the present layout to this one: destroy compute instances, destroy GPU
 * instances, switch the mode, create instances. For slices: destroy, then QoS policy and time
 * slice, then create. Equal parts stay untouched.
 *
 * To and from virtual functions there are no steps although the layouts differ, because only the
 * node's administrator makes them. Parts in use are marked as blocking, not left out: the caller
 * must not run the steps while something blocks. */
void card_steps_to(const struct gpu_card *card, const struct card_layout *layout,
                   struct card_steps *ret);

/* One line for a person: "create 1g.10gb at 4". Profile names come from the table (may be NULL).
 * Caller frees. */
char *card_step_text(const struct card_step *s, const struct mig_table *t);
