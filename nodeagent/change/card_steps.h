/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>

#include "nodeagent/mode/card_layout.h"

/*
 * The way from a card as it is to a layout, as data: pure functions, no I/O, no clock.
 * card_steps_to puts the steps in order: down from the old mode, the switch, up into the new one.
 * Each mode writes its own (steps_down and steps_up of its row, nodeagent/mode/<word>.c). The same
 * function makes the steps forward, those of a rollback and those after a crash, so that all three
 * end in the same placements. struct card_steps is in nodeagent/mode/card_layout.h.
 */

struct card_fixed;

/* The present layout of a card, with every placement. */
void card_layout_of(const struct gpu_card *card, struct card_layout *ret);

/* True when the card shows exactly this layout and no mode change is pending. */
bool card_layout_matches(const struct gpu_card *card, const struct card_layout *layout);

/* The ordered steps from the present layout to this one. First, for each GPU instance that goes,
 * its compute instances and then itself; then the switch of the mode, and a reset where the card
 * needs one; then, for each new GPU instance, itself and its compute instances. Slices: those that
 * go, then mode, QoS policy and time slice, then the new ones. Equal parts stay untouched.
 *
 * To and from virtual functions there are no steps although the layouts differ, because only the
 * node's administrator makes them. Parts in use are marked as blocking, not left out: the caller
 * must not run the steps while something blocks. */
void card_steps_to(const struct gpu_card *card, const struct card_layout *layout,
                   struct card_steps *ret);

/* One line for a person: "create 1g.10gb at 4". Profile names come from the table (may be NULL).
 * Caller frees. */
char *card_step_text(const struct card_step *s, const struct mig_table *t);

/* Why there are no steps between the card's mode and this one, which may be the same: only the
 * node's administrator switches one of them. NULL: there are. */
const struct card_fixed *card_fixed_of(const struct gpu_card *card, enum gpu_mode mode);
