/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "nodeagent/card_plan.h"

/*
 * The part of card_plan.h that is about slices with quotas. Pure.
 */

/* Is the layout, or what stands on the card, one of slices? Then the steps come from here. */
bool card_slices_concern(const struct gpu_card *card, const struct card_layout *layout);
/* card_layout_of for a card in mode GPU_SGPU. */
void card_slices_layout_of(const struct gpu_card *card, struct card_layout *ret);
/* card_steps_to; ret is empty. Foreign slices that would have to go block. */
void card_slices_steps_to(const struct gpu_card *card, const struct card_layout *layout,
                          struct card_steps *ret);
/* Slices without a name, by their ids. */
struct card_nameless {
    unsigned n;
    unsigned ids[SGPU_MAX_SLICES];
};
/* Those that stand on the card, but for the slices in `without` (bit i: card.sgpu item i). */
void card_slices_nameless(const struct gpu_card *card, uint32_t without, struct card_nameless *ret);
/* A slice gets its name only after it is made. Which slices (bit i: card.sgpu item i) were left
 * behind in between by a change that made slices as these: they have no name and such a quota,
 * stood not before, and nobody uses them. */
uint32_t card_slices_unnamed(const struct gpu_card *card, const struct card_nameless *before,
                             const struct sgpu_wants *made);
/* Can the card be as wanted, beside what others made on it? Else why not, in the caller's buffer
 * (size at least 256). */
bool card_slices_feasible(const struct gpu_card *card, const struct card_wish *wish, char *ret_why,
                          size_t size);
