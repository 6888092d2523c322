/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "nodeagent/change/card_view.h"
#include "nodeagent/loop/jobs.h"

/*
 * Which card's limits of memory the worker has to look through next, for those that an agent before
 * left without a record (cgroup_limits_sweep, in a LIMITS job). Each card once. One thread.
 */
struct limit_sweep {
    char (*seen)[GPU_UUID_BYTES]; /* owned */
    size_t n;
};

/* The next card, which counts as seen from then on; NULL: none. Cards in a job's hands, those that
 * cannot be read and those that are cut are left for later. Borrows from cards. */
const struct card_view *limit_sweep_next(struct limit_sweep *w, const struct cards *cards,
                                         const struct jobs *jobs);
void limit_sweep_done(struct limit_sweep *w);
