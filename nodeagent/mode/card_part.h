/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "nodeagent/gpu/gpu.h"

/*
 * The parts of a card, whatever cut it. Pure values that borrow from the card.
 */
struct card_part {
    /* What the mode's own file reads; NULL for parts of other modes. */
    const struct gpu_partition *mig;
    const struct sgpu_slice *slice;
    const struct gpu_slice *device; /* the slice's alias in the driver, device node and health */
    const struct gpu_vf *vf;

    int number;          /* by which a user, a step or an offer names it on its card */
    int ci;              /* its compute instance, beside the number; -1: none */
    unsigned start;      /* the order of a card's parts: the first memory slice, say */
    uint64_t memory_mib; /* 0: not known */
    bool healthy;
    bool foreign;  /* not made by Cleave */
    bool declared; /* a layout can have it; false: foreign, or made for a pod */
    bool in_use;
};

/* What names a part on its card; room for a profile or an alias, and a place. */
#define CARD_PLACE_BYTES 64
