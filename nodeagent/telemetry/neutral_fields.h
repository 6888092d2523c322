/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "nodeagent/telemetry/counter_file.h"

/* Metrics of other vendors' cards, under names of our own: DCGM's are for NVIDIA's. Pure. */

/* All of them, as a list of counters. */
void neutral_fields_list(struct counter_list *ret);
