/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "api/device.h"
#include "partition/mig.h"

/* Conversions between the planner's table of a model and the model in Device.status.models. */

/* ERR_INVALID when the model lists more than the planner's bounds, or placements off its grid. A
 * model without profiles gives an empty table. */
int model_to_table(const struct device_model *m, struct mig_table *ret, struct err *e) MUST_CHECK;
/* *ret was zeroed; the caller owns its strings and arrays (device_status_done frees them). */
void model_from_table(const char *name, const struct mig_table *t, struct device_model *ret);
