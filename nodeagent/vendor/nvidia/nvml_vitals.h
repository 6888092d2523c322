/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "nodeagent/gpu/gpu.h"

/*
 * The health of a card by the driver's own readings: a pure rule without memory. The recovery
 * action that the driver asks for decides. Its counters decide only where it names no action
 * (before 570).
 *
 * Sources: docs.nvidia.com/deploy/a100-gpu-mem-error-mgmt, "Error Recovery and Response Flags" (a
 * pending row remapping is harmless: running and new work may continue; the actions' meanings);
 * nvmlDeviceGetRemappedRows (a failure stays on record); nvmlDeviceGpuRecoveryAction_t (its
 * values).
 */

/* Sets by the card's vitals whether it is ill, and why (healthy, unhealthy_reason,
 * unhealthy_message, the partitions' healthy). */
void nvml_vitals_judge(struct gpu_card *card);
