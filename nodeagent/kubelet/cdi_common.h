/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>

#include "base/err.h"
#include "base/sb.h"

#include "nodeagent/kubelet/container_vendor.h"
#include "nodeagent/kubelet/driver_files.h"
#include "nodeagent/kubelet/entry.h"

/* The parts of a CDI spec as JSON text. Pure. */

/* Where CUDA images look for the driver's libraries: their LD_LIBRARY_PATH and ld.so.conf.d name
 * it. */
#define CDI_SECOND_FOLDER "/usr/local/nvidia/lib64"

struct cdi_common_options {
    const char *hook; /* a path on the host that may be run; NULL: no hooks */
    bool newer_hooks;
    const char *second_folder; /* "": none */
    bool set_library_path;
};

/* containerEdits of every container: the vendor's variable (common_env) and control devices; and
 * for a vendor whose driver is mounted (mounts_driver) the driver's files (NULL: none) and hooks.
 * Caller frees. */
char *cdi_common_render(const struct container_vendor *v, const struct cdi_common_options *o,
                        const struct container_nodes *nodes, const struct driver_files *files);

/* One entry of devices[]: its device files, and what it is in the environment. together: all
 * devices of its container, itself among them, where that is known (n 0: it alone is); only the
 * environment is of all. ERR_NOT_FOUND: files of it are not known. ERR_INVALID: no vendor of that
 * name, or something that cannot be told. Caller frees *ret. */
int cdi_device_render(const struct container_nodes *nodes, const struct entry_device *d,
                      const struct entry_device *const *together, size_t n, char **ret,
                      struct err *e) MUST_CHECK;

/* What goes before and after the entries of a spec; common: as cdi_common_render made it, or NULL.
 */
void cdi_spec_begin(struct sb *out, const struct container_vendor *v, const char *common);
void cdi_spec_end(struct sb *out);
