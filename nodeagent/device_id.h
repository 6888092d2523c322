/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stddef.h>

#include "nodeagent/card_part.h"

/*
 * The identifiers under which the kubelet knows devices: they outlive restarts, re-creations and
 * reboots (docs/adr/0011). Pure.
 *
 * A device's id is the card's UUID; a partition's is the card's UUID, the profile and the first
 * memory slice, "GPU-…/1g.10gb@4" (with compute instances apart, "GPU-…/1c.3g.40gb@4.1"); a slice's
 * is the card's UUID and its alias, "GPU-…/small-0"; a virtual function's is the card's UUID and
 * how far behind the card's own function it lies, "GPU-…/vf@2"; a slot, for which a slice is made
 * once its pod is known and on the card that is chosen then, is "sgpu@3"; "::2" is appended to the
 * third replica of a shared one.
 */
#define DEVICE_ID_BYTES 192

/* The id of a whole card, or with p of a part. buf holds DEVICE_ID_BYTES. Returns buf. */
char *device_id(const struct gpu_card *card, const struct card_part *p, char *buf);
/* How long an id is without its replica. */
size_t device_id_base(const char *id);
/* The id of a slot. buf as above. */
char *device_slot_id(unsigned slot, char *buf);
/* The slot of an id; -1: it is none of a slot. */
int device_slot_of(const char *id);
/* Where a compute instance begins in its GPU instance; -1: it fills it, and no id says more. */
int device_ci_place(const struct gpu_card *card, const struct gpu_partition *p);
