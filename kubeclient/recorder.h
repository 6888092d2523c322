/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/clock.h"
#include "base/scope.h"

#include "kubeclient/object.h"

/*
 * Writes events.k8s.io/v1 Events (client-go tools/events).
 *
 * Recording never blocks: it notes the event under a lock, and a thread of its own writes. At most
 * 1000 wait; more are dropped and counted. A write is tried 12 times, 10 s apart.
 *
 * Equal events (type, reason, regarding and note) form a series: the 2nd occurrence turns the Event
 * into a series of count 2 by a patch; later ones are only counted, and written every 30 min and
 * once more 6 min after the last. The API forbids changing a note, so another note is another
 * Event. The spam filter bounds them: per object 25 at once and then one in 300 s
 * (tools/record/events_cache.go).
 */
struct recorder;
struct kc;

/* Strings are borrowed. */
struct recorder_opts {
    const char *controller; /* reportingController: "gpu.cleave.dev/controller" */
    const char *instance;   /* reportingInstance: the pod's name */
    const struct clock *clk;
    uint64_t seed; /* of the jitter on retries */
};

/* The object of an event, where there is no struct object at hand. Borrowed for the call. */
struct event_about {
    const struct kc_resource *resource;
    const char *ns, *name, *uid,
        *resource_version; /* ns NULL: cluster-scoped, the Event lands in "default" */
};

/* Borrows c. */
struct recorder *recorder_new(struct kc *c, const struct recorder_opts *opts);
/* Records; reason is CamelCase and is the action too. The message is cut at 1024 bytes. r may be
 * NULL (nothing happens). Any thread, never blocks. */
void recorder_event(struct recorder *r, const struct object *about, bool warning,
                    const char *reason, const char *fmt, ...) PRINTF_LIKE(5, 6);
void recorder_event_about(struct recorder *r, const struct event_about *about, bool warning,
                          const char *reason, const char *fmt, ...) PRINTF_LIKE(5, 6);
/* Writes until the scope ends. Blocks; one thread. Returns ERR_CANCELED or ERR_TIMEOUT. */
int recorder_run(struct recorder *r, struct scope *s, struct err *e) MUST_CHECK;
/* Writes everything that is due now, one try each, without waiting; for tests. *ret_wait_ms (may be
 * NULL) is when something is due again, INT64_MAX when nothing is. */
void recorder_step(struct recorder *r, struct scope *s, int64_t *ret_wait_ms);

struct recorder_stats {
    int64_t recorded, dropped_full, dropped_spam, written, given_up;
    int64_t dropped_unwritable; /* a text of it is no UTF-8 */
};
/* Counts since the recorder was made. */
struct recorder_stats recorder_stats(struct recorder *r);

/* Not while running. NULL allowed; returns NULL. */
struct recorder *recorder_free(struct recorder *r);

AUTO_DEFINE_PTR(recorder, struct recorder, recorder_free)
#define auto_recorder AUTO_PTR(recorder)
