/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/err.h"

#include "nodeagent/gpu/gpu.h"

/*
 * The threads that use a struct gpu. Vendor calls take seconds or hang, so the agent's loop never
 * makes them: it submits jobs, and learns of their end through a file descriptor. Jobs begin in
 * order, each on a thread that is free; a thread is started when a job finds none, up to a bound,
 * and ends when it finds no job and another thread waits for one. The queue is bounded. worker_stuck reports a call past its deadline while it still hangs; other
 * threads go on, except where the vendor's library itself lets them wait (lib_gate.h).
 *
 * Threads: job functions run on the worker's threads. Every function below belongs to one other
 * thread, the loop's, unless it says otherwise, and never blocks (worker_free: at most its grace).
 */
struct worker;

typedef void worker_job_fn(struct gpu *g, void *arg);
typedef void worker_done_fn(void *arg);

struct worker_options {
    size_t max_threads;        /* jobs at the same time; 0: 1 */
    size_t max_jobs;           /* queued ones; 0: 64 */
    int64_t call_deadline_ms;  /* of one vendor call; 0: 30000 */
    int64_t park_ms;           /* see worker_park; 0: no parked job begins by itself */
    const struct clock *clock; /* NULL: clock_real */
};

/* Starts the first thread and takes the gpu over, which the last thread to end frees. Options are
 * copied. ERR_SYSTEM; the gpu is then still the caller's. */
int worker_new(struct gpu *gpu, const struct worker_options *o, struct worker **ret,
               struct err *e) MUST_CHECK;

/* Queues a job: run(gpu, arg) on one of the worker's threads, then done(arg) from worker_dispatch.
 * arg belongs to the job until done; jobs dropped by worker_free get neither call but drop(arg)
 * (may be NULL). ERR_THROTTLED: the queue is full. */
int worker_submit(struct worker *w, worker_job_fn *run, worker_done_fn *done, worker_done_fn *drop,
                  void *arg, struct err *e) MUST_CHECK;

/* Leaves a job for the thread that waits: it begins the job park_ms after the end of its last one,
 * without waking the loop for that. One job at a time; the loop takes it back, whatever woke it. */
void worker_park(struct worker *w, worker_job_fn *run, worker_done_fn *done, worker_done_fn *drop,
                 void *arg);
/* False: park_ms is 0. */
bool worker_parks(const struct worker *w);
/* Takes the parked job back, if there is one. True: it has begun, and from now on is like a
 * submitted one; else its arg is the caller's again. */
bool worker_unpark(struct worker *w) MUST_CHECK;

/* Readable while completions wait for worker_dispatch. Owned by the worker. */
int worker_fd(const struct worker *w);
/* Calls done for every job that has ended since the last call. */
void worker_dispatch(struct worker *w);
/* Jobs submitted and not yet done. */
size_t worker_pending(const struct worker *w);
/* The most jobs at the same time. */
size_t worker_max_threads(const struct worker *w);

/* True while a vendor call is past its deadline: the oldest one's name (static) and when it began.
 * Any thread. */
bool worker_stuck(const struct worker *w, const char **ret_call, int64_t *ret_since_mono_ms);
/* True while a call of the job with this arg is past its deadline. */
bool worker_stuck_job(const struct worker *w, const void *arg);
/* How long a job has been under way without a vendor call, at most: milliseconds; 0: none is. Jobs
 * read files between calls and wait for each other, all of which ends within a minute. Any
 * thread. */
int64_t worker_quiet_ms(const struct worker *w);
/* How long a loop may wait before it asks worker_stuck again: milliseconds until the first call in
 * flight reaches its deadline, or a whole deadline while a job is between calls. -1: no job, or
 * every call is already reported past it. */
int64_t worker_watch_ms(const struct worker *w);

/* Stops after the jobs in progress and frees. When one does not end within grace_ms, the threads,
 * their gpu and their jobs are abandoned: the process can exit, and *ret_abandoned (may be NULL)
 * says so. NULL allowed; returns NULL. */
struct worker *worker_free(struct worker *w, int64_t grace_ms, bool *ret_abandoned);
