/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "partition/koordinator_mirror.h"
#include "reconcilers/node_view.h"

/* What Koordinator is to see of a node, as the caches show it. Borrows from the view; owns the
 * array. Pure. */
struct koordinator_cards {
    struct koordinator_card *items;
    struct koordinator_node node;
};

/* With a spec that is ordered, or about to be: a card that is to be something else, waits to change
 * or for its reset is withdrawn. A view without a Device has no cards. *ret is overwritten. */
void koordinator_cards_of(const struct node_view *v, const struct device_spec *spec,
                          struct koordinator_cards *ret);
void koordinator_cards_done(struct koordinator_cards *c);
AUTO_DEFINE(koordinator_cards, struct koordinator_cards, koordinator_cards_done)
#define auto_koordinator_cards AUTO(koordinator_cards)
