/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "nodeagent/cdi/cdi_slot.h"

/* The versions of the limiter's libraries on the host: a folder each, named by its content
 * (nodeagent/commands/limiter_install.h). */

/* Of a version's name, 16 hex digits, with the NUL. */
enum { LIMITER_NAME_BYTES = 17 };

/* Removes the versions beside this one that no slot's CDI file names. current: the folder of the
 * version that new files name. For an agent that is alone on its node. Reads the CDI files only where
 * there are other versions. Failures are logged. */
void limiter_files_sweep(const char *current, const struct cdi_slots *cdi);
