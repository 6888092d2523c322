/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "limiter/region.h"

/* The values of turns.h. */

enum { TURNS_MAX_CARDS = 64, TURNS_MAX_SHARES = 3072 };

/* A container's part of one card, as it was promised. */
struct turns_claim {
    unsigned card;     /* of the node, below TURNS_MAX_CARDS */
    unsigned percent;  /* 0: no guarantee */
    unsigned priority; /* 0 high, 1 low */
    bool is_capped;    /* never more than its percent, also alone */
    uint32_t turn;     /* as a gate has it: an earlier agent's, which members may remember */
};

/* A claim's gate is to be this from now on. */
struct turns_change {
    unsigned share, claim;
    enum share_gate gate;
    uint32_t turn;
    int64_t ends; /* of GATE_TURN */
};

/* What a claim was charged in all; how long it had work and did not have the card, since others had
 * it or its cap was used up; how often it had not finished 200 ms after its turn; and of the card's
 * time, what it should have had so far beyond what it had. */
struct turns_sums {
    int64_t held_ns;
    int64_t throttled_ns;
    uint64_t overruns;
    int64_t deficit_ns;
};
