/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/err.h"

/*
 * A folder that is new: nobody holds it open or has it mounted, and nothing is in it. For folders
 * that containers write into, whose root is root here: what one of them left (a link in place of a
 * socket, a lock, a log) must not meet the next daemon, and emptying the folder instead would race
 * with whoever still has it mounted.
 */

/* Makes path a new empty folder of ours with this mode, whatever stood there: that is moved beside,
 * as ".old-<hex>", and removed without following a link, however deep folders lie in folders. What
 * cannot be removed now, or is more than 4,096 files and folders, is removed by later calls.
 * Folders above are made if missing; nobody but root may write into them. ERR_SYSTEM. */
int fresh_folder_make(const char *path, unsigned mode, struct err *e) MUST_CHECK;
