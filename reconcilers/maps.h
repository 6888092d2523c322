/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "reconcilers/context.h"

/* Which keys a change concerns: predicates and maps that several reconcilers share. The self of the
 * maps is a struct context. */

/* Nodes whose labels, resources of vendors' domains, or managers of these changed, came or went. A
 * heartbeat changes none. */
bool maps_node_changed(const struct object *before, const struct object *after);

/* GPUProfile → the nodes that it selects and that have a Device. */
void maps_profile_to_nodes(void *self, const struct object *profile, struct wq *out);
/* MIGConfig → the nodes whose label names it, and the nodes of all profiles that name it. */
void maps_config_to_nodes(void *self, const struct object *config, struct wq *out);
/* Anything that concerns all → every node that has a Device. */
void maps_to_every_device(void *self, const struct object *obj, struct wq *out);
