/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "partition/mig.h"

/* The place of a MIG instance on its card, in words for messages. MIG as a mode, from the plan of
 * partition/mig.h to layout and steps, is the row card_mode_mig (mig.c, card_mode.h). */

#define CARD_SLICES_BYTES 32

/* The instance's memory slices: "slice 2" or "slices 4-7". Returns ret. */
const char *card_memory_slices(const struct mig_instance *inst, char ret[CARD_SLICES_BYTES]);
