/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "reconcilers/context.h"

/*
 * GPUProfile.status: how the profile fares on its nodes, from the ledger of rollouts. Key: the
 * profile. A merge patch of what differs; while a rollout runs at most one a second.
 */
struct controller *gpuprofile_controller_new(struct context *ctx);

/* --- Pure --- */

/* What is known about one profile. Borrowed. */
struct profile_facts {
    int64_t generation;
    const struct profile_record *record;
    size_t matched;                        /* nodes that it selects and that have a Device */
    size_t selected;                       /* with a Device or without; counts while matched is 0 */
    const struct rollout_summary *summary; /* of all of them */
    const char *not_found;                 /* coverage_missing */
    int64_t now_ms;                        /* wall clock */
};

/* The status that follows. old gives conditions their times. *ret is overwritten
 * (gpuprofile_status_done). */
void gpuprofile_plan(const struct profile_facts *f, const struct gpuprofile_status *old,
                     struct gpuprofile_status *ret);
