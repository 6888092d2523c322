/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Files of the fake /proc below CLEAVE_SIM_PROC. Names are relative to it. To be called with the
 * state locked and, the first apart, with CLEAVE_SIM_PROC set.
 */
#pragma once

#include <stdbool.h>

/* The folder; NULL: there is no fake /proc. */
const char *proc_root(void);

/* Replaces a file whole, making its folders; a reader sees the old content or the new. false, with
 * errno set, when that failed. */
bool proc_write(const char *name, const char *content);

/* Is the first line of the file this? */
bool proc_holds(const char *name, const char *line);

/* Is there something of that name? */
bool proc_exists(const char *name);

/* Removes a file or an empty folder, if it is there. */
void proc_remove(const char *name);
