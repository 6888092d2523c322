/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stddef.h>

#include "nodeagent/mode/card_part.h"

/*
 * The identifiers under which the kubelet knows devices. They outlive restarts, re-creations and
 * reboots (docs/adr/0011). Pure.
 *
 * device                | identifier
 * card                  | its UUID
 * partition             | UUID, profile, first memory slice: "GPU-…/1g.10gb@4"; with several
 *                       | compute instances also the compute slice: "GPU-…/1c.3g.40gb@4.1"
 * slice                 | UUID of the card and the slice's alias: "GPU-…/small-0"
 * virtual function      | UUID of the card and the function's distance from it: "GPU-…/vf@2"
 * slot                  | "sgpu@3", "share@3" or "koord@3" (slot_pool.h); its card is chosen only
 *                       | when its pod is known
 * replica, the third    | "::2" behind the identifier of the shared device
 */
#define DEVICE_ID_BYTES 192

/* The id of a whole card, or with p of a part. buf holds DEVICE_ID_BYTES. Returns buf. */
char *device_id(const struct gpu_card *card, const struct card_part *p, char *buf);
/* The length of an id without its replica's suffix. */
size_t device_id_base(const char *id);
