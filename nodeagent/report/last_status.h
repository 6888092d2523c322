/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "api/device.h"

/*
 * The status that the agent before left in the Device, and that this one goes on with until it has
 * read the cards itself. It comes from the API server, so whoever may write Devices' status may
 * have written it: the schema bounds each field, and this the fields that an agent writes together.
 */

/* False, with *ret empty: no agent wrote this. status is Device.status; it is read only, and *ret
 * the caller's (device_status_done). */
bool last_status_read(const json_t *status, struct device_status *ret) MUST_CHECK;
