/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "reconcilers/node_view.h"

/*
 * Resources that no device plugin serves: Device.status.resources with publisher controller become
 * the Node's capacity and allocatable, both equal. A kubelet that registers anew resets them to 0
 * (kubernetes pkg/kubelet/kubelet_node_status.go, reconcileExtendedResource); then they are applied
 * again. Where Koordinator is installed, what its scheduler counts cards by
 * (koordinator.sh/gpu-core and so on) stands there as well. Pure; reconcilers/node.h writes them.
 */

/* Names and counts that should stand: a JSON object of strings. With `next`, a spec that is about
 * to be ordered or that the agent has not answered yet, only what stands and stays by it is
 * offered, so that nothing is scheduled onto what goes; NULL: nothing is ordered. New reference. */
json_t *node_resources_wanted(const struct node_view *v, const struct device_spec *next);
/* Do exactly these stand in both maps, applied by us? */
bool node_resources_stand(const struct node_record *node, json_t *wanted);
/* Does the Node show what the Device offers? */
bool node_resources_published(const struct node_view *v);
/* Does something stand, applied by us, of which it is not known yet whether it is wanted? */
bool node_resources_wait(const struct node_view *v);
