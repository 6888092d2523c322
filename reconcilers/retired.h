/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <jansson.h>

#include "reconcilers/context.h"
#include "reconcilers/node_view.h"

/*
 * Resource names that a node does not have any more. A kubelet leaves them in its Node's capacity
 * and allocatable as 0 for ever (kubernetes pkg/kubelet/nodestatus/setters.go, MachineInfo), where
 * they look as if the cards were broken. Key: the node. Names are removed when the kubelet has
 * forgotten them: before that it would put them back.
 */
enum {
    /* The kubelet keeps a resource for five minutes after its plugin went (pkg/kubelet/cm/
     * devicemanager endpointStopGracePeriod), and ours lets go some seconds after it shows none. */
    RETIRED_AFTER_MS = 360000,
};

struct controller *retired_controller_new(struct context *ctx);

/* --- Pure --- */

/* Removes from capacity and allocatable, unless another's device plugin serves the kubelet, the
 * names of cards and partitions that stand at 0, that the Device does not list and that we did not
 * apply: a merge patch of nodes/status with the Node's version. NULL: there are none. New
 * reference. */
json_t *retired_patch(const struct node_view *v);
/* Is there a name of which it is not known yet whether it is retired? */
bool retired_wait(const struct node_view *v);
