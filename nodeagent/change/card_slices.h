/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "nodeagent/change/card_layout.h"

/*
 * The part of card_steps.h for slices with quotas. Pure.
 */

/* True when the layout, or the card's present one, has slices; the functions below then make the
 * steps. */
bool card_slices_concern(const struct gpu_card *card, const struct card_layout *layout);
/* card_layout_of for a card in mode GPU_SGPU. */
void card_slices_layout_of(const struct gpu_card *card, struct card_layout *ret);
/* card_steps_to for slices; ret starts empty. Foreign slices that would have to go block. */
void card_slices_steps_to(const struct gpu_card *card, const struct card_layout *layout,
                          struct card_steps *ret);
/* Slices without a name, by their ids. */
struct card_nameless {
    unsigned n;
    unsigned ids[SGPU_MAX_SLICES];
};
/* The nameless slices on the card, without those in `without` (bit i: card.sgpu item i). */
void card_slices_nameless(const struct gpu_card *card, uint32_t without, struct card_nameless *ret);
/* A slice gets its name only after it is made, so an interrupted change can leave nameless ones.
 * The slices (bit i: card.sgpu item i) that a change which made slices like `made` left behind:
 * each has no name and such a quota, did not exist before, and is not in use. */
uint32_t card_slices_unnamed(const struct gpu_card *card, const struct card_nameless *before,
                             const struct sgpu_wants *made);
/* True when the wish fits on the card beside the foreign slices. Else ret_why (size at least 256)
 * says why not. */
bool card_slices_feasible(const struct gpu_card *card, const struct card_wish *wish, char *ret_why,
                          size_t size);
