/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/clock.h"
#include "base/heartbeat.h"

#include "kubeclient/object.h"

/*
 * Queue of keys with set semantics (client-go util/workqueue): a key is queued once however often
 * it is added; it is never given to two workers at a time; added while a worker has it, it runs
 * once more after wq_done. Fair: first come, first served. Any thread, except where said. Guarded
 * by one mutex. Bounded by the number of distinct keys, which are those of existing objects.
 *
 * Rate limits (default_rate_limiters.go): per key 5 ms doubling up to 1000 s, and for all together
 * a bucket of 10 a second with a burst of 100; the longer delay counts.
 */
struct wq;

/* name is borrowed (a literal), for metrics. clk outlives the queue. */
struct wq *wq_new(const char *name, const struct clock *clk);
const char *wq_name(const struct wq *q);

/* Adds now. After wq_shut_down this and the other adds do nothing. */
void wq_add(struct wq *q, const struct object_key *k);
/* Adds when delay_ms have passed; of several waiting adds of a key the earliest counts. */
void wq_add_after(struct wq *q, const struct object_key *k, int64_t delay_ms);
/* Adds after the delay of the rate limits and counts one more failure of the key. */
void wq_add_rate_limited(struct wq *q, const struct object_key *k);

/* The next key, blocking; false once shut down and empty. *ret_key is valid until wq_done. With a
 * fake clock only keys that are due are seen; use wq_try_get there. */
bool wq_get(struct wq *q, struct object_key *ret_key);
/* The next key that is due, or false at once. For tests that step. */
bool wq_try_get(struct wq *q, struct object_key *ret_key);
/* Ends the work on a key that wq_get gave; it is queued again if it was added meanwhile. */
void wq_done(struct wq *q, const struct object_key *k);
/* Success: the key's failures count from zero again. */
void wq_forget(struct wq *q, const struct object_key *k);
/* Failures since the last wq_forget. */
int wq_failures(struct wq *q, const struct object_key *k);

/* No more adds; getters take what is queued (waiting delays are dropped) and then see false. */
void wq_shut_down(struct wq *q);
/* The same, and what is queued is dropped too: workers finish the key they hold. */
void wq_shut_down_now(struct wq *q);
/* After wq_shut_down: blocks until every queued key was taken and done. */
void wq_drain(struct wq *q);

/* An observer's events: client-go's workqueue metrics. ms is the time from due to get for
 * WQ_WAITED, from get to done for WQ_WORKED, otherwise 0. */
enum wq_event { WQ_ADDED, WQ_RETRIED, WQ_WAITED, WQ_WORKED };
typedef void wq_observer_fn(void *arg, enum wq_event event, int64_t ms);
/* Only before the queue is used. Called with the queue's lock held: must not call back. */
void wq_observe(struct wq *q, wq_observer_fn *fn, void *arg);

/* Beats for the queue: b is busy while keys are due and no worker has one. With idle workers that
 * ends at once, unless a wake-up was lost. While a worker has a key, b is idle: the worker's own
 * heartbeat covers that. Borrowed, until wq_shut_down. NULL allowed. */
void wq_set_beat(struct wq *q, struct heartbeat *b);

/* Keys queued now; waiting for their delay; with a worker; and the age of the longest work. */
struct wq_stats {
    int64_t queued, delayed, processing, longest_work_ms;
};
struct wq_stats wq_stats(struct wq *q);

/* No thread may be inside. NULL allowed; returns NULL. */
struct wq *wq_free(struct wq *q);

AUTO_DEFINE_PTR(wq, struct wq, wq_free)
#define auto_wq AUTO_PTR(wq)
