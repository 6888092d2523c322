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

struct pod_shares {
    char *ns;                /* the pod's namespace */
    char *node;              /* where it is bound */
    int64_t priority;        /* of the pod, among pods */
    struct pod_share *items; /* one for each card */
    size_t n;
};

/* The cache's kind: a record is a struct pod_shares, NULL where the pod was given nothing, is not
 * bound, or has ended. Of a bound pod without it the agent chooses the cards, and tells. */
extern const struct object_type pod_shares_type;
const struct pod_shares *pod_shares_of(const struct object *pod); /* NULL: none. Borrowed */

/* Fills in namespace, priority and items, by a pod and what its containers were given. */
void pod_shares_add(struct pod_shares *s, const json_t *pod, const struct allocation *a);
void pod_shares_done(struct pod_shares *s);
AUTO_DEFINE(pod_shares, struct pod_shares, pod_shares_done)
#define auto_pod_shares AUTO(pod_shares)
