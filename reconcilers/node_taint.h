/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <jansson.h>
#include <stdbool.h>

#include "base/auto.h"

struct node_view;

/*
 * The taint that keeps new pods off a node with a card that is not well, where the profile that
 * decides about that card asks for it (spec.health.taint). Pure; reconcilers/node.c writes it.
 */

#define NODE_TAINT_KEY "gpu.cleave.dev/unhealthy"

/* Of a resolved view: should the Node carry it? */
bool node_taint_wanted(const struct node_view *v);
/* Does a Node, as the API server has it, carry it? */
bool node_taint_stands(const json_t *node);
/* The merge patch that makes it so and leaves every other taint as the Node has it; it holds the
 * Node's uid and version, so that it fails when anything moved. NULL: it is so already. New
 * reference. */
json_t *node_taint_patch(const json_t *node, bool wanted);
