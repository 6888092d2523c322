/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/err.h"

/*
 * Gives a container's bundle, before its runtime reads it, the devices that its marks name
 * (nodeagent/container/grant_mark.h) as the agent's descriptions have them. Uses the disk.
 */

enum { BUNDLE_CONFIG_BYTES = 16 << 20 };

/* cdi_folder: where the descriptions are. A configuration without marks is left as it is, whatever
 * else is in it; so is a bundle without one, for the runtime to say. Only files that root alone may
 * change are believed. Errors name the device and the file; the configuration is unchanged then:
 *   ERR_NOT_FOUND   a device is not described (yet), or a device file is not there
 *   ERR_INVALID, ERR_PROTOCOL   the configuration or a description is not as it should be
 *   ERR_FORBIDDEN   others than root may change a description
 *   ERR_TOO_LARGE, ERR_SYSTEM */
int bundle_bring(const char *bundle, const char *cdi_folder, struct err *e) MUST_CHECK;
