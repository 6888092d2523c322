/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "api/device.h"
#include "partition/mig.h"

/*
 * The use of a card, how much of it is given out and how much is left: the part of a card's record
 * that reconcilers/capacity.c counts.
 */
struct card_use {
    /* Containers with the card or a part of it, by namespace and profile: "team-a/1g.10gb";
     * "team-a/" for a whole card. Without a namespace ("/1g.10gb"): a process outside all pods, or
     * somebody whom the agent does not know yet. */
    struct profile_count *grants;
    size_t n_grants;
    int64_t free_mib; /* memory that nobody has */
    /* Memory of the largest partition or share that can still be given out, with parts that nobody
     * uses cut anew; of the card, where it is whole and free. 0: none, or the card is ill. */
    int64_t largest_mib;
};

/* Reads the use of a card. t: what its model can be partitioned into; NULL: no MIG. *ret owns its
 * list (card_use_done). Total: where a placement cannot be read, nothing fits any more. */
void card_use_read(const struct device_card *c, const struct mig_table *t, struct card_use *ret);
void card_use_done(struct card_use *u);
