/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "nodeagent/loop/cards.h"
#include "nodeagent/loop/worker.h"

/*
 * The jobs at the worker: which cards they change, and what each of those cards still offers
 * meanwhile. Today the loop submits one after another; nothing outside this module counts on that
 * but next_job. The loop's thread only.
 */
struct jobs {
    /* Set before the first use; borrowed. */
    struct worker *worker;
    worker_done_fn *done; /* called from worker_dispatch; calls jobs_end */

    struct running_job *running; /* owned */
    size_t n;
    bool stuck; /* a vendor call is past its deadline, as of the last jobs_watch */
};

/* Hands the job to the worker, together with what every job needs to know: the driver's files, the
 * slots that have a slice, and a copy of the holders. Takes the job over. A queue that is full is
 * logged, and the job dropped. */
void jobs_submit(struct jobs *s, const struct cards *c, struct agent_job *j);
/* The job has come back. The caller keeps it. */
void jobs_end(struct jobs *s, const struct agent_job *j);

/* True while some job is at the worker. */
bool jobs_any(const struct jobs *s);
/* True while a job changes this card. */
bool jobs_has_card(const struct jobs *s, const char *uuid);
/* The card that is being changed, and what it still offers; NULL: none. Borrowed until the next
 * submit or end. */
const char *jobs_card(const struct jobs *s, const struct card_offer **ret_offer);

/* Looks whether a vendor call is past its deadline. True: `stuck` changed; *ret_call (static) is
 * the call. */
bool jobs_watch(struct jobs *s, const char **ret_call);
/* The vendor call that is past its deadline right now (static); NULL: none. */
const char *jobs_stuck_call(const struct jobs *s);

/* The worker's jobs are not touched. */
void jobs_done(struct jobs *s);
