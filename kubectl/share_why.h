/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/scope.h"

#include "kubeclient/client.h"
#include "kubectl/pod_nodes.h"
#include "kubectl/screen.h"
#include "kubectl/unread.h"

/*
 * The reasons why a pod gets no share of a card: cleave-scheduler's own planner is asked, node by
 * node, on the cluster as it is listed, with the quotas of the pod's namespace.
 */

/* The card with the most memory that a new share could have. */
struct share_room {
    int64_t card; /* its number on the node */
    unsigned memory_mib, percent;
};

struct share_node {
    char *name, *refusal; /* refusal NULL: the pod may have it, as far as there is room */
    char *misfit;         /* why the cards have no room for it; NULL: they have */
    char *quota;          /* which quota does not allow what it would have there; NULL: none */
    bool gives;           /* it gives cards in shares */
    bool has_largest;
    struct share_room largest;
};

struct share_why {
    char *asks;    /* for what, in words */
    char *invalid; /* why what the pod says cannot be meant; NULL: it can, and the rest is set */
    struct share_node *nodes;
    size_t n_nodes;
    struct unread unread;
};

/* Reads the cluster and asks. pod: one that asks for a share (pod_wish); may: which nodes
 * it may have. Errors are those of the API client. *ret is overwritten. */
int share_why_make(struct kc *kc, struct scope *s, json_t *pod, const struct pod_nodes *may,
                   struct share_why *ret, struct err *e) MUST_CHECK;
/* Appends the reasons for a person. */
void share_why_text(const struct share_why *y, const struct screen *s, struct sb *ret);
/* The same as a document. New reference. */
json_t *share_why_json(const struct share_why *y);
void share_why_done(struct share_why *y);
AUTO_DEFINE(share_why, struct share_why, share_why_done)
#define auto_share_why AUTO(share_why)
