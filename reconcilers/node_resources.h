/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "reconcilers/node_view.h"

/*
 * The resources that no device plugin serves: entries of Device.status.resources with publisher
 * `controller` become the Node's capacity and allocatable, both equal. A kubelet that registers
 * anew resets them to 0 (kubernetes pkg/kubelet/kubelet_node_status.go, reconcileExtendedResource);
 * then they are applied again. Where Koordinator is installed, the resources by which its scheduler
 * counts cards (koordinator.sh/gpu-core and so on) are added, and gpushare's where the controller is
 * told to. Pure; reconcilers/node.c writes them.
 */

/* The names and counts that the Node should have: a JSON object of strings. next is a spec that is
 * about to be ordered, or that the agent has not acknowledged yet: only what exists now and
 * survives it is offered, so that no pod is scheduled onto what goes. NULL: nothing is ordered. New
 * reference. */
json_t *node_resources_wanted(const struct node_view *v, const struct device_spec *next);
/* True when both maps of the Node hold exactly these, applied by us. */
bool node_resources_stand(const struct node_record *node, json_t *wanted);
/* True when the Node shows what the Device offers. */
bool node_resources_published(const struct node_view *v);
/* True when the Node has resources of ours of which it is not known yet whether they are wanted. */
bool node_resources_wait(const struct node_view *v);
