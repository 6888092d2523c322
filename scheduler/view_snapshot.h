/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "partition/fraction.h"
#include "scheduler/quota.h"
#include "scheduler/view.h"

/*
 * All that a view has at one moment: cards, shares, and what namespaces may have. For whoever tells
 * of the whole; a decision asks view.h for one node. Values that own their strings, in no order.
 */

struct snapshot_card {
    char *node, *uuid, *model;
    unsigned index;   /* its number on the node */
    unsigned sharers; /* shares that are given out; of a pod that holds the whole card, one */
    struct fraction_size total, used;
};

/* What one container was given of a card, by the record of its pod. */
struct snapshot_share {
    char *ns, *pod, *node, *uuid;
    unsigned container; /* its place in the pod, where init containers come first */
    unsigned memory_mib, percent;
};

/* A namespace that quotas bound. */
struct snapshot_quota {
    char *ns;
    struct quota_use most; /* what all its quotas allow; -1: any amount */
    struct quota_use used; /* with what is assumed for pods that are about to be bound */
};

struct view_snapshot {
    struct snapshot_card *cards;
    size_t n_cards;
    struct snapshot_share *shares;
    size_t n_shares;
    struct snapshot_quota *quotas;
    size_t n_quotas;
};

/* Takes one: a single pass over cards, pods and quotas, under the view's lock. Any thread. *ret is
 * overwritten. */
void view_snapshot_take(struct view *v, struct view_snapshot *ret);
void view_snapshot_done(struct view_snapshot *s);
AUTO_DEFINE(view_snapshot, struct view_snapshot, view_snapshot_done)
#define auto_view_snapshot AUTO(view_snapshot)
