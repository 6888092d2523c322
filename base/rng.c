/* SPDX-License-Identifier: Apache-2.0 */
#include "base/rng.h"

#include <assert.h>
#include <sys/random.h>
#include <time.h>

void rng_init(struct rng *r, uint64_t seed)
{
    r->state = seed;
}

void rng_init_random(struct rng *r)
{
    uint64_t seed;
    if (getrandom(&seed, sizeof(seed), 0) == (ssize_t)sizeof(seed)) {
        rng_init(r, seed);
        return;
    }
    /* A sandbox may refuse the call. The time is good enough for jitter and hash seeds. */
    struct timespec now;
    (void)clock_gettime(CLOCK_REALTIME, &now);
    rng_init(r, ((uint64_t)now.tv_sec << 30) ^ (uint64_t)now.tv_nsec ^ (uintptr_t)r);
}

/* SplitMix64: Steele, Lea, Flood, "Fast splittable pseudorandom number generators" (2014). */
uint64_t rng_next(struct rng *r)
{
    r->state += UINT64_C(0x9e3779b97f4a7c15);
    uint64_t z = r->state;
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

uint64_t rng_below(struct rng *r, uint64_t bound)
{
    assert(bound > 0);
    /* The lowest 2^64 mod bound values are drawn again: what is left divides evenly. */
    uint64_t unfair = -bound % bound;
    uint64_t n;
    do
        n = rng_next(r);
    while (n < unfair);
    return n % bound;
}
