/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>

#include "base/rng.h"

/* First outputs of SplitMix64 for seed 1234567, as Rosetta Code lists them. */
Test(rng, is_splitmix64)
{
    struct rng r;
    rng_init(&r, 1234567);
    cr_expect_eq(rng_next(&r), UINT64_C(6457827717110365317));
    cr_expect_eq(rng_next(&r), UINT64_C(3203168211198807973));
    cr_expect_eq(rng_next(&r), UINT64_C(9817491932198370423));
}

Test(rng, stays_below_the_bound_and_reaches_every_value)
{
    struct rng r;
    rng_init(&r, 1);
    int hits[7] = {0};
    for (int i = 0; i < 7000; i++) {
        uint64_t n = rng_below(&r, 7);
        cr_assert_lt(n, 7);
        hits[n]++;
    }
    for (int i = 0; i < 7; i++)
        cr_expect(hits[i] > 800 && hits[i] < 1200, "%d came %d times", i, hits[i]);
    cr_expect_eq(rng_below(&r, 1), 0);
    cr_expect_lt(rng_below(&r, UINT64_MAX), UINT64_MAX);
}

Test(rng, differs_between_random_seeds)
{
    struct rng a;
    struct rng b;
    rng_init_random(&a);
    rng_init_random(&b);
    cr_expect_neq(rng_next(&a), rng_next(&b));
}
