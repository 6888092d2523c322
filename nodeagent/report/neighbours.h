/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/auto.h"

#include "nodeagent/offer/node_state.h"

/*
 * Other programs that cut this node's cards, or offer them to the kubelet, beside the agent. The
 * agent says who they are and what switches them off, and does nothing about them: the condition
 * Neighbours of the Device, which decides over no other (docs/adr/0039). Plain values; pure.
 *
 * They are found in the kubelet's list of pods, which the agent reads anyway. Anybody who may make
 * pods on the node can give one such a name; the message therefore names the pod.
 */
#define NEIGHBOURS_CONDITION "Neighbours"
#define NEIGHBOURS_MAX       8 /* more are not listed */

struct neighbours {
    struct neighbour_pod {
        const struct neighbour *is; /* interop/neighbour_pods.h */
        char *ns, *pod;             /* owned */
    } items[NEIGHBOURS_MAX];
    size_t n;
};

/* Adds the pod if it is such a program's. A pod counts once, whatever its containers. */
void neighbours_add(struct neighbours *l, const char *ns, const char *pod, const char *container);
bool neighbours_equal(const struct neighbours *a, const struct neighbours *b);
void neighbours_done(struct neighbours *l);
AUTO_DEFINE(neighbours, struct neighbours, neighbours_done)
#define auto_neighbours AUTO(neighbours)

/* What to say of the node; NULL: nothing. *ret_reason: for the condition; static. Caller frees. */
char *neighbours_words(const struct node_state *s, const char **ret_reason);
/* Sets the condition in ret->conditions, or removes it. */
void neighbours_build(const struct node_state *s, int64_t now_ms, struct device_status *ret);
