/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <jansson.h>

#include "reconcilers/context.h"
#include "reconcilers/node_view.h"

/*
 * Removes resource names that a node no longer has. A kubelet leaves such names in its Node's
 * capacity and allocatable as 0 for ever (kubernetes pkg/kubelet/nodestatus/setters.go,
 * MachineInfo), where they look like broken cards. Key: the node. A name is removed only after the
 * kubelet has forgotten it: before that the kubelet would put it back.
 */
enum {
    /* The kubelet keeps a resource for five minutes after its plugin went
     * (pkg/kubelet/cm/devicemanager endpointStopGracePeriod), and our plugin stays registered for
     * some seconds after its last device. */
    RETIRED_AFTER_MS = 360000,
};

struct controller *retired_controller_new(struct context *ctx);

/* --- Pure --- */

/* The patch that removes the retired names: those of cards and partitions that are 0 in capacity
 * and allocatable, that the Device does not list and that we did not apply. A merge patch of
 * nodes/status with the Node's version. NULL: there are none, or another's device plugin serves the
 * kubelet. New reference. */
json_t *retired_patch(const struct node_view *v);
/* True when some name may be retired, but the caches do not show it for certain yet. */
bool retired_wait(const struct node_view *v);
