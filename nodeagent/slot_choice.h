/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

#include "nodeagent/gpu/gpu.h"

/*
 * Which replicas or partitions one container should get. Pure. A slot is what is granted: a replica
 * of a card, a partition, or a replica of a partition. Slots are picked one by one, and what was
 * picked counts as granted for the next. Cost: one pass over the slots, and for each one picked a
 * pass over the cards and over the devices of one. (64 cards with 1,023 replicas each, half of them
 * wanted: some 20 ms.)
 *
 * Packed keeps cards free, each rule deciding where the ones before it tie:
 *  1. no card that nothing was granted of, while the others have enough;
 *  2. a card that this container has a slot of already;
 *  3. one that has room for all that is still wanted, of several the one with the least room; if
 *     none has, the one with the most;
 *  4. on it a slot of what has most of its own granted.
 * Distributed spreads the load: the card of which least was granted, on it a slot of what has least
 * of its own granted. Where these tie, the card at the lowest place and the slot with the lowest
 * number.
 */

enum slot_policy { SLOTS_PACKED, SLOTS_DISTRIBUTED };

struct slot {
    uint8_t card;    /* place in the inventory, < GPU_MAX_CARDS */
    uint16_t device; /* the card or partition, on that card, it is a share of; any numbering below
                        n */
    bool available;  /* false: granted already, or ill */
    bool required;   /* of the available ones: in every answer */
};

struct slot_question {
    const struct slot *slots;
    size_t n;
    size_t size; /* slots wanted, the required ones included */
    enum slot_policy policy;
    const uint16_t *elsewhere; /* GPU_MAX_CARDS, by place: what of the card is granted besides,
                                  under other resource names. NULL: nothing */
};

/* Marks the preferred slots: n marks, size of them set. ERR_INVALID: a required slot is not
 * available, more are required than wanted, or more are wanted than available. */
int slot_choice(const struct slot_question *q, bool *ret_chosen, struct err *e) MUST_CHECK;
