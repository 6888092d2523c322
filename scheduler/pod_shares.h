/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "api/allocation.h"
#include "kubeclient/object.h"
#include "partition/fraction.h"

/* The shares that pods were given, by their records. The record that the cache of pods keeps. */

/* A pod's part of one card: the most that it takes of it at any time of its life. */
struct pod_share {
    char *uuid;
    struct fraction_size size;
};

/* One container's share of a card. */
struct pod_part {
    unsigned item;      /* of which card: index into items */
    unsigned container; /* its place in the pod, where init containers come first */
    unsigned memory_mib, percent;
};

struct pod_shares {
    char *ns;                /* the pod's namespace */
    char *node;              /* where it is bound */
    int64_t priority;        /* of the pod, among pods */
    struct pod_share *items; /* one for each card */
    size_t n;
    struct pod_part *parts;
    size_t n_parts;
};

/* The cache's kind: a record is a struct pod_shares, NULL where the pod was given nothing, is not
 * bound, or has ended. Of a bound pod without it the agent chooses the cards, and tells. */
extern const struct object_type pod_shares_type;
const struct pod_shares *pod_shares_of(const struct object *pod); /* NULL: none. Borrowed */

/* Fills in namespace, priority, items and parts, by a pod and what its containers were given. */
void pod_shares_add(struct pod_shares *s, const json_t *pod, const struct allocation *a);
void pod_shares_done(struct pod_shares *s);
AUTO_DEFINE(pod_shares, struct pod_shares, pod_shares_done)
#define auto_pod_shares AUTO(pod_shares)
