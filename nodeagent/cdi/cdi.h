/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/auto.h"
#include "base/err.h"

#include "nodeagent/container/container_vendor.h"
#include "nodeagent/container/driver_files.h"
#include "nodeagent/container/entry.h"

/*
 * The CDI files, which tell container runtimes what a device name means (Container Device
 * Interface, tags.cncf.io/container-device-interface SPEC.md): one per vendor,
 * gpu.cleave.dev-nvidia.json and so on.
 *
 * A file has two parts: what every container gets (control devices, the driver's files), made once
 * per driver and kept as text; and the devices, made anew at each change of layout. A file is
 * always replaced as a whole, so a runtime reads the old or the new one. A slot has a file of its
 * own (cdi_slot.h).
 *
 * No program runs in or for a container, unless nvidia-cdi-hook is configured and only root can
 * change it. Without the hook, libraries are mounted under each of their names, at their own path
 * and in a second folder that CUDA images search (docs/adr/0008).
 */

#define CDI_FOLDER "/var/run/cdi"

struct cdi_options {
    const char *folder;        /* the specs' folder, as the agent sees it; NULL: CDI_FOLDER */
    const char *host_root;     /* the host's "/", as the agent sees it; NULL: "/" */
    const char *hook;          /* nvidia-cdi-hook or nvidia-ctk on the host; NULL: none */
    bool newer_hooks;          /* the hook program is 1.17.8 or later */
    const char *second_folder; /* NULL: "/usr/local/nvidia/lib64"; "": none; unused with a hook */
    bool set_library_path;     /* set LD_LIBRARY_PATH too, which replaces the image's */
};

/* The CDI files of all vendors. One thread at a time. */
struct cdi;

/* Copies the options. Removes temporary files that a crashed agent left. */
struct cdi *cdi_new(const struct cdi_options *o);
struct cdi *cdi_free(struct cdi *c);
AUTO_DEFINE_PTR(cdi, struct cdi, cdi_free)
#define auto_cdi AUTO_PTR(cdi)

/* Makes the part that all containers share; writes nothing yet. The nodes are copied. files NULL:
 * the driver was not found, so the files hold devices only. ERR_NOT_FOUND, ERR_FORBIDDEN: the hook
 * program is missing, or others than root can change it; the part is then made without hooks. */
int cdi_set_common(struct cdi *c, const struct device_nodes *nodes,
                   const struct driver_files *files, struct err *e) MUST_CHECK;

/* Writes the files for these devices, whose device files come from nodes. Devices with the same
 * name are written once, slots not at all. An unchanged file is not written. A vendor without
 * devices has its file removed, since a spec without devices is not legal. Does file I/O with
 * fsync.
 *
 * A device that cannot be described is left out and reported at the end: ERR_NOT_FOUND: its device
 * files are not known; ERR_INVALID: its name is illegal, or its vendor unknown. ERR_SYSTEM takes
 * precedence: the folder cannot be made, is full or read-only. Then the old file stays, the other
 * vendors' files are written, and the next call tries again. */
int cdi_write(struct cdi *c, const struct device_nodes *nodes,
              const struct entry_device *const *devices, size_t n, struct err *e) MUST_CHECK;

/* True when its vendor's file has the device as of the last call of cdi_write. False where the name
 * means another device since the file was last written. */
bool cdi_has(const struct cdi *c, const struct entry_device *d);

/* The path of a vendor's file; NULL: no such vendor. Borrowed from c. */
const char *cdi_path(const struct cdi *c, const char *vendor);

/* True for a device name that CDI allows: letters, digits, "_-.:", with a letter or digit at both
 * ends. */
bool cdi_is_name(const char *name);

/* The program's path on the host, without links, if only root may write to it and to every folder
 * above it. host_root: the host's "/", as the agent sees it. ERR_NOT_FOUND; ERR_FORBIDDEN names
 * what others may change. Caller frees *ret. */
int cdi_check_hook(const char *host_root, const char *hook, char **ret, struct err *e) MUST_CHECK;
