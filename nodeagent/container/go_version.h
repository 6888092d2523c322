/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stddef.h>

#include "base/err.h"

/*
 * The version of a Go program, read from the record that Go's linker puts into each (section
 * .go.buildinfo, Go 1.18 and later; runtime/debug, "go version -m"). The program is not run.
 */
struct go_version {
    int major, minor; /* minor -1: the record has none */
};

/* The version of a module in the text of such a record: of the program's own module or of one that
 * it is linked with. module: "github.com/containerd/containerd"; its later versions are
 * "<module>/v2". Where the record names the program's path only, the path tells the major version,
 * and 1 is taken for a path without one. ERR_NOT_FOUND. Pure. */
int go_version_parse(const char *record, size_t len, const char *module, struct go_version *ret,
                     struct err *e) MUST_CHECK;

/* The same for a program that is open for reading. Reads at most 128 KiB of it. ERR_NOT_FOUND: no
 * ELF program for 64 bits, or no such record in it; ERR_SYSTEM. */
int go_version_read(int fd, const char *module, struct go_version *ret, struct err *e) MUST_CHECK;
