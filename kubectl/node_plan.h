/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "api/device.h"
#include "kubectl/plan_file.h"
#include "kubectl/plan_values.h"
#include "reconcilers/node_view.h"

/*
 * The forecast of one node: what will be done there once its view is in force. The wants are those
 * of the controller (node_view_resolve, device_spec_needs_ticket, standing_of); the parts that
 * stay, go and come are those of the agent's planner (card_plan). Pure.
 */

/* A problem with one source: it cannot be followed on this node, or the node has not done it. */
struct plan_problem {
    char *source, *reason, *message;
    bool refused; /* nothing of this source is done on this node */
    bool of_file; /* the file brings what the source asks for, or its Node brings the problem */
};

struct node_plan {
    char *name;
    struct card_plan_view *cards; /* those that a source governs, in the Device's order */
    size_t n_cards;
    struct plan_problem *problems;
    size_t n_problems;
    bool changes;      /* the Device's spec, or its hardware, would be another */
    bool cards_change; /* its hardware would */
};

/* The node that a forecast is of. Borrowed. */
struct node_case {
    const struct node_view *v; /* resolved with the file in it; it has Node and Device */
    /* The same with the Node that the cluster has; NULL: the file has none of that name. */
    const struct node_view *before;
    const struct plan_file *file;
};

/* Makes the forecast; st is the status of the node's Device. *ret is overwritten. */
void node_plan_make(const struct node_case *c, const struct device_status *st,
                    struct node_plan *ret);
/* True when something that the file asks of the node cannot be. What is ill or wrong there beside
 * that is shown, and does not count. */
bool node_plan_refuses(const struct node_plan *p);
void node_plan_done(struct node_plan *p);
AUTO_DEFINE(node_plan, struct node_plan, node_plan_done)
#define auto_node_plan AUTO(node_plan)
