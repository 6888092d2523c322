/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/err.h"

/*
 * Makes a folder that is really new: no process has it open or mounted, and it is empty. It is for
 * folders that containers write into, whose root is root on the host. Nothing that an earlier
 * container left (a link in place of a socket, a lock, a log) may reach the next daemon, and
 * emptying the old folder would race with a container that still has it mounted.
 */

/* Makes path a new empty folder with this mode, owned by the agent. Whatever has that name before
 * is moved beside it as ".old-<hex>" and removed without following a link, at any depth. What
 * cannot be removed now, or is beyond 4,096 files and folders, is removed by later calls. Missing
 * parent folders are made; only root may be able to write to them. ERR_SYSTEM. */
int fresh_folder_make(const char *path, unsigned mode, struct err *e) MUST_CHECK;
/* Moves whatever has that name aside and removes it likewise: at any time the name leads to the whole
 * folder or to nothing. A missing one is no error. ERR_SYSTEM. */
int fresh_folder_remove(const char *path, struct err *e) MUST_CHECK;
