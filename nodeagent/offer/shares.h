/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/auto.h"

#include "nodeagent/container/slot_pool.h"
#include "nodeagent/gpu/gpu.h"
#include "nodeagent/offer/device_slots.h"
#include "partition/fraction.h"

/*
 * The shares that stand on a node's cards: what each slot of the pool of shares was bound to. No
 * driver knows of them. They are in the records of slots, and this is the same in memory. Plain
 * values; one thread.
 */
struct share {
    unsigned slot;
    char card[GPU_UUID_BYTES];
    unsigned memory_mib, percent; /* percent of the card's compute; 0: no guarantee */
    int memory_level;             /* enum api_level: what holds its container to memory_mib, */
    int compute_level;            /* ... and to percent, */
    bool is_capped;               /* ... which it never has more of, also alone */
    bool is_low;                  /* those of high priority have the card first */
    char *uid, *container;        /* of its pod; owned */
};

/* A share of a pod that another plugin gave its card to (nodeagent/slots/adopted.h). */
struct adopted_share {
    char card[GPU_UUID_BYTES];
    unsigned memory_mib, percent;
    char *ns, *pod;
};

struct shares {
    struct share *items; /* in any order, a slot once; owned */
    size_t n;
    /* Slots with a record that cannot be read: each may have its share on any card. Until its pod has
     * ended and it was released, nothing new is placed, and no card is offered whole or cut. */
    struct device_slots unknown;
    struct adopted_share *adopted; /* sorted by pod; owned */
    size_t n_adopted;
    bool is_adopting; /* there may be more of them, on any card, with the same consequence */
};

/* Puts a share in place of the slot's earlier one, known or not. Copies. */
void shares_put(struct shares *s, const struct share *share);
/* Removes the slot's share. No effect without one. */
void shares_drop(struct shares *s, unsigned slot);
/* The slot's share; NULL: there is none. Borrowed until the next change. */
const struct share *shares_find(const struct shares *s, unsigned slot);
/* True while some slot's share is unknown; *ret_slot (may be NULL) is the first such slot. */
bool shares_have_unknown(const struct shares *s, unsigned *ret_slot);
/* True while nothing new may be placed on any card: not all that stands is known. */
bool shares_are_in_doubt(const struct shares *s);
/* True when it was made for this container of the pod with this uid. */
bool share_is_of(const struct share *s, const char *uid, const char *container);
/* True when the share is the whole of a card with so much memory, so that nothing has to hold its
 * container to it. */
bool share_is_whole(const struct share *s, uint64_t card_mib);
/* What the shares on a card take together. */
struct fraction_size shares_on(const struct shares *s, const char *card);

/* Puts copies of these in place of the adopted ones. */
void shares_adopt(struct shares *s, const struct adopted_share *list, size_t n, bool is_adopting);

/* A copy for another thread. Free with shares_done. */
struct shares shares_copy(const struct shares *s);
void share_done(struct share *s);
void shares_done(struct shares *s);
AUTO_DEFINE(shares, struct shares, shares_done)
#define auto_shares AUTO(shares)
