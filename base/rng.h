/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdint.h>

/* A small seeded generator (SplitMix64), so that jitter is injected and tests repeat. One thread.
 */
struct rng {
    uint64_t state;
};

/* The same seed gives the same numbers. */
void rng_init(struct rng *r, uint64_t seed);
/* Seeded from the kernel; for main. */
void rng_init_random(struct rng *r);
uint64_t rng_next(struct rng *r);
/* Uniform in [0, bound); bound > 0. */
uint64_t rng_below(struct rng *r, uint64_t bound);
