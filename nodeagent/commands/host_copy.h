/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/err.h"

/* Copies a file of the agent's image into a folder of the host, under its own name and with this
 * mode, for what runs there. At any time the name leads to the whole old file or to the whole new
 * one. A copy that is there already is left alone; whatever else has the name is replaced, and a link
 * is never followed.
 *  - ERR_NOT_FOUND: there is no such file, or no such folder.
 *  - ERR_INVALID: others than root, or than our own user, may change the folder.
 *  - ERR_TOO_LARGE; ERR_SYSTEM, also where a folder has the name. */
int host_copy(const char *file, const char *folder, unsigned mode, struct err *e) MUST_CHECK;
