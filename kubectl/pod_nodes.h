/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <jansson.h>
#include <stddef.h>

/*
 * Which nodes a pod may have, as kube-scheduler takes its spec: affinity, and what other pods want,
 * are not judged. Pure; borrows from the pod. Read once for all nodes: a pod's author may write
 * thousands of tolerations.
 */
struct pod_nodes {
    struct toleration *tolerations; /* sorted */
    size_t n;
    const json_t *selector;
};

/* *ret is overwritten. */
void pod_nodes_read(const json_t *pod, struct pod_nodes *ret);
void pod_nodes_done(struct pod_nodes *p);
/* Why the pod may not have this Node, for a person: not Ready, cordoned, a taint that it does not
 * tolerate, its nodeSelector. Caller frees. NULL: it may. */
char *pod_nodes_refusal(const struct pod_nodes *p, const json_t *node);
