/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "nodeagent/loop/card_jobs.h"
#include "nodeagent/loop/exclusive_wish.h"
#include "nodeagent/loop/limit_sweep.h"
#include "nodeagent/loop/slot_jobs.h"

/*
 * A reading of the whole node, who takes what out of its result, and the jobs that it shows to be
 * due on single cards: to end an interrupted change, to set a compute mode. The loop's thread only;
 * never blocks.
 */
struct read_jobs {
    /* Borrowed. */
    const struct clock *clk;
    const struct plugin_config *config; /* NULL: none */
    struct sharing_means *means;        /* follows what is known of the driver's limits */
    const struct spec_source *spec_source;
    struct cards *cards;
    const struct jobs *jobs;
    struct recovery *recovery;
    const struct withdrawal *withdrawal;
    const struct card_jobs *card_jobs;
    const struct slot_jobs *slot_jobs;

    struct readings readings;
    struct exclusive_wish exclusive;
    struct driver_limits limits;
    struct limit_sweep limit_sweep;
    bool must_list;          /* a reading that did not look for interrupted changes is not used */
    int64_t newest_mono_ms;  /* when the newest reading that was taken began; 0: none was */
    struct host_facts host;  /* of the newest reading, also where the cards could not be read */
    struct host_setup setup; /* the same */
};

/* What recovery has to know; borrows everything. */
struct recovery_facts read_jobs_facts(const struct read_jobs *s);
/* Makes a reading due whose time has come. Only while no reading is under way: that one sets the
 * next time when it ends. */
void read_jobs_tick(struct read_jobs *s);
/* The cards were another process's until now: what was read of them is forgotten, and the next
 * reading looks for interrupted changes. */
void read_jobs_start_over(struct read_jobs *s);
/* Begins a reading. The caller submits and owns the job. */
struct agent_job *read_jobs_begin(struct read_jobs *s, const struct agent_job_env *env,
                                  void *owner);
/* Takes the result of such a job, which jobs_end has not ended yet. */
void read_jobs_end(struct read_jobs *s, struct agent_job *j);
/* Begins the next job that recovers a card, sets one's mode, or clears its limits; NULL: none is due. The caller
 * submits and owns it. */
struct agent_job *read_jobs_begin_card(struct read_jobs *s, const struct agent_job_env *env,
                                       void *owner);
/* Takes the result of such a job. True: the cards have to be read again. */
bool read_jobs_end_card(struct read_jobs *s, struct agent_job *j);
