/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>

#include "api/device.h"
#include "nodeagent/offer/holders.h"
#include "nodeagent/offer/shares.h"
#include "nodeagent/offer/sharing.h"

/*
 * Which cards of a node give shares, and how much each of them offers. Where one card of the node
 * is fractional, the vendor's name for whole cards is the pool of shares: the cards that nobody
 * shares join it, each as a single share that is the whole card. Pure.
 */

/* True when a card of the spec (NULL: none) is to be fractional, so that there is a pool. */
bool share_pool_exists(const struct device_spec *spec, const struct sharing_means *means);

struct share_card {
    const struct gpu_card *card; /* borrowed */
    struct fraction_size total, used;
    bool only_whole;              /* it is not fractional: it gives itself, and no part */
    enum api_level memory_level;  /* what its new shares are held to their memory with, */
    enum api_level compute_level; /* ... and to their compute, */
    bool is_capped;               /* ... of which they never have more, also alone, */
    bool may_disable;             /* unless their containers do without */
};

/* What else than the card decides. Borrowed. */
struct share_facts {
    const struct sharing_rules *rules;
    const struct shares *shares;
    const struct holders *holders; /* NULL: not known */
};

/* Fills in what the card offers and what of that is taken. want: the card's; NULL: none. A card that
 * a pod holds under its own identifier is taken as a whole, and so is each card while some adopted
 * pod is not known. False: it gives no shares; its parts, or another kind of sharing, are offered. */
bool share_card_of(const struct share_facts *f, const struct gpu_card *card,
                   const struct device_want *want, struct share_card *ret);
/* What holds containers to their memory on the card: the weakest of what holds for new shares and for
 * those that stand. A share that is the whole card needs nothing. Of adopted pods it is not known, so
 * they have none. */
enum api_level share_card_memory_level(const struct share_card *c, const struct shares *shares);
/* The same for compute. */
enum api_level share_card_compute_level(const struct share_card *c, const struct shares *shares);
/* How many shares more the card can give, by number; 0 also where memory or compute is used up. */
unsigned share_card_room(const struct share_card *c);
