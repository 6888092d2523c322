/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

#include "nodeagent/gpu/gpu.h"

/*
 * Chooses replicas or partitions for one container. Pure. A *replica* here is what the kubelet
 * grants: a replica of a card, a partition (which has one replica), or a replica of a partition.
 * Replicas are picked one by one; a picked one counts as granted for the next pick. Cost: one pass
 * over the replicas, and for each pick one pass over the cards and over the devices of one card.
 * (64 cards with 1,023 replicas each, half of them wanted: about 20 ms.)
 *
 * Packed keeps cards free. Each rule decides where the ones before it tie:
 *  1. not a card of which nothing is granted, while the others have enough;
 *  2. a card of which this container has a replica already;
 *  3. a card with room for all that is still wanted, the one with the least room among several; if
 *     none has, the one with the most room;
 *  4. on the card, a replica of the device that has most of its replicas granted.
 *
 * Distributed spreads the load: the card of which least is granted, and on it a replica of the
 * device that has least of its replicas granted. Where these tie, the card with the lowest index
 * and the replica with the lowest number win.
 */

enum replica_policy { REPLICAS_PACKED, REPLICAS_DISTRIBUTED };

struct replica {
    uint8_t card;    /* index in the inventory, < GPU_MAX_CARDS */
    uint16_t device; /* number of its device on that card, below n */
    bool available;  /* false: granted already, or ill */
    bool required;   /* part of every answer; it must be available */
};

struct replica_question {
    const struct replica *replicas;
    size_t n;
    size_t size; /* replicas wanted, with the required ones */
    enum replica_policy policy;
    const uint16_t *elsewhere; /* GPU_MAX_CARDS counts, by card index: devices of the card granted
                                  under other resource names. NULL: none */
};

/* Marks the preferred replicas: n marks, `size` of them set. ERR_INVALID: a required one is not
 * available, more are required than wanted, or more are wanted than available. */
int replica_choice(const struct replica_question *q, bool *ret_chosen, struct err *e) MUST_CHECK;
