/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "reconcilers/context.h"

/* From a change of an object to the keys to reconcile: predicates tell which changes matter, maps
 * which keys they concern. Several reconcilers share them. The self of the maps is a struct
 * context. */

/* True when a Node was added or removed, or its labels, its resources of vendors' domains, or their
 * managers changed. A heartbeat of the kubelet changes none of these. */
bool maps_node_changed(const struct object *before, const struct object *after);

/* GPUProfile → the nodes that it selects and that have a Device. */
void maps_profile_to_nodes(void *self, const struct object *profile, struct wq *out);
/* MIGConfig → the nodes whose label names it, and the nodes of all profiles that name it. */
void maps_config_to_nodes(void *self, const struct object *config, struct wq *out);
/* Any object that concerns all nodes → every node that has a Device. */
void maps_to_every_device(void *self, const struct object *obj, struct wq *out);
