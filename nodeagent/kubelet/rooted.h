/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/err.h"

/*
 * Paths below a root that is another system's "/", as a driver container's: links there mean what
 * they mean to that system. For roots that an administrator owns; nothing is held open, so this is
 * no fence against someone who changes links meanwhile.
 */

/* Where a path leads, as a path below root that has no links in it. "/.." is "/".
 * ERR_NOT_FOUND; ERR_INVALID: more than 40 links, or beyond PATH_MAX. Caller frees *ret. */
int rooted_resolve(const char *root, const char *path, char **ret, struct err *e) MUST_CHECK;

/* root and a path below it as one path; a root of "/" or "" adds nothing. Caller frees. */
char *rooted_join(const char *root, const char *path);
