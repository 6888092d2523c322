/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "reconcilers/context.h"

/*
 * Resources that no device plugin serves: Device.status.resources with publisher controller become
 * the Node's capacity and allocatable, both equal. A kubelet that registers anew resets them to 0
 * (kubernetes pkg/kubelet/kubelet_node_status.go, reconcileExtendedResource); then they are applied
 * again. Key: the node's name. Server-side apply on /status under a field manager of its own.
 */
struct controller *node_resources_controller_new(struct context *ctx);

/* --- Pure --- */

/* Names and counts that should stand: a JSON object of strings. New reference. */
json_t *node_resources_wanted(const struct device_record *device);
/* Do exactly these stand in both maps, applied by us? */
bool node_resources_stand(const struct node_record *node, json_t *wanted);
