/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdint.h>

#include "base/clock.h"
#include "base/rng.h"

/*
 * Exponential backoff with jitter, cap and reset; every retry gets its delay here. A plain value,
 * one thread. Delay n is base_ms * factor^n, at most cap_ms, plus up to jitter_pct percent on top
 * (client-go's wait.Jitter). After reset_after_ms without a call it starts over.
 */
struct backoff {
    int64_t base_ms, cap_ms, reset_after_ms; /* reset_after_ms 0: no automatic reset */
    int factor, jitter_pct;
    int64_t next_ms, last_mono_ms; /* state */
};

/* The reflector's: 0.8 s → 30 s, factor 2, jitter 100 %, reset after 2 min (client-go
 * tools/cache/reflector.go). */
#define BACKOFF_REFLECTOR                                                                          \
    {                                                                                              \
        .base_ms = 800, .cap_ms = 30000, .factor = 2, .jitter_pct = 100, .reset_after_ms = 120000  \
    }

/* The delay before the next try, milliseconds; advances the state. */
int64_t backoff_next_ms(struct backoff *b, const struct clock *clk, struct rng *rng);
void backoff_reset(struct backoff *b);
