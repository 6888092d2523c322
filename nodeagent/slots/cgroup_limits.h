/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "nodeagent/offer/device_slots.h"
#include "nodeagent/slots/slot_bind.h"

/*
 * Limits of the driver: how much of a card's memory the containers of a pod may have together. The
 * limit is on the pod's cgroup, which is there before its first container, so none ever runs without.
 * A pod's containers are held to their own shares of it by the limiter, where that is installed.
 *
 * A limit ends with its cgroup. It never stands without a record of a share on that card, but for a
 * moment of a pod that ends, and where a record was lost.
 */

/* What is known of the driver's limits on a node. */
struct driver_limits {
    bool known, can;
    const char *lacks; /* not `can`: why, with the remedy (static); NULL: nothing says it */
    char driver[80];   /* of this version */
};

/* Asks the driver, by a card that is not cut, and the kernel. Nothing that stands is changed; *ret
 * stays as it is where the answer says nothing, and where it is known of this driver. */
void cgroup_limits_probe(struct gpu *g, const char *root, const char *card, const char *driver,
                         struct driver_limits *ret);

/* Sets the limits of those of the binding's shares that the driver is to hold. No effect without one.
 * ERR_UNAVAILABLE: the pod's cgroup is not there, or the limit does not hold; others as limit_set. */
int cgroup_limits_put(const struct slot_deps *d, const struct slot_binding *b,
                      struct err *e) MUST_CHECK;
/* Takes the slot's share, as its record has it, off the pod's limit, which goes with the last one. No
 * effect where the driver held none. Errors as limit_set, but for a card or cgroup that is gone. */
int cgroup_limits_drop(const struct slot_deps *d, const struct slot_record *r,
                       struct err *e) MUST_CHECK;

/* Adds the slots of shares of a card that the driver is to hold, and whose pod has a cgroup without
 * their limit: another program removed it, or the kubelet made the cgroup anew. A share that is being
 * bound or released may be among them. */
void cgroup_limits_lost(const struct slot_deps *d, const char *card, struct device_slots *ret);

/* Clears limits of pods on a card of which d->shares has none: an earlier agent left them, and its
 * records were lost. A limit of another form than this agent's is left alone. The card is in the
 * caller's hand, so that no share of it is bound meanwhile. Failures are logged. */
void cgroup_limits_sweep(const struct slot_deps *d, const char *card);
