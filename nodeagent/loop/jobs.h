/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "nodeagent/loop/cards.h"
#include "nodeagent/loop/worker.h"
#include "nodeagent/offer/node_state.h"

/* How many jobs for cards of one vendor run at once. Jobs for slots count, and do not wait: a
 * container waits for them. */
struct vendor_limit {
    const char *vendor;
    size_t cards_at_once;
};

/*
 * The jobs at the worker: which cards are in their hands, and what each of those cards still offers
 * meanwhile. A card is in one job's hands at a time, which the callers see to (jobs_has_card); a
 * reading runs beside them and leaves those cards out (jobs_touched). The loop's thread only.
 */
struct jobs {
    /* Set before the first use; borrowed. */
    struct worker *worker;
    const struct vendor_limit *limits; /* n_limits of them; a vendor without one has no limit */
    size_t n_limits;
    worker_done_fn *done; /* called from worker_dispatch; calls jobs_end */
    const struct cards *cards;

    /* To be read by anybody; changed by the functions here only. */
    struct busy_card *busy; /* owned; the cards in jobs' hands, each once */
    size_t n_busy;
    struct running_job *running; /* owned */
    struct agent_job *parked;    /* NULL: none */
    size_t n;
    bool stuck;           /* a vendor call is past its deadline, as of the last jobs_watch */
    size_t n_stuck_reads; /* readings with such a call, as of then */
};

/* Hands the job to the worker, together with what every job needs to know: the driver's files, the
 * slots that have a slice, and a copy of the holders. Takes the job over. A queue that is full is
 * logged, and the job dropped. */
void jobs_submit(struct jobs *s, struct agent_job *j);
/* Leaves the job at the worker (worker_park) while the loop sleeps. Takes the job over. */
void jobs_park(struct jobs *s, struct agent_job *j);
/* After the sleep: a parked job that has begun is like a submitted one, another is dropped. */
void jobs_unpark(struct jobs *s);
/* The job has come back. The caller keeps it. */
void jobs_end(struct jobs *s, const struct agent_job *j);

/* True while another job would begin at once. */
bool jobs_has_room(const struct jobs *s);
/* True while a reading runs that the next one has to wait for. One whose call is past its deadline
 * does not count: it keeps the card that hangs, and the next reading leaves that card out. At most
 * half of the worker's threads may hang so. */
bool jobs_reads(const struct jobs *s);
/* True while a job runs, or waits, that is no reading: it may change something. */
bool jobs_change(const struct jobs *s);
/* True while a job has this card in hand. */
bool jobs_has_card(const struct jobs *s, const char *uuid);
/* True when a job for this card may begin: none has it in hand, and the limit of its vendor leaves
 * room. A job whose call is past its deadline does not count: it holds up its own card only. */
bool jobs_may_take(const struct jobs *s, const char *uuid);
/* True while the card is in the hands of a job whose call is past its deadline. */
bool jobs_hang_with(const struct jobs *s, const char *uuid);
/* Marks each card that hangs: in such a job's hands, or where a reading left it. True when another
 * card hangs, or one does no more. */
bool jobs_mark_hangs(const struct jobs *s, struct cards *c);
/* True while a job binds or releases this slot. */
bool jobs_has_slot(const struct jobs *s, unsigned slot);
/* True while a share is being released. */
bool jobs_release_share(const struct jobs *s);
/* Adds the slots that are in the hands of jobs whose call is past its deadline. */
void jobs_add_stuck_slots(const struct jobs *s, struct device_slots *ret);
/* True when some job had this card in hand since the READ job j was submitted, so that the reading
 * may show it between two layouts. */
bool jobs_touched(const struct jobs *s, const struct agent_job *j, const char *uuid);

/* Looks which vendor calls are past their deadlines. */
struct jobs_news {
    const char *call;   /* static; NULL: none is, and none was at the last look */
    bool changed;       /* `stuck` did */
    bool reading_hangs; /* one more reading hangs: another one should begin */
};
struct jobs_news jobs_watch(struct jobs *s);
/* The vendor call that is past its deadline right now (static); NULL: none. */
const char *jobs_stuck_call(const struct jobs *s);

/* The worker's jobs are not touched. */
void jobs_done(struct jobs *s);
