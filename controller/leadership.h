/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/clock.h"
#include "base/scope.h"

#include "kubeclient/client.h"
#include "kubeclient/recorder.h"

/*
 * Names this replica to the API server as the leader. The admission policy cleave-controller-leader
 * accepts the controller's writes only from the replica that the object Leader names
 * (config/admission/controller-leader.yaml). It recognises a replica by the pod that its token is
 * bound to; the identity in the Leader begins with that pod's name. The replica that gets the Lease
 * writes its identity there before it writes anything else.
 *
 *  - A write is refused because the Leader has another name, while this replica still holds the
 *    Lease: it writes its own again. A name that comes back each time is that of another
 *    installation, whose Lease is in another namespace: then this replica says so in the log and in
 *    an Event of the Leader, and takes the Leader back once in LEADERSHIP_CONTEST_MS only.
 *  - A write is refused although the Leader has its name, or cannot be given it: the API server
 *    judges by an older copy, for one. What lasts for LEADERSHIP_SETTLE_MS the replica reports: in
 *    the log, in an Event of the Leader, and by leadership_is_refused (for /readyz and a metric),
 *    until a write succeeds. It keeps the Lease: every other replica would be refused as well.
 *
 * Where the kind does not exist, or the replica may not write it, it leads without a claim: no
 * policy asks for one then, or a refusal is reported as above.
 */
struct leadership;

/* An API server has a change in milliseconds; one that starts, in seconds. */
#define LEADERSHIP_SETTLE_MS 30000
#define LEADERSHIP_CLAIM_MS  30000
/* So long a rival is left the Leader, each time. */
#define LEADERSHIP_CONTEST_MS 60000

/* Borrowed; strings too. */
struct leadership_opts {
    struct kc *kc;             /* fenced by the lease */
    struct recorder *recorder; /* NULL: no Events */
    const char *name;          /* of the object, and of the Lease: "cleave-controller" */
    const char *identity;      /* as in the Lease: the pod's name, "_" and anything */
    const struct clock *clk;
    uint64_t seed; /* of the jitter on retries */
};

/* Borrows what the options point to. */
struct leadership *leadership_new(const struct leadership_opts *o);

/* Writes the name, after this process has become the leader. Tried until it worked, until it is
 * clear that it cannot be (see above), or for LEADERSHIP_CLAIM_MS: then a refusal of the policy
 * leads to the next try. arg is a struct leadership. ERR_CANCELED, ERR_TIMEOUT: the scope ended.
 * Blocks. */
int leadership_claim(void *arg, struct scope *s, struct err *e) MUST_CHECK;

/* A client for the leader's writes, which reports refusals to l. Reads pass. Borrows l and inner.
 * Caller frees with kc_free. */
struct kc *leadership_kc_new(struct leadership *l, struct kc *inner);

/* Looks after each refusal until the scope ends; at most once a second. arg is a struct leadership.
 * Blocks; one thread. */
int leadership_run(void *arg, struct scope *s, struct err *e) MUST_CHECK;
/* One look, without waiting; for tests. */
void leadership_step(struct leadership *l, struct scope *s);

/* True when the API server has refused the writes of this replica for LEADERSHIP_SETTLE_MS, until
 * it takes one. Any thread. */
bool leadership_is_refused(struct leadership *l);

/* Not while running. NULL allowed; returns NULL. */
struct leadership *leadership_free(struct leadership *l);
AUTO_DEFINE_PTR(leadership, struct leadership, leadership_free)
#define auto_leadership AUTO_PTR(leadership)
