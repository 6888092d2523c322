/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "reconcilers/context.h"
#include "reconcilers/node_view.h"

/*
 * Koordinator's Device object of a node, where Koordinator is installed: created, updated and
 * removed to agree with the node's cards (interop/koordinator_mirror.h). Key: the node. Labels
 * and annotations of other writers stay. A Device that koordlet or anyone else created is left
 * alone. Runs only when the context has a link to Koordinator.
 */
struct controller *koordinator_controller_new(struct context *ctx);

/* --- Pure --- */

enum koordinator_verb {
    KOORDINATOR_KEEP,
    KOORDINATOR_CREATE,
    KOORDINATOR_PATCH, /* a merge patch that holds the resourceVersion it was computed from */
    KOORDINATOR_REMOVE,
};

struct koordinator_action {
    enum koordinator_verb verb;
    json_t *body; /* owned; for CREATE and PATCH */
};

/* Decides about Koordinator's Device; standing is the present object, NULL when there is none.
 * Keeps it unchanged while the agent's status cannot be read. *ret is overwritten. */
void koordinator_plan(const struct node_view *v, const struct object *standing, int64_t now_ms,
                      struct koordinator_action *ret);
void koordinator_action_done(struct koordinator_action *a);
AUTO_DEFINE(koordinator_action, struct koordinator_action, koordinator_action_done)
#define auto_koordinator_action AUTO(koordinator_action)
