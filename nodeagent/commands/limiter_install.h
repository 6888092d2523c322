/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/err.h"

/*
 * The limiter's libraries, from the agent's image to the host, where containers have them mounted
 * (container_vendor.h, struct container_shim). Each version has a folder of its own, named by what is
 * in it, so that a container's libraries are never changed: limiter_files.h removes those that nobody
 * has any more.
 */

/* Copies the libraries of folder `from` below folder `to`, which is made, and has the same path for
 * the agent and on the host. *ret is the folder that has them, or NULL: `from` has no limiter. Caller
 * frees. ERR_NOT_FOUND: one of the libraries is missing. Others as host_copy. */
int limiter_install(const char *from, const char *to, char **ret, struct err *e) MUST_CHECK;
