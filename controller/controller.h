/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/heartbeat.h"

#include "controller/reconcile.h"
#include "kubeclient/informer.h"

/*
 * Workers over one queue (controller-runtime's controller). Watches put keys into the queue,
 * workers take them and reconcile: error → rate-limited add; requeue_after → forget and add later;
 * ok → forget; ERR_TERMINAL → forget, logged, no retry. A reconcile's scope ends after
 * CONTROLLER_RECONCILE_MS: ERR_TIMEOUT is an error as any other.
 */
struct controller;
struct metrics;

/* name is a literal, for logs and metrics. self is handed to fn and to map functions, borrowed.
 * workers >= 1. clk outlives the controller. */
struct controller *controller_new(const char *name, reconcile_fn *fn, void *self, int workers,
                                  const struct clock *clk);
/* Enqueues on the informer's changes. keep NULL: every change. map NULL: the object's own key. On
 * an update both states are mapped. Only before the informer runs. */
void controller_watch(struct controller *c, struct informer *inf, predicate_fn *keep, map_fn *map);
/* The queue, for reconcilers that enqueue by themselves. Borrowed. */
struct wq *controller_queue(struct controller *c);
/* Name as given. */
const char *controller_name(const struct controller *c);
/* Registers the controller's and its queue's metrics (controller_runtime_* and workqueue_*). Before
 * run. m outlives c. */
void controller_register_metrics(struct controller *c, struct metrics *m);
/* Gives each worker a heartbeat in the set: a reconcile that takes longer than CONTROLLER_HANG_MS
 * hangs, since its scope ended long before. And one to the queue: keys that are due and that none
 * of the workers, all idle, takes for CONTROLLER_UNTAKEN_MS. Before run. set outlives c. */
void controller_set_beats(struct controller *c, struct heartbeats *set);
#define CONTROLLER_RECONCILE_MS (5 * 60 * 1000)
#define CONTROLLER_HANG_MS      (2 * CONTROLLER_RECONCILE_MS)
#define CONTROLLER_UNTAKEN_MS   (2 * 60 * 1000)
/* Is a worker or the queue stale? Any thread, lock-free. */
bool controller_hangs(const struct controller *c);
/* One key that is due, in the caller's thread; false when none is. For deterministic tests. */
bool controller_step(struct controller *c, struct scope *s);
/* Runs the workers until the scope ends, then joins them. Blocks. Returns ERR_CANCELED or
 * ERR_TIMEOUT. */
int controller_run(struct controller *c, struct scope *s, struct err *e) MUST_CHECK;
/* Not while running. NULL allowed; returns NULL. */
struct controller *controller_free(struct controller *c);

AUTO_DEFINE_PTR(controller, struct controller, controller_free)
#define auto_controller AUTO_PTR(controller)
