/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "partition/mig.h"

/* What only partitions have: a place on the card. */

#define CARD_SLICES_BYTES 32

/* The instance's memory slices: "slice 2" or "slices 4-7". Returns ret. */
const char *card_memory_slices(const struct mig_instance *inst, char ret[CARD_SLICES_BYTES]);
