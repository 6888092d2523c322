/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "nodeagent/telemetry/counter_file.h"

/* Names for what is measured of other vendors' cards, which DCGM's names are not for. Pure. */

/* All of them, as a list of counters. */
void neutral_fields_list(struct counter_list *ret);
