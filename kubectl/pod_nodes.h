/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <jansson.h>
#include <stddef.h>

/*
 * The nodes that a pod may have, as kube-scheduler takes its spec, without affinity and what other
 * pods want. Pure; borrows from the pod. The pod is read once for all nodes, since its author may
 * write thousands of tolerations.
 */
struct pod_nodes {
    struct toleration *tolerations; /* sorted */
    size_t n;
    const json_t *selector;
};

/* Reads the pod. *ret is overwritten. */
void pod_nodes_read(const json_t *pod, struct pod_nodes *ret);
void pod_nodes_done(struct pod_nodes *p);
/* Why the pod may not have this Node, for a person: not Ready, cordoned, a taint that it does not
 * tolerate, its nodeSelector. Caller frees. NULL: it may. */
char *pod_nodes_refusal(const struct pod_nodes *p, const json_t *node);
