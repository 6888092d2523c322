/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "nodeagent/loop/agent_events.h"
#include "nodeagent/loop/withdrawal.h"

/*
 * The attempt at one card: from a want that is due to the job that brings the card to its layout,
 * and from the job's result to the card's next attempt. The loop's thread only; never blocks.
 */
struct card_jobs {
    /* Borrowed. */
    const struct clock *clk;
    struct rng *rng;
    struct kubelet_link *kubelet; /* NULL: there is none */
    const struct sharing_means *means;
    struct cards *cards;
    struct card_tracks *tracks;
    const struct spec_source *spec_source;
    struct recovery *recovery;
    struct reporting *reporting;
    const struct withdrawal *withdrawal;
    const struct agent_events *events;
    struct agent_metrics *metrics; /* NULL: none */
};

/* Begins the attempt at a card that is due. Returns the job to submit, which the caller owns; or
 * NULL: the want was refused, or the attempt waits for its withdrawal or gave up waiting. */
struct agent_job *card_jobs_begin(const struct card_jobs *s, struct card_track *t,
                                  const struct agent_job_env *env, void *owner);
/* Takes the result of such a job, and its card. True: the cards have to be read again. */
bool card_jobs_end(const struct card_jobs *s, struct agent_job *j);
/* All cards were read: those that no longer are as wanted become pending. */
void card_jobs_recheck(const struct card_jobs *s);
