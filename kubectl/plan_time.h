/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <jansson.h>

#include "api/device.h"
#include "kubectl/plan_values.h"

/*
 * The time that a plan takes: a guess, by how long the nodes' last changes took. A node's last
 * change is from its order (the time of the controller's write of Device.spec, in
 * metadata.managedFields) to the moment since which the last of its cards is as wanted (the
 * condition Applied), with its drain, in the API's whole seconds. Pure.
 */

/* The seconds that the nodes' last changes took. */
struct plan_pace {
    int64_t *seconds;
    size_t n;
};

/* Takes in the time of a Device's last change. A Device whose last order left the hardware as it
 * was, or is not done, has none. */
void plan_pace_add(struct plan_pace *p, const json_t *device, const struct device_status *st);
void plan_pace_done(struct plan_pace *p);

/* The time that the nodes of one profile take. */
struct plan_time {
    size_t samples;              /* nodes whose last change is known; 0: the three times are 0 */
    int64_t node_s, node_most_s; /* the median of these, and the longest */
    int64_t all_s;               /* of all the nodes, so many at a time */
    size_t evicting;             /* nodes that evict pods first */
    int64_t evicting_most_s;     /* each of them: after so long it counts as failed */
    size_t waiting;              /* nodes that wait for users whom nobody evicts */
};

/* The time of so many nodes, at_once of them at a time (0: one), without the drains of this change,
 * which plan_time_add adds. *ret is overwritten. */
void plan_time_of(struct plan_pace *p, size_t nodes, size_t at_once, struct plan_time *ret);

/* The drains that a node waits for before it changes. */
struct plan_drains {
    bool evicts, waits;
    int64_t most_s;
};
/* Adds the drain of one card. */
void plan_drains_add(struct plan_drains *d, const struct card_plan_view *c);
/* Adds the drains of one node. */
void plan_time_add(struct plan_time *t, const struct plan_drains *of_a_node);
