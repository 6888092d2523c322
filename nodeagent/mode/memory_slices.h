/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "partition/mig.h"

#define CARD_SLICES_BYTES 32

/* The memory slices of a MIG instance, in words for messages: "slice 2" or "slices 4-7". Returns
 * ret. */
const char *card_memory_slices(const struct mig_instance *inst, char ret[CARD_SLICES_BYTES]);
