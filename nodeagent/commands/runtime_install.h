/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/err.h"

/* The path of the program of that name that lies beside our own one. Caller frees. ERR_SYSTEM. */
int runtime_beside_us(const char *program, char **ret, struct err *e) MUST_CHECK;

/* Copies a program into a folder of the host, under its own name and with mode 0755, for a container
 * runtime to start it there as root (cleave-runtime, docs/adr/0038). At any time the name leads to
 * the whole old program or to the whole new one. A copy that is there already is left alone; whatever
 * else has the name is replaced, and a link is never followed.
 *  - ERR_NOT_FOUND: there is no such program, or no such folder.
 *  - ERR_INVALID: others than root, or than our own user, may change the folder.
 *  - ERR_TOO_LARGE; ERR_SYSTEM, also where a folder has the name. */
int runtime_install(const char *program, const char *folder, struct err *e) MUST_CHECK;
