/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "nodeagent/offer/node_state.h"
#include "nodeagent/offer/share_card.h"

/*
 * Cards whose shares are clients of an MPS daemon, one daemon a card: as the profile wants it for new
 * shares, and as long as one stands that was made so. Pure.
 */
struct mps_card {
    char uuid[GPU_UUID_BYTES];
    uint64_t memory_mib;
};

struct mps_cards {
    struct mps_card items[GPU_MAX_CARDS]; /* in the order of the cards */
    size_t n;
};

/* Those of this node. */
void mps_cards_find(const struct node_state *s, struct mps_cards *ret);
bool mps_cards_equal(const struct mps_cards *a, const struct mps_cards *b);

/* True when nothing but clients of the daemon is on the card, or will be: then the card can be kept
 * from all other processes. want: the card's; NULL: none. */
bool mps_card_is_exclusive(const struct share_facts *f, const struct gpu_card *card,
                           const struct device_want *want);
