/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/err.h"

#include "nodeagent/change/card_plan.h"
#include "nodeagent/gpu/gpu.h"

/*
 * Runs steps on the hardware, in order, and stops at the first that fails. It decides nothing: the
 * caller has made sure that nothing blocks, and judges what an error means.
 */

/* `card` is the reading from which the steps were made. *ret_done counts the steps that succeeded,
 * also on failure. Destroying what is already gone succeeds. The error names the step and the call;
 * its reason is the driver's (InUse, GPULost …), or RebootRequired when only a reboot makes a mode
 * current. Blocks; a worker's thread that has the card in hand. */
int card_steps_run(struct gpu *gpu, const struct gpu_card *card, const struct card_steps *steps,
                   unsigned *ret_done, struct err *e) MUST_CHECK;
