/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/heartbeat.h"

#include "controller/reconcile.h"
#include "kubeclient/expectations.h"
#include "kubeclient/informer.h"

/*
 * Workers over one queue (controller-runtime's controller). Watches put keys into the queue,
 * workers take and reconcile them. Then:
 *
 * - ok → forget
 * - requeue_after → forget, add later
 * - error → rate-limited add
 * - ERR_TERMINAL → forget, logged, no retry
 *
 * The scope of a reconcile ends after CONTROLLER_RECONCILE_MS; its ERR_TIMEOUT is an error like any
 * other.
 */
struct controller;
struct metrics;

/* name is a literal, for logs and metrics. self is borrowed and passed to fn and to map functions.
 * workers >= 1. clk outlives the controller. */
struct controller *controller_new(const char *name, reconcile_fn *fn, void *self, int workers,
                                  const struct clock *clk);
/* Enqueues keys on the informer's changes. keep NULL: on every change. map NULL: the object's own
 * key. An update maps both the old and the new state. Call it before the informer runs. */
void controller_watch(struct controller *c, struct informer *inf, predicate_fn *keep, map_fn *map);
/* Does not reconcile a key before the caches have seen all that was written for it, as x knows; it
 * comes back after EXPECTATIONS_RECHECK_MS. At most CONTROLLER_MAX_AWAITED of them, before run. x
 * outlives c. */
void controller_await_writes(struct controller *c, struct expectations *x);
#define CONTROLLER_MAX_AWAITED 2
/* The queue, for reconcilers that enqueue by themselves. Borrowed. */
struct wq *controller_queue(struct controller *c);
/* The name given to controller_new. */
const char *controller_name(const struct controller *c);
/* Registers the controller's and its queue's metrics (controller_runtime_* and workqueue_*). Before
 * run. m outlives c. */
void controller_register_metrics(struct controller *c, struct metrics *m);
/* Gives a heartbeat in the set to each worker, which is stale when a reconcile takes longer than
 * CONTROLLER_HANG_MS: its scope ended long before. The queue gets one too, which is stale when keys
 * are due and no worker, all idle, takes them for CONTROLLER_UNTAKEN_MS. Call it before run. set
 * outlives c. */
void controller_set_beats(struct controller *c, struct heartbeats *set);
#define CONTROLLER_RECONCILE_MS (5 * 60 * 1000)
#define CONTROLLER_HANG_MS      (2 * CONTROLLER_RECONCILE_MS)
#define CONTROLLER_UNTAKEN_MS   (2 * 60 * 1000)
/* True when a worker or the queue is stale. Any thread, lock-free. */
bool controller_hangs(const struct controller *c);
/* Reconciles one due key in the caller's thread; false when none is due. For deterministic
 * tests. */
bool controller_step(struct controller *c, struct scope *s);
/* Runs the workers until the scope ends, then joins them. Blocks. Returns ERR_CANCELED or
 * ERR_TIMEOUT. */
int controller_run(struct controller *c, struct scope *s, struct err *e) MUST_CHECK;
/* Call when it is not running. NULL allowed; returns NULL. */
struct controller *controller_free(struct controller *c);

AUTO_DEFINE_PTR(controller, struct controller, controller_free)
#define auto_controller AUTO_PTR(controller)
