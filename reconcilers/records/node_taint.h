/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <jansson.h>
#include <stdbool.h>

/*
 * The taint that keeps new pods off a node with an unhealthy card, in the JSON of a Node. Pure;
 * reconcilers/taint_policy.h decides, reconcilers/node.c writes.
 */

#define NODE_TAINT_KEY "gpu.cleave.dev/unhealthy"

/* True when a Node, as the API server returned it, has the taint. */
bool node_taint_stands(const json_t *node);
/* The merge patch that adds or removes the taint and keeps every other taint. It holds the Node's
 * uid and resourceVersion, so it fails when the Node changed meanwhile. NULL: nothing to change.
 * New reference. */
json_t *node_taint_patch(const json_t *node, bool wanted);
