/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <jansson.h>

#include "api/device.h"
#include "kubectl/plan_values.h"

/*
 * How long a plan takes, by what is known: how long the nodes' last changes took, from the order (the time of
 * the controller's write of Device.spec, in metadata.managedFields) to the hardware (the condition Applied
 * of the last card), in the API's whole seconds, with their drains. A guess, and told as one. Pure.
 */

/* The seconds that the nodes' last changes took. */
struct plan_pace {
    int64_t *seconds;
    size_t n;
};

/* Takes in what a Device tells of its last change, where it tells anything: not where its last order
 * left the hardware as it was, or is not done. */
void plan_pace_add(struct plan_pace *p, const json_t *device, const struct device_status *st);
void plan_pace_done(struct plan_pace *p);

/* The nodes of one profile. */
struct plan_time {
    size_t samples;              /* nodes whose last change is known; 0: the three times are 0 */
    int64_t node_s, node_most_s; /* the median of these, and the longest */
    int64_t all_s;               /* of all the nodes, so many at a time */
    size_t evicting;             /* nodes that evict pods first */
    int64_t evicting_most_s;     /* each of them: after so long it counts as failed */
    size_t waiting;              /* nodes that wait for somebody whom nobody evicts */
};

/* nodes, so many at once. Nodes that drain are added by plan_time_add. *ret is
 * overwritten. */
void plan_time_of(struct plan_pace *p, size_t nodes, size_t at_once, struct plan_time *ret);

/* The drains that a node waits for before it changes. */
struct plan_drains {
    bool evicts, waits;
    int64_t most_s;
};
void plan_drains_add(struct plan_drains *d, const struct card_plan_view *c);
void plan_time_add(struct plan_time *t, const struct plan_drains *of_a_node);
