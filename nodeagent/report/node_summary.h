/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "api/device.h"

/* Sums up status.devices in status.summary, for the columns of `kubectl get gpudev`. */
void node_summary_build(struct device_status *ret);
