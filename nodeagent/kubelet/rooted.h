/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/err.h"

/*
 * Paths below a root that is another system's "/", as a driver container's: links there mean what
 * they mean to that system.
 *
 * Only what root alone may change is followed. Each folder, link and file on the way, the root
 * itself included, belongs to root (or to the user that the agent runs as), and no folder or file
 * may be written by its group or by others. A folder with the sticky bit, as /tmp, is one that
 * others may write: they make links there. The walk goes from descriptor to descriptor, so what is
 * checked is what is walked; and as nobody but root can change any part of the path afterwards, its
 * name means the same thing to a container runtime that opens it much later.
 */

/* Where a path leads, as a path below root that has no links in it. "/.." is "/".
 * ERR_NOT_FOUND; ERR_FORBIDDEN: others than root may change it; ERR_INVALID: more than 40 links, or
 * beyond PATH_MAX. Caller frees *ret. */
int rooted_resolve(const char *root, const char *path, char **ret, struct err *e) MUST_CHECK;

/* The same, and the thing itself: *ret_fd is an O_PATH descriptor, closed by the caller. */
int rooted_open(const char *root, const char *path, char **ret, int *ret_fd,
                struct err *e) MUST_CHECK;

/* root and a path below it as one path; a root of "/" or "" adds nothing. Caller frees. */
char *rooted_join(const char *root, const char *path);
