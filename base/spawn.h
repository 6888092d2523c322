/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <sys/types.h>

#include "base/err.h"

/* Other programs, started. posix_spawn(3), which copies no memory and is safe beside threads. */

enum {
    SPAWN_NULL = -1, /* /dev/null */
    SPAWN_OURS = -2, /* the one that we have */
};

/* Starts a program with exactly this environment, default signals, none of them blocked, and no
 * descriptors but the first three, which become these. argv and env end in NULL. file without a
 * slash is looked for in our PATH. Returns 0, or errno's number: ENOENT, no such program. Any
 * thread. */
int spawn(const char *file, char *const argv[], char *const env[], const int fds[3],
          pid_t *ret) MUST_CHECK;
