/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "interop/koordinator_mirror.h"
#include "reconcilers/node_view.h"

/* The cards of one node in the shape that Koordinator's Device takes, as the caches show them.
 * Borrows from the view; owns the array. Pure. */
struct koordinator_cards {
    struct koordinator_card *items;
    struct koordinator_node node;
};

/* spec is the Device spec that is ordered or about to be. A card is left out when the spec changes
 * it, or when it waits for a change or its reset. A view without a Device has no cards. *ret is
 * overwritten. */
void koordinator_cards_of(const struct node_view *v, const struct device_spec *spec,
                          struct koordinator_cards *ret);
void koordinator_cards_done(struct koordinator_cards *c);
AUTO_DEFINE(koordinator_cards, struct koordinator_cards, koordinator_cards_done)
#define auto_koordinator_cards AUTO(koordinator_cards)
