/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "reconcilers/context.h"
#include "reconcilers/node_view.h"

/*
 * Koordinator's Device of a node, where Koordinator is installed: made, kept and removed as the
 * node's cards are (partition/koordinator_mirror.h). Key: the node. Labels and annotations of
 * others stay. A Device that koordlet, or anybody else, has made is left alone. Only with a link to
 * Koordinator in the context.
 */
struct controller *koordinator_controller_new(struct context *ctx);

/* --- Pure --- */

enum koordinator_verb {
    KOORDINATOR_KEEP,
    KOORDINATOR_CREATE,
    KOORDINATOR_PATCH, /* a merge patch with the version that it was thought out for */
    KOORDINATOR_REMOVE,
};

struct koordinator_action {
    enum koordinator_verb verb;
    json_t *body; /* owned; of a creation or a patch */
};

/* What is to be done about the Device that stands (NULL: there is none). While the agent's word
 * cannot be read, nothing is. *ret is overwritten. */
void koordinator_plan(const struct node_view *v, const struct object *standing, int64_t now_ms,
                      struct koordinator_action *ret);
void koordinator_action_done(struct koordinator_action *a);
AUTO_DEFINE(koordinator_action, struct koordinator_action, koordinator_action_done)
#define auto_koordinator_action AUTO(koordinator_action)
