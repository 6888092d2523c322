/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdatomic.h>

#include "nodeagent/loop/agent_metrics.h"
#include "nodeagent/loop/handover.h"
#include "nodeagent/loop/handover_locks.h"
#include "nodeagent/loop/read_jobs.h"

/*
 * The agent's turn on its node: the phase of the hand-over that it is in (handover.h), followed by
 * the locks and the loop's state, and what has to be done when a phase begins. The loop's thread
 * only, but for what says otherwise.
 */
struct turn {
    /* Set before turn_begin; borrowed. */
    struct handover_locks *locks; /* NULL: no other agent can be on this node */
    const struct clock *clk;
    const char *node;
    struct kubelet_link *kubelet; /* NULL: there is none */
    bool serves_kubelet;          /* else it is only observed */
    struct status_writer *status_writer;
    struct reporting *reporting;
    struct agent_metrics *metrics;
    struct read_jobs *read_jobs; /* and all that it borrows */

    /* To be read by anybody; changed by the functions here only. */
    atomic_int phase;       /* enum handover_phase; any thread: turn_phase */
    atomic_bool takes_over; /* as a standby it could take over; any thread */
    int64_t since_mono_ms;
    bool has_announced; /* the agent before knows whether this one serves the kubelet */
    bool served_beside; /* it did, before the agent before ended */
    atomic_bool asked;  /* to end; any thread */
    int asked_fd;       /* eventfd */
};

/* Enters the first phase. Before the first job. */
void turn_begin(struct turn *t);
/* The phase. Any thread. */
enum handover_phase turn_phase(const struct turn *t);
/* Follows the facts: enters the phases that are due. ERR_SYSTEM: the locks failed. */
int turn_follow(struct turn *t, struct err *e) MUST_CHECK;
/* After each round of the loop: tells the agent before that this one serves the kubelet, and notes
 * whether a standby could take over. */
void turn_after_round(struct turn *t);
/* When turn_follow is due without any event; INT64_MAX: never. */
int64_t turn_due_mono_ms(const struct turn *t);
/* Asks the agent to end. Any thread, never blocks. */
void turn_ask_end(struct turn *t);
/* Readable when turn_follow has something to do: one for each of the two; -1: none. */
int turn_asked_fd(const struct turn *t);
int turn_locks_fd(const struct turn *t);
void turn_done(struct turn *t);
