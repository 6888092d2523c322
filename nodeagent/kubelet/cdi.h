/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/auto.h"
#include "base/err.h"

#include "nodeagent/kubelet/container_vendor.h"
#include "nodeagent/kubelet/driver_files.h"
#include "nodeagent/kubelet/entry.h"

/*
 * The files that tell container runtimes what a device name means (Container Device Interface,
 * tags.cncf.io/container-device-interface SPEC.md): one a vendor, gpu.cleave.dev-nvidia.json and so
 * on. Two parts: what every container gets (control devices, the driver's files), made once per
 * driver and kept as text; and the devices, made anew at each change of layout. A file is always
 * replaced as a whole, so a runtime reads the old or the new one. What is decided for a pod alone
 * has a file of its own (cdi_slot.h).
 *
 * No program runs in or for a container unless nvidia-cdi-hook is configured and only root can
 * change it. Without it libraries are mounted under each of their names, at their own path and in a
 * second folder that CUDA images search (docs/adr/0008).
 */

#define CDI_FOLDER "/var/run/cdi"

struct cdi_options {
    const char *folder;        /* of the specs, as seen from here; NULL: CDI_FOLDER */
    const char *host_root;     /* where the host's "/" is seen from here; NULL: "/" */
    const char *hook;          /* nvidia-cdi-hook or nvidia-ctk on the host; NULL: none */
    bool newer_hooks;          /* the hook program is 1.17.8 or later */
    const char *second_folder; /* NULL: "/usr/local/nvidia/lib64"; "": none; unused with a hook */
    bool set_library_path;     /* LD_LIBRARY_PATH too: replaces what the image says */
};

/* The specs as they are kept. One thread at a time. */
struct cdi;

/* Copies the options. Removes what a crash left of an earlier write. */
struct cdi *cdi_new(const struct cdi_options *o);
struct cdi *cdi_free(struct cdi *c);
AUTO_DEFINE_PTR(cdi, struct cdi, cdi_free)
#define auto_cdi AUTO_PTR(cdi)

/* Makes the part that all containers share; nothing is written yet. files may be NULL: the driver
 * was not found, devices alone go in. The nodes are copied from, not kept.
 * ERR_FORBIDDEN, ERR_NOT_FOUND: the hook program is not one that only root can change, or not
 * there; the part is made without hooks then. */
int cdi_set_common(struct cdi *c, const struct container_nodes *nodes,
                   const struct driver_files *files, struct err *e) MUST_CHECK;

/* Brings the files up to date with these devices: which device files theirs are, is from nodes.
 * Devices of one name go in once, slots not at all. Nothing is written where a file stands and says
 * so already; without devices of its vendor it is removed (a spec without any is not legal). One
 * device that cannot be told is left out and said at the end (ERR_NOT_FOUND: its device files are
 * not known, ERR_INVALID: its name is not legal, or it is of no vendor that is known). ERR_SYSTEM,
 * which goes before those: the folder is missing and cannot be made, full or read-only; the old
 * file stays, the other vendors' are written, and the next call tries again. Does file I/O with
 * fsync. */
int cdi_write(struct cdi *c, const struct container_nodes *nodes,
              const struct entry_device *const *devices, size_t n, struct err *e) MUST_CHECK;

/* Does its vendor's file have the device, as it was in the last call of cdi_write? Not one that
 * became another under its name since the file could be written. */
bool cdi_has(const struct cdi *c, const struct entry_device *d);

/* The path of a vendor's file; NULL: no vendor of that name is known. Borrowed from c. */
const char *cdi_path(const struct cdi *c, const char *vendor);

/* Is it a name that CDI allows for a device: letters, digits, "_-.:", beginning and ending with a
 * letter or digit? */
bool cdi_is_name(const char *name);

/* The program's path on the host, without links, when it and every folder above it belong to root
 * and nobody else may write to them. host_root: where "/" of the host is seen from here.
 * ERR_NOT_FOUND; ERR_FORBIDDEN, naming what others may change. Caller frees *ret. */
int cdi_check_hook(const char *host_root, const char *hook, char **ret, struct err *e) MUST_CHECK;
