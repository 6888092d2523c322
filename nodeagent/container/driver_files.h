/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stddef.h>

#include "base/auto.h"
#include "base/err.h"

/*
 * The files of NVIDIA's driver that a container needs from the host: libraries, programs, sockets,
 * firmware, graphics settings. They are found below any driver root, as NVIDIA's container toolkit
 * finds them (pkg/nvcdi driver-nvml.go, internal/discover graphics.go, ipc.go, internal/lookup
 * library.go, root/root.go).
 *
 * Differences from the toolkit:
 *  - Links are resolved inside that root.
 *  - The other names of a library (libcuda.so.1) come from the links beside it, so that no program
 *    has to run in the container to make them.
 *  - Only files that root alone may change count (rooted.h), because a container gets whatever
 *    these paths lead to.
 */

enum driver_file_kind {
    DRIVER_LIBRARY,
    DRIVER_PROGRAM,
    DRIVER_SOCKET,
    DRIVER_FIRMWARE,
    DRIVER_SETTING, /* for graphics */
};

struct driver_file {
    enum driver_file_kind kind;
    char *host_path;      /* as the container runtime sees it, links resolved */
    char *container_path; /* its path below the driver root */
};

/* Another name of a library. */
struct driver_link {
    char *path;      /* in the container: "/usr/lib64/libcuda.so.1" */
    char *target;    /* the text of a link there: "libcuda.so.570.86.15", "../libnvidia-…so.1" */
    char *host_path; /* the library itself, as the container runtime sees it */
};

/* The files found, by kind, then by name. A plain value. Owned: driver_files_done. */
struct driver_files {
    struct driver_file *files;
    size_t n_files;
    struct driver_link *links;
    size_t n_links;
    char **library_folders; /* folders of the libraries in the container */
    size_t n_library_folders;
};

/* The folders to search. Borrowed strings; the two roots are one folder, as the agent and as the
 * container runtime see it. */
struct driver_files_where {
    const char *root;            /* "/", "/driver-root" */
    const char *host_root;       /* "/", "/run/nvidia/driver"; NULL: root */
    const char *version;         /* the driver's, digits and dots */
    const char *library_folder;  /* below root; NULL: the toolkit's folders are tried */
    const char *kernel_release;  /* for this kernel's firmware; NULL: none */
    const char *firmware_folder; /* tried first (firmware_class.path); NULL: none */
};

/* Finds all files of that version. Missing ones are left out. ERR_NOT_FOUND: no library folder,
 * without which nothing works; the message says where it was looked for and what was refused.
 * ERR_INVALID: not a version number. ERR_TOO_LARGE: more than 1,024 files. ERR_SYSTEM: an existing
 * folder cannot be read. Reads folders; once per driver version, not per change of layout. */
int driver_files_find(const struct driver_files_where *w, struct driver_files *ret,
                      struct err *e) MUST_CHECK;

/* Frees its contents and makes it empty. */
void driver_files_done(struct driver_files *f);
AUTO_DEFINE(driver_files, struct driver_files, driver_files_done)
#define auto_driver_files AUTO(driver_files)
