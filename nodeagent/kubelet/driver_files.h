/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stddef.h>

#include "base/auto.h"
#include "base/err.h"

/*
 * The parts of the driver that a container needs from the host: libraries, programs, sockets,
 * firmware, graphics settings. Found as NVIDIA's container toolkit finds them (pkg/nvcdi
 * driver-nvml.go, internal/discover graphics.go, ipc.go, internal/lookup library.go,
 * root/root.go), below any driver root. Unlike there, links are resolved inside that root, and
 * the other names of a library (libcuda.so.1) are read from the links that lie beside it, so that
 * nothing has to be run in the container to make them. And only what root alone may change counts
 * as there (rooted.h): a container gets whatever these paths lead to.
 */

enum driver_file_kind {
    DRIVER_LIBRARY,
    DRIVER_PROGRAM,
    DRIVER_SOCKET,
    DRIVER_FIRMWARE,
    DRIVER_SETTING, /* of graphics */
};

struct driver_file {
    enum driver_file_kind kind;
    char *host_path;      /* as the runtime sees it, links resolved */
    char *container_path; /* where it belongs, as it is named below the driver root */
};

/* A further name of a library. */
struct driver_link {
    char *path;      /* in the container: "/usr/lib64/libcuda.so.1" */
    char *target;    /* what a link there says: "libcuda.so.570.86.15", "../libnvidia-…so.1" */
    char *host_path; /* the library itself, as the runtime sees it */
};

/* What was found; a plain value in the order of kinds, then of names. Owned: driver_files_done. */
struct driver_files {
    struct driver_file *files;
    size_t n_files;
    struct driver_link *links;
    size_t n_links;
    char **library_folders; /* in the container, that hold the libraries */
    size_t n_library_folders;
};

/* Where to look. Borrowed strings; the two roots are one folder, seen from here and from the
 * runtime. */
struct driver_files_where {
    const char *root;            /* "/", "/driver-root" */
    const char *host_root;       /* "/", "/run/nvidia/driver"; NULL: as root */
    const char *version;         /* of the driver, digits and dots */
    const char *library_folder;  /* below root; NULL: the toolkit's folders are tried */
    const char *kernel_release;  /* for firmware of that kernel alone; NULL: none */
    const char *firmware_folder; /* tried first (firmware_class.path); NULL: none */
};

/* Finds everything of that version. What is not there is left out, but without a library folder
 * nothing can work: ERR_NOT_FOUND, saying where it was looked for and what was refused.
 * ERR_INVALID: no version number. ERR_TOO_LARGE: beyond 1,024 files. ERR_SYSTEM: a folder that is
 * there cannot be read. Reads folders; once per driver version, not per change of layout. */
int driver_files_find(const struct driver_files_where *w, struct driver_files *ret,
                      struct err *e) MUST_CHECK;

/* Frees what it owns and makes it empty. */
void driver_files_done(struct driver_files *f);
AUTO_DEFINE(driver_files, struct driver_files, driver_files_done)
#define auto_driver_files AUTO(driver_files)
