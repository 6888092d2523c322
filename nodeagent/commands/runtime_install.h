/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/err.h"

/* Copies the program of that name, which lies beside our own one, into a folder of the host, for a
 * container runtime to start it there (cleave-runtime, docs/adr/0038). A copy that is there already
 * is replaced as a whole, and only by another one. ERR_NOT_FOUND: there is none beside us, or no
 * such folder; ERR_TOO_LARGE; ERR_SYSTEM. */
int runtime_install(const char *program, const char *folder, struct err *e) MUST_CHECK;
