/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/clock.h"
#include "base/scope.h"

#include "kubeclient/client.h"
#include "kubeclient/recorder.h"

/*
 * Tells the API server who leads. The admission policy cleave-controller-leader takes the writes of
 * that replica alone which the object Leader names (config/admission/controller-leader.yaml). The
 * replica that has the Lease writes its identity there before it writes anything else.
 *
 *  - Refused although another name stands there: this replica still leads by its Lease, so it
 *    writes its own again.
 *  - Refused although its own name stands there: the API server judges by an older copy. Within
 *    LEADERSHIP_SETTLE_MS that passes; after that the replica says so, in the log, in an Event of
 *    the Leader, in leadership_is_refused, until a write succeeds.
 *
 * Where the kind does not exist, or must not be written, nothing is claimed: then no policy asks
 * for it, or a refusal is reported as above.
 */
struct leadership;

/* An API server has a change in milliseconds; one that starts, in seconds. */
#define LEADERSHIP_SETTLE_MS 30000

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

/* Writes the name, after this process has become the leader. Tried until it worked, or until it is
 * clear that it cannot be (see above). ERR_CANCELED, ERR_TIMEOUT: the scope ended. Blocks. */
int leadership_claim(struct leadership *l, struct scope *s, struct err *e) MUST_CHECK;

/* A client for the leader's writes, which tells of refusals. Reads pass. Borrows l and inner. Caller
 * frees with kc_free. */
struct kc *leadership_kc_new(struct leadership *l, struct kc *inner);

/* Looks after each refusal until the scope ends; at most once a second. Blocks; one thread. */
int leadership_run(void *l, struct scope *s, struct err *e) MUST_CHECK;
/* One look, without waiting; for tests. */
void leadership_step(struct leadership *l, struct scope *s);

/* True while the API server refuses the writes of this replica for LEADERSHIP_SETTLE_MS and longer,
 * although its own object names it. Any thread. */
bool leadership_is_refused(const struct leadership *l);

/* Not while running. NULL allowed; returns NULL. */
struct leadership *leadership_free(struct leadership *l);
AUTO_DEFINE_PTR(leadership, struct leadership, leadership_free)
#define auto_leadership AUTO_PTR(leadership)
