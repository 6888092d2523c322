/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "nodeagent/container/slot_pool.h"
#include "nodeagent/gpu/gpu.h"

struct holders;

/* A set of slots of all pools. A plain value; zeroed is empty. */
struct device_slots {
    uint64_t bits[SLOT_MAX / 64];
};
void device_slots_put(struct device_slots *s, unsigned slot);
void device_slots_drop(struct device_slots *s, unsigned slot);
/* Adds all slots of another set. */
void device_slots_join(struct device_slots *s, const struct device_slots *more);
/* Adds the slots that a pod holds, or was granted. */
void device_slots_add_held(struct device_slots *s, const struct holders *h);
/* Adds the slots whose slices the card shows. */
void device_slots_add(struct device_slots *s, const struct gpu_card *card);
bool device_slots_has(const struct device_slots *s, unsigned slot);
