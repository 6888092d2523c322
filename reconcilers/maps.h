/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "reconcilers/context.h"

/* Which keys a change concerns: predicates and maps that several reconcilers share. The self of the
 * maps is a struct context. */

/* Nodes whose labels (or the labels' managers) changed, came or went. */
bool maps_labels_changed(const struct object *before, const struct object *after);
/* The same of resources in vendors' domains. */
bool maps_resources_changed(const struct object *before, const struct object *after);

/* GPUProfile → the nodes that it selects and that have a Device. */
void maps_profile_to_nodes(void *self, const struct object *profile, struct wq *out);
/* MIGConfig → the nodes whose label names it. */
void maps_config_to_labelled_nodes(void *self, const struct object *config, struct wq *out);
/* MIGConfig → these, and the nodes of all profiles that name it. */
void maps_config_to_nodes(void *self, const struct object *config, struct wq *out);
