/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "kubectl/cluster_objects.h"
#include "kubectl/node_plan.h"
#include "kubectl/plan_file.h"
#include "kubectl/plan_time.h"
#include "kubectl/profile_verdict.h"

/* The forecast of a cluster: the changes that the objects of a file would make. */

/* A profile of the file: what the controller will say of it, the nodes that it has to change, and
 * how many at a time. */
struct plan_queue {
    char *profile;
    struct profile_verdict verdict;
    char *max_unavailable; /* as it is written: "1", "25%" */
    size_t at_once;
    bool paused;
    char **waiting; /* nodes by name, whose change is yet to be ordered */
    size_t n_waiting;
    char **in_change; /* nodes by name, whose change is ordered, and not done */
    size_t n_in_change;
    struct plan_time time; /* of all these nodes */
};

struct cluster_plan {
    struct node_plan *nodes; /* by name: those that the file's objects concern */
    size_t n_nodes;
    struct plan_queue *queues; /* one for each profile of the file */
    size_t n_queues;
    size_t n_devices; /* that were looked at */
    struct unread unread;
};

/* Reads the cluster and plans; nothing is written. Errors are those of the API client. *ret is
 * overwritten. */
int cluster_plan_make(struct kc *kc, struct scope *s, const struct plan_file *file,
                      struct cluster_plan *ret, struct err *e) MUST_CHECK;
/* True when the profile is refused, and the plan of no node says so. */
bool cluster_plan_rejects(const struct cluster_plan *p, const struct plan_queue *q);
/* True when a node would change. */
bool cluster_plan_changes(const struct cluster_plan *p);
/* True when something that the file asks for cannot be. */
bool cluster_plan_refuses(const struct cluster_plan *p);
void cluster_plan_done(struct cluster_plan *p);
AUTO_DEFINE(cluster_plan, struct cluster_plan, cluster_plan_done)
#define auto_cluster_plan AUTO(cluster_plan)
