/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>

#include "base/backoff.h"

/*
 * A resource that another plugin has registered with the same kubelet as well (docs/adr/0039). It
 * shows in one of two ways. The kubelet stops listening to this plugin: the first two times within a
 * quarter of an hour this plugin registers again at once, since the kubelet may only have lost the
 * resource; after that it leaves the resource alone for longer and longer, up to a minute. Or the
 * kubelet goes on listening and grants devices that this plugin has not listed. A plain value; one
 * thread.
 */
struct contest {
    struct backoff pause;
    unsigned n_lost; /* since the last calm */
    int64_t lost_mono_ms;
    unsigned n_strange; /* looks in a row that found devices of another plugin's */
};

/* Nobody contests the resource: at the beginning, and once there is another kubelet. */
void contest_init(struct contest *c);
/* The resource was taken. Returns for how many ms to leave it alone. */
int64_t contest_lose(struct contest *c, const struct clock *clk, struct rng *rng);
/* A look at the kubelet's devices found another plugin's among them, or did not. One such look counts
 * for nothing: the kubelet may have answered before it took in this plugin's newest list. True: look
 * again soon. */
bool contest_look(struct contest *c, bool strange);
/* True from the third loss on until a quarter of an hour has passed without one, and from the second
 * strange look on until one is not. */
bool contest_is_on(const struct contest *c, const struct clock *clk);
