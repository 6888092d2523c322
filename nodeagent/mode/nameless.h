/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "nodeagent/mode/card_layout.h"

/* Slices without a name, which an interrupted change can leave half-made. Pure. */

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
