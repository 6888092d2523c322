/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "controller/controller.h"
#include "kubeclient/elector.h"
#include "kubeclient/recorder.h"

/*
 * Owns the informers, controllers and services of a controller process, and their threads. Start:
 * informers → wait until synced (2 min) → the lease → controllers. Stop, in reverse: controllers,
 * release of the lease, recorder, services, informers; every thread is joined. When the lease is
 * lost, the controllers' scope is cancelled at once and manager_run returns the error.
 */
struct manager;

struct manager_opts {
    int64_t sync_timeout_ms; /* 0: 2 minutes */
};

/* The body of a thread that is neither informer nor controller (an HTTP server). It returns when
 * the scope ends; an error before that stops the manager. */
typedef int service_fn(void *arg, struct scope *s, struct err *e);

struct manager *manager_new(const struct manager_opts *opts);
/* The manager owns and frees it. Call before manager_run. */
void manager_add_informer(struct manager *m, struct informer *inf_take);
void manager_add_controller(struct manager *m, struct controller *c_take);
/* At most one. Without an elector, controllers start as soon as the caches are synced. */
void manager_set_elector(struct manager *m, struct elector *el_take);
void manager_set_recorder(struct manager *m, struct recorder *r_take);
/* Called once this process leads, before the controllers start. It may block; an error stops the
 * manager. Without an elector it is not called. arg is borrowed. */
void manager_set_on_lead(struct manager *m, service_fn *fn, void *arg);
/* name: thread name, at most 15 bytes. Runs from the very start to the very end. arg is
 * borrowed. */
void manager_add_service(struct manager *m, const char *name, service_fn *fn, void *arg);
/* Runs everything until the scope ends: then 0. Otherwise ERR_TIMEOUT (caches did not sync, lease
 * lost) or the error of a service. Blocks. */
int manager_run(struct manager *m, struct scope *s, struct err *e) MUST_CHECK;
/* Gives everything that was added so far a heartbeat in the set, for /healthz, and gives up the
 * lease when a controller hangs, so that another replica takes over. Call before run. set outlives
 * m. */
void manager_set_beats(struct manager *m, struct heartbeats *set);
/* For /readyz: true when all caches are synced and the manager is not stopping. Any thread. */
bool manager_is_ready(const struct manager *m);
/* True while this process's controllers run. Any thread. */
bool manager_is_leading(const struct manager *m);
/* Call when it is not running. Frees controllers, then elector and recorder, then informers. NULL
 * allowed; returns NULL. */
struct manager *manager_free(struct manager *m);

AUTO_DEFINE_PTR(manager, struct manager, manager_free)
#define auto_manager AUTO_PTR(manager)
