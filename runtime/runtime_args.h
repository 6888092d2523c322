/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>

/*
 * The command line of an OCI runtime, as containerd's and Docker's shims write it for runc: global
 * flags, a command, the command's flags, a container's ID. Pure; the strings are borrowed from argv.
 */
struct runtime_args {
    const char *bundle; /* of the container that the command makes; NULL: it makes none */
    const char *log;    /* the file that the shim reads an error from; NULL: none */
    bool log_is_json;
};

/* argv[0] is the program's name. Flags that are not known are passed over, as if they took no
 * value. */
void runtime_args_read(int argc, char *const argv[], struct runtime_args *ret);
