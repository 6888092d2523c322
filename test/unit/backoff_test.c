/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>

#include "base/backoff.h"

static void expect_delays(struct backoff *b, const struct clock *clk, const int64_t *want,
                          size_t count)
{
    struct rng rng;
    rng_init(&rng, 1);
    for (size_t i = 0; i < count; i++)
        cr_expect_eq(backoff_next_ms(b, clk, &rng), want[i]);
}

Test(backoff, grows_to_its_cap)
{
    auto_clock struct clock *clk = clock_fake_new(0);
    struct backoff b = {.base_ms = 5, .cap_ms = 30, .factor = 2};
    expect_delays(&b, clk, (const int64_t[]){5, 10, 20, 30, 30}, 5);
    backoff_reset(&b);
    expect_delays(&b, clk, (const int64_t[]){5, 10}, 2);
}

Test(backoff, starts_over_after_a_quiet_time)
{
    auto_clock struct clock *clk = clock_fake_new(0);
    struct backoff b = {.base_ms = 5, .cap_ms = 30, .factor = 2, .reset_after_ms = 100};
    expect_delays(&b, clk, (const int64_t[]){5, 10}, 2);
    clock_fake_advance(clk, 100);
    expect_delays(&b, clk, (const int64_t[]){20}, 1);
    clock_fake_advance(clk, 101);
    expect_delays(&b, clk, (const int64_t[]){5}, 1);
}

Test(backoff, without_a_quiet_time_never_starts_over)
{
    auto_clock struct clock *clk = clock_fake_new(0);
    struct backoff b = {.base_ms = 5, .cap_ms = 30, .factor = 2};
    expect_delays(&b, clk, (const int64_t[]){5, 10}, 2);
    clock_fake_advance(clk, INT64_C(1000000000));
    expect_delays(&b, clk, (const int64_t[]){20}, 1);
}

Test(backoff, adds_jitter_up_to_its_share)
{
    auto_clock struct clock *clk = clock_fake_new(0);
    struct rng rng;
    rng_init(&rng, 3);
    int64_t least = INT64_MAX;
    int64_t most = 0;
    for (int i = 0; i < 2000; i++) {
        struct backoff b = BACKOFF_REFLECTOR;
        int64_t ms = backoff_next_ms(&b, clk, &rng);
        least = ms < least ? ms : least;
        most = ms > most ? ms : most;
    }
    cr_expect(least >= 800 && least < 820, "%lld", (long long)least);
    cr_expect(most <= 1600 && most > 1580, "%lld", (long long)most);
}

Test(backoff, survives_numbers_near_overflow)
{
    auto_clock struct clock *clk = clock_fake_new(0);
    struct backoff b = {.base_ms = INT64_MAX / 2, .cap_ms = INT64_MAX - 1, .factor = 10};
    expect_delays(&b, clk, (const int64_t[]){INT64_MAX / 2, INT64_MAX - 1, INT64_MAX - 1}, 3);
}
