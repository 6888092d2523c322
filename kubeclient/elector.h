/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/clock.h"
#include "base/heartbeat.h"
#include "base/scope.h"

/*
 * Leader election over a coordination.k8s.io/v1 Lease (client-go tools/leaderelection). A peer's
 * clock is never used: a lease counts as expired when *we* have seen it unchanged for its duration
 * on our own clock, which continues while the machine is suspended (clock_boot_ms). Unlike
 * client-go, elector_is_leader answers by that clock too, so every write can be fenced, even if the
 * renewing thread is stuck.
 *
 * leader(t)  ⇔  t < start of the last successful renewal + renew deadline (10 s). Another replica
 * takes over no earlier than the lease duration (15 s) after it saw that renewal: the 5 s between
 * are the slack for requests on their way.
 */
struct elector;
struct kc;

/* Zero times mean client-go's 15 s / 10 s / 2 s. Strings are borrowed. */
struct elector_opts {
    const char *ns, *name; /* of the Lease */
    const char *identity;  /* unique per process: pod name and a random part */
    int64_t lease_ms, renew_deadline_ms, retry_ms;
    const struct clock *clk;
    uint64_t seed; /* of the jitter on acquire (retry × 1..1.2) */
};

/* Borrows c. */
struct elector *elector_new(struct kc *c, const struct elector_opts *opts);
/* Acquires, then renews until the scope ends (ERR_CANCELED, after the lease was released: holder ""
 * and 1 s duration) or the lease is lost (ERR_TIMEOUT). Blocks; one thread. */
int elector_run(struct elector *el, struct scope *s, struct err *e) MUST_CHECK;
/* One attempt to acquire or renew, for tests and for elector_run. *ret_wait_ms: when to try again.
 * ERR_TIMEOUT once a lease that was held is lost; other errors of an attempt are kept inside and
 * count as "not renewed". */
int elector_step(struct elector *el, struct scope *s, int64_t *ret_wait_ms,
                 struct err *e) MUST_CHECK;
/* Gives the lease back if it is held. Retried on conflict. */
int elector_release(struct elector *el, struct scope *s, struct err *e) MUST_CHECK;

/* Returns true while this process does the work that it leads. Called before each renewal, in the
 * elector's thread; false gives the lease up, which then runs out by itself. Work under way has
 * until then, as with any lost lease. Set it before elector_run; arg is borrowed. */
typedef bool elector_works_fn(void *arg);
void elector_set_check(struct elector *el, elector_works_fn *works, void *arg);
/* Beats when an attempt begins and when it waits. Set it before elector_run. Borrowed. */
void elector_set_beat(struct elector *el, struct heartbeat *beat);

/* True while this process may act, by its own clock. Any thread, lock-free. */
bool elector_is_leader(const struct elector *el);
/* Milliseconds for which it still may; 0 when it may not. The deadline for a write. Any thread. */
int64_t elector_left_ms(const struct elector *el);
/* Waits until leader. ERR_CANCELED, ERR_TIMEOUT. Any thread. */
int elector_wait_leader(struct elector *el, struct scope *s, struct err *e) MUST_CHECK;
/* The last seen holder of the lease, "" for none. Caller frees. Any thread. */
char *elector_holder(struct elector *el);

/* A client that fences writes: they fail with ERR_UNAVAILABLE unless elector_is_leader, and end by
 * elector_left_ms. Reads pass.
 * - The error is retriable, because a renewal with a late answer makes this process the leader
 *   again, and a key that was refused in between must be retried. A lease lost for good ends the
 *   process (manager.h), and the next leader begins with every key.
 * - A write that has begun is not ended by the caller's cancellation (the server would not notice),
 *   but by the end of the lease and the caller's deadline. After the writers were joined, no write
 *   of theirs is under way, so the lease may be released.
 * - A call under way while the machine is suspended is not ended: its preconditions must protect
 *   the object.
 *
 * Borrows both. Caller frees with kc's free. */
struct kc *elector_fence_new(struct elector *el, struct kc *inner);

/* Not while running. NULL allowed; returns NULL. */
struct elector *elector_free(struct elector *el);

AUTO_DEFINE_PTR(elector, struct elector, elector_free)
#define auto_elector AUTO_PTR(elector)
