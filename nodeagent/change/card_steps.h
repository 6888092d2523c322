/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>

#include "nodeagent/change/card_layout.h"

/*
 * The way from a card as it is to a layout, as data: pure functions, no I/O, no clock. One
 * difference function makes the steps forward, the steps of a rollback and those after a crash, so
 * that all three end in the same placements.
 */

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

/* --- Parts of layouts, for the planner --- */

/* Adds the card's existing GPU instance i, without the compute instances whose bit is in
 * `without`. Borrowed until the next one. */
struct card_instance *card_layout_add_standing(const struct gpu_card *card, unsigned i,
                                               uint32_t without, struct card_layout *ret);
/* Adds a compute instance; start -1: the driver chooses its first compute slice. */
void card_layout_add_ci(struct card_instance *in, unsigned slices, int start);
/* The first compute slice of an existing compute instance; -1: not known. */
int card_ci_start(const struct gpu_card *card, unsigned instance, unsigned ci);
/* Number of the existing GPU instances; 0 where the card is not in MIG mode. */
unsigned card_standing_count(const struct gpu_card *card);
/* True for a change to or from virtual functions, or of such a card. Cleave neither makes nor
 * removes them, so there are no steps. */
bool card_concerns_vfs(const struct gpu_card *card, enum gpu_mode mode);
