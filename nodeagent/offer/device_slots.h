/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "nodeagent/gpu/gpu.h"

/*
 * A set of slots. A slot is a device that the kubelet grants before a slice exists for it
 * (docs/glossary.md). It has a number; "sgpu@3" to the kubelet (device_id.h), "slot.3" in CDI files
 * (cdi_slot.h), and the alias of its slice (sgpu_slot_alias) are made of it.
 */

/* A plain value; zeroed is empty. */
struct device_slots {
    uint64_t bits[SGPU_MAX_SLOTS / 64];
};
void device_slots_put(struct device_slots *s, unsigned slot);
/* Adds the slots whose slices the card shows. */
void device_slots_add(struct device_slots *s, const struct gpu_card *card);
bool device_slots_has(const struct device_slots *s, unsigned slot);
