/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "nodeagent/loop/card_jobs.h"
#include "nodeagent/loop/exclusive_wish.h"
#include "nodeagent/loop/slot_jobs.h"

/*
 * A reading of the whole node: what the job is told (whether it recovers interrupted changes and what
 * it must not destroy meanwhile, which cards are wanted in EXCLUSIVE_PROCESS), and who takes what
 * out of its result. The loop's thread only; never blocks.
 */
struct read_jobs {
    /* Borrowed. */
    const struct clock *clk;
    const struct publisher *publisher;
    const struct plugin_config *config; /* NULL: none */
    int resource_publisher;             /* enum api_publisher */
    const struct spec_source *source;
    struct cards *cards;
    const struct jobs *jobs;
    struct recovery *recovery;
    const struct withdrawal *withdrawal;
    const struct card_jobs *card_jobs;
    const struct slot_jobs *slot_jobs;

    struct readings readings;
    struct exclusive_wish exclusive;
    struct host_facts host; /* of the newest reading, also where the cards could not be read */
};

/* What recovery has to know; borrows everything. */
struct recovery_facts read_jobs_facts(const struct read_jobs *s);
/* Makes a reading due whose time has come, or that has to set a compute mode. Only while no reading
 * is under way: that one sets the next time when it ends. */
void read_jobs_tick(struct read_jobs *s);
/* Begins a reading. The caller submits and owns the job. */
struct agent_job *read_jobs_begin(struct read_jobs *s, const struct agent_job_env *env,
                                  void *owner);
/* Takes the result of such a job. */
void read_jobs_end(struct read_jobs *s, struct agent_job *j);
