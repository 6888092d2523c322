/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <jansson.h>
#include <stdbool.h>

#include "base/auto.h"
#include "base/err.h"

#include "interop/hami_pod.h"
#include "partition/fraction.h"

/* A pod's question to the planner: what its containers ask of the cards of one node. Pure. */

struct pod_ask {
    json_t *pod;           /* owned; the rest borrows from it */
    const char *ns, *name; /* "" where the pod says none */
    const char *uid;       /* not "" */
    struct fraction_ask
        asks[FRACTION_MAX_CONTAINERS]; /* one for each container, init containers first, which use
                                          the shares of those after them and have a count of 0 */
    unsigned n;
    unsigned n_shares; /* of all containers; 0: it asks for no card */
    bool whole;        /* each of them is a whole card */
    struct err
        shared; /* of whole cards: why it may have none of a node that gives shares; kind 0: it may */
    int priority; /* 0 high, 1 low */
    struct hami_wish wish;
};

/* Reads a pod (the object, as JSON). ERR_INVALID: it has no uid, or what it says cannot be meant; the
 * message names container or annotation, the value, and what is allowed. ERR_TOO_LARGE: it has more
 * containers, shares or annotations than a record has room for; a pod of whole cards may go without a record,
 * where the kubelet chooses the cards (shared). *ret is set where 0 is returned; free it with pod_ask_done. */
int pod_ask_of(json_t *pod, struct pod_ask *ret, struct err *e) MUST_CHECK;
void pod_ask_done(struct pod_ask *a);
AUTO_DEFINE(pod_ask, struct pod_ask, pod_ask_done)
#define auto_pod_ask AUTO(pod_ask)

/* The phase of a container of the list "initContainers" (is_init) or "containers". */
enum fraction_phase pod_phase_of(const json_t *container, bool is_init);
