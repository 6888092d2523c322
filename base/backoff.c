/* SPDX-License-Identifier: Apache-2.0 */
#include "base/backoff.h"

#include <assert.h>
#include <stdbool.h>

static int64_t grown(const struct backoff *b)
{
    int64_t next;
    if (__builtin_mul_overflow(b->next_ms, (int64_t)b->factor, &next) || next > b->cap_ms)
        return b->cap_ms;
    return next;
}

int64_t backoff_next_ms(struct backoff *b, const struct clock *clk, struct rng *rng)
{
    assert(b->base_ms > 0 && b->cap_ms >= b->base_ms && b->factor >= 1 && b->jitter_pct >= 0);
    int64_t now = clock_mono_ms(clk);
    bool quiet = b->reset_after_ms > 0 && now - b->last_mono_ms > b->reset_after_ms;
    if (b->next_ms == 0 || quiet)
        b->next_ms = b->base_ms;
    int64_t delay = b->next_ms;
    b->next_ms = grown(b);
    b->last_mono_ms = now;
    uint64_t jitter = (uint64_t)delay * (uint64_t)b->jitter_pct / 100;
    return delay + (int64_t)rng_below(rng, jitter + 1);
}

void backoff_reset(struct backoff *b)
{
    b->next_ms = 0;
}
