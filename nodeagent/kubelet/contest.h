/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>

#include "base/backoff.h"

/*
 * A resource that the kubelet takes from this plugin while it stays the same kubelet: another plugin
 * has registered it, or the kubelet has lost it. The first two times within a quarter of an hour
 * this plugin registers again at once; after that it is a contest, and this plugin leaves the
 * resource alone for longer and longer, up to a minute (docs/adr/0039). A plain value; one thread.
 */
struct contest {
    struct backoff pause;
    unsigned n_lost; /* since the last calm */
    int64_t lost_mono_ms;
};

/* Nobody contests the resource: at the beginning, and once there is another kubelet. */
void contest_init(struct contest *c);
/* The resource was taken. Returns for how many ms to leave it alone. */
int64_t contest_lose(struct contest *c, const struct clock *clk, struct rng *rng);
/* True from the third loss on, until a quarter of an hour has passed without one. */
bool contest_is_on(const struct contest *c, const struct clock *clk);
