/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/err.h"

/*
 * Resolves paths below a root that is another system's "/", such as a driver container's. Links are
 * resolved within that root.
 *
 * Only what root alone may change is followed. Each folder, link and file on the way, the root
 * itself included, must belong to root (or to the agent's own user), and neither its group nor
 * others may write to it. A folder with the sticky bit, such as /tmp, counts as writable, since
 * others can make links there. The walk goes from descriptor to descriptor, so what is checked is
 * what is walked. As only root can change any part of the path afterwards, a container runtime that
 * opens it much later gets the same file.
 */

/* The path below root that a path leads to, without links. "/.." is "/". ERR_NOT_FOUND;
 * ERR_FORBIDDEN: others than root may change it; ERR_INVALID: more than 40 links, or longer than
 * PATH_MAX. Caller frees *ret. */
int rooted_resolve(const char *root, const char *path, char **ret, struct err *e) MUST_CHECK;

/* The same, and opens it: *ret_fd is an O_PATH descriptor, closed by the caller. */
int rooted_open(const char *root, const char *path, char **ret, int *ret_fd,
                struct err *e) MUST_CHECK;

/* root and a path below it as one path; a root of "/" or "" adds nothing. Caller frees. */
char *rooted_join(const char *root, const char *path);
