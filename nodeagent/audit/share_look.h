/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "nodeagent/audit/share_audit.h"
#include "nodeagent/change/card_view.h"
#include "nodeagent/offer/shares.h"
#include "nodeagent/slots/share_folder.h"

/*
 * Gathers what share_audit.h judges, at a reading: which of the processes that the driver reports on
 * a card belong to the containers of its limited shares, and what these containers say themselves.
 * Reads small files, none of which a container can make it wait for; for the worker's threads.
 */
struct share_look_where {
    const char *proc_root;               /* NULL: /proc */
    const struct share_folders *folders; /* NULL: no share is limited */
};

/* One limited share on a card that could be read. */
struct share_sight {
    unsigned slot;
    unsigned folder; /* the slot that names its container's folder */
    char card[GPU_UUID_BYTES];
    char *uid, *container; /* of its pod */
    bool is_driven;        /* the driver holds it, and the limiter as well */
    uint64_t limit_bytes;
    uint64_t context_bytes;    /* as its terms say */
    unsigned percent;          /* of the card's compute, as its terms say; 0: no guarantee */
    bool takes_turns;          /* on its card, by the limiter ... */
    struct arbiter_sums turns; /* ... as these sums say */
    struct audit_process *processes;
    size_t n;
};

/* Owned: share_sights_done. */
struct share_sights {
    struct share_sight *items;
    size_t n;
};

/* Appends those of these shares to *ret. A process of their pods that is of none of their containers,
 * and one of which that is not known, is left out; so is a share whose folder or files the agent
 * could not read for a reason of its own. */
void share_look(const struct share_look_where *where, const struct shares *shares,
                const struct card_view *views, size_t n_views, struct share_sights *ret);
void share_sights_done(struct share_sights *s);
AUTO_DEFINE(share_sights, struct share_sights, share_sights_done)
#define auto_share_sights AUTO(share_sights)
