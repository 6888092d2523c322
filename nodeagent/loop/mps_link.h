/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "nodeagent/loop/mps_units.h"

/*
 * The MPS daemons of what is offered to the kubelet: one for each unit of the table (mps_units.h). A
 * part of kubelet_link, on its thread. NULL is allowed in every call: nothing can be shared by MPS.
 */
struct mps_link;

/* Borrowed for the link's life, but for the options themselves. */
struct mps_link_options {
    struct reactor *reactor;
    const struct mps_options *mps;
    const struct device_table *table; /* what is offered */
    const struct seals *seals;
    void (*on_change)(void *arg); /* a daemon became ready, stopped being ready, or is gone */
    void *arg;
};

struct mps_link *mps_link_new(const struct mps_link_options *o);
/* Starts and ends daemons as the table and the seals, which may have changed, want them. */
void mps_link_update(struct mps_link *l);
/* The cards whose shares are clients of a daemon. */
void mps_link_set_cards(struct mps_link *l, const struct mps_cards *cards);
/* While it waits, no daemon is started: the agent before has its own. */
void mps_link_wait(struct mps_link *l, bool waits);
/* Leaves the daemons as they are, for good. */
void mps_link_freeze(struct mps_link *l);
/* True when the device needs no daemon, or its daemon is ready. */
bool mps_link_has_daemon(const struct mps_link *l, const struct table_device *d);
/* True when neither the owner of a seal nor a device that it seals has a daemon any more. */
bool mps_link_has_ended(const struct mps_link *l, const char *owner);
/* Adds to an answer what a container with these devices needs as a client; nothing when none of them
 * is shared by MPS. ERR_INVALID: they are of several daemons. ERR_UNAVAILABLE. */
int mps_link_enter(const struct mps_link *l, const struct table_resource *r, const char *const *ids,
                   size_t n, struct entry *ret, struct err *e) MUST_CHECK;
/* The same for a client of the daemon of a name. */
int mps_link_enter_daemon(const struct mps_link *l, const char *name, struct entry *ret,
                          struct err *e) MUST_CHECK;
/* NULL: all wanted daemons run, or are starting. Borrowed until the next change. */
const char *mps_link_trouble(const struct mps_link *l);
struct mps_link *mps_link_free(struct mps_link *l);
