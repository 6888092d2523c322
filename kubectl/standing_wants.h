/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "nodeagent/gpu/gpu.h"
#include "partition/mig.h"

/* The instances that stand on a card, as wants for the planner, so that they stay. Pure. */

/* Adds a partition of this kind; ci_slices as in struct mig_want. False: there is no room for
 * another kind. */
bool standing_wants_add(struct mig_wants *w, unsigned profile, unsigned ci_slices, unsigned count);
/* Adds the instances of the mask (bit i: card->state.items[i]). False: one of them cannot be
 * wanted, since the card's table does not have it, or it has no compute instance. */
bool standing_wants_keep(const struct gpu_card *card, uint32_t mask, struct mig_wants *w);
/* The mask of all instances of the card. */
uint32_t standing_wants_all(const struct gpu_card *card);
