/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Files of the fake /proc below CLEAVE_SIM_PROC. Names are relative to it. Call with the state
 * locked and, except the first function, with CLEAVE_SIM_PROC set.
 */
#pragma once

#include <stdbool.h>

/* The folder; NULL: there is no fake /proc. */
const char *proc_root(void);

/* Replaces a whole file, making its folders; a reader sees the old content or the new. False, with
 * errno set, on failure. */
bool proc_write(const char *name, const char *content);

/* True when this is the file's first line. */
bool proc_holds(const char *name, const char *line);

/* True when a file or folder of that name exists. */
bool proc_exists(const char *name);

/* Removes a file or an empty folder, if it exists. */
void proc_remove(const char *name);
