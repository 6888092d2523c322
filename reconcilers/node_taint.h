/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <jansson.h>
#include <stdbool.h>

#include "base/auto.h"

struct node_view;

/*
 * The taint that keeps new pods off a node with an unhealthy card, where the profile that governs
 * the card asks for it (spec.health.taint). Pure; reconcilers/node.c writes it.
 */

#define NODE_TAINT_KEY "gpu.cleave.dev/unhealthy"

/* True when the Node should have the taint. v must be resolved. */
bool node_taint_wanted(const struct node_view *v);
/* True when a Node, as the API server returned it, has the taint. */
bool node_taint_stands(const json_t *node);
/* The merge patch that adds or removes the taint and keeps every other taint. It holds the Node's
 * uid and resourceVersion, so it fails when the Node changed meanwhile. NULL: nothing to change.
 * New reference. */
json_t *node_taint_patch(const json_t *node, bool wanted);
