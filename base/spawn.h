/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stddef.h>
#include <sys/types.h>

#include "base/err.h"

/* Starts other programs with posix_spawn(3), which copies no memory and is safe beside threads. */

enum {
    SPAWN_NULL = -1, /* /dev/null */
    SPAWN_OURS = -2, /* our own one: for the first three only */
};

#define SPAWN_MAX_FDS 16

/* Starts a program with exactly this environment, default signals, none blocked, and n_fds
 * descriptors (at most SPAWN_MAX_FDS): fds[i] becomes its descriptor i. argv and env end in NULL. A
 * file without a slash is searched in our PATH. Returns 0, or an errno number: ENOENT, no such
 * program. Any thread. */
int spawn_with(const char *file, char *const argv[], char *const env[], const int *fds,
               size_t n_fds, pid_t *ret) MUST_CHECK;

/* The same with three descriptors. */
int spawn(const char *file, char *const argv[], char *const env[], const int fds[3],
          pid_t *ret) MUST_CHECK;

/* The program that a child process of ours runs: the one of this name beside our own file, or our
 * own file where there is none. Freed by the caller. Any thread. */
char *spawn_child_program(const char *name);
