/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "nodeagent/gpu/gpu.h"

/*
 * What the driver's own readings say of a card's health, as a pure rule without memory. The driver
 * is the judge of its hardware: the recovery action that it asks for decides, and what it counts
 * speaks only where it names no action (before 570).
 *
 * Sources: docs.nvidia.com/deploy/a100-gpu-mem-error-mgmt, "Error Recovery and Response Flags" (a
 * pending row remapping harms nobody: work goes on and new work may start; the actions' meanings);
 * nvmlDeviceGetRemappedRows (a failure stays on record); nvmlDeviceGpuRecoveryAction_t (its
 * values).
 */

/* Says in the card whether its vitals make it ill, and why (healthy, unhealthy_reason,
 * unhealthy_message, the partitions' healthy). */
void vitals_judge(struct gpu_card *card);

/* What is to be done to the card some time although it is well: a condition's reason (static), and
 * its message through ret_message (static). NULL: nothing. */
const char *vitals_notice(const struct gpu_vitals *v, const char **ret_message);

/* Does the driver name its recovery action, and is it none? */
bool vitals_are_well(const struct gpu_vitals *v);

/* Was the card reset between two readings? Only a reset takes back a pending remapping, the counter
 * of what happened since the last reset, or an action asked for. */
bool vitals_show_reset(const struct gpu_vitals *before, const struct gpu_vitals *after);

/* Marks the card, and so all its partitions, ill. Texts are copied and cut to their place. */
void gpu_card_mark_ill(struct gpu_card *card, const char *reason, const char *message);
