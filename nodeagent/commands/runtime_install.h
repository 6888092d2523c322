/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/err.h"

/* The path of the program of that name that lies beside our own one. Caller frees. ERR_SYSTEM. */
int runtime_beside_us(const char *program, char **ret, struct err *e) MUST_CHECK;

/* Copies a program into a folder of the host with mode 0755 (host_copy.h), for a container runtime to
 * start it there as root (cleave-runtime, docs/adr/0038). */
int runtime_install(const char *program, const char *folder, struct err *e) MUST_CHECK;
