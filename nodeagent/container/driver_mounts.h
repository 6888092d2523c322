/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/auto.h"

#include "nodeagent/container/driver_files.h"

/* The folder in which CUDA images look for the driver's libraries, by their LD_LIBRARY_PATH and
 * ld.so.conf.d. */
#define DRIVER_SECOND_FOLDER "/usr/local/nvidia/lib64"

/* A library that a container gets in place of one of the driver's, under all of that one's names; it
 * finds the driver's own at real_at. Borrowed strings. */
struct driver_substitute {
    const char *library; /* the driver's, without its version: "libcuda.so" */
    const char *instead; /* on the host */
    const char *real_at; /* in the container */
};

struct driver_substitutes {
    const struct driver_substitute *items;
    size_t n;
};

/* A file of the driver in a container, read-only. */
struct driver_mount {
    const char *host_path; /* borrowed from the driver_files, or from a substitute */
    char *container_path;
    bool no_exec; /* a socket's: its folder is one where the driver's daemons write */
};

/* Owned: driver_mounts_done. */
struct driver_mounts {
    struct driver_mount *items;
    size_t n;
};

/* The mounts that give a container these files. names: each library under all of its names, and once
 * more in second_folder ("": none), since no program makes links in the container; the dynamic
 * linker compares device and inode, so all names are one file to it. substitutes may be NULL. Pure. */
void driver_mounts_list(const struct driver_files *f, bool names, const char *second_folder,
                        const struct driver_substitutes *substitutes, struct driver_mounts *ret);
/* True when the library (as in a substitute) is among the files. */
bool driver_files_have(const struct driver_files *f, const char *library);
void driver_mounts_done(struct driver_mounts *m);
AUTO_DEFINE(driver_mounts, struct driver_mounts, driver_mounts_done)
#define auto_driver_mounts AUTO(driver_mounts)
