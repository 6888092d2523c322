/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "reconcilers/context.h"

/*
 * GPUProfile.status: the standings of the profile on its nodes, from the rollout ledger. Key: the
 * profile. Written as a merge patch of what differs, at most once a second while a rollout runs.
 */
struct controller *gpuprofile_controller_new(struct context *ctx);

/* --- Pure --- */

/* The input of gpuprofile_plan: all facts about one profile. Borrowed. */
struct profile_facts {
    int64_t generation;
    const struct profile_record *record;
    size_t matched; /* nodes that nodeSelector matches and that have a Device */
    /* nodes that nodeSelector matches, with or without a Device; used only while matched is 0 */
    size_t selected;
    size_t cardless; /* of the matched ones: nodes that have no card at all, and say so */
    const struct rollout_summary *summary; /* over all matched nodes */
    const char *not_found;                 /* from survey_not_found */
    int64_t now_ms;                        /* wall clock */
};

/* The status that follows from the facts. old supplies the conditions' transition times. *ret is
 * overwritten (gpuprofile_status_done). */
void gpuprofile_plan(const struct profile_facts *f, const struct gpuprofile_status *old,
                     struct gpuprofile_status *ret);
