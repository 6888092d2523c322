/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdint.h>

#include "api/device.h"

/*
 * The resources by which schedulers count what the shares of a node have together: nvidia.com/gpumem
 * in MiB, nvidia.com/gpumem-percentage and nvidia.com/gpucores in percent of a card (the words of
 * api/share_request.h). No device plugin has them. A scheduler that counts them places a pod on a
 * node whose sums suffice; which card has the room is decided elsewhere. Pure.
 */
struct share_sums {
    int64_t memory_mib, memory_percent, compute_percent;
};

/* Adds a card with so much memory that is given out in shares by these terms. */
void share_sums_add(struct share_sums *s, int64_t memory_mib,
                    const struct device_fractional *terms);
/* Adds the resources, for the controller to publish; none where the sums are 0. XPUSHes. */
void share_sums_offer(const struct share_sums *s, struct device_resource **list, size_t *n);
