/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>

#include "base/err.h"
#include "base/sb.h"

#include "nodeagent/container/container_vendor.h"
#include "nodeagent/container/driver_files.h"
#include "nodeagent/container/entry.h"

/* The parts of a CDI spec as JSON text. Pure. */

struct cdi_common_options {
    const char *hook; /* a path on the host that may be run; NULL: no hooks */
    bool newer_hooks;
    const char *second_folder; /* "": none */
    bool set_library_path;
    const char *limiter;              /* the folder of the host with the limiter's libraries; NULL:
                                         containers get the driver's own */
    const struct entry_mount *mounts; /* besides the driver's files; n_mounts of them, none below
                                         another that stands behind it */
    size_t n_mounts;
    const struct entry_pair *envs; /* besides the vendor's variable */
    size_t n_envs;
};

/* True when all libraries are among the files (NULL: none) that the vendor's limiter takes the place
 * of, so that a container can be limited. */
bool cdi_can_limit(const char *vendor, const struct driver_files *files);

/* containerEdits for every container: the vendor's variable (common_env), control devices and the
 * other mounts. For a vendor whose driver is mounted (mounts_driver) also the driver's files (NULL:
 * none) and hooks. Caller frees. */
char *cdi_common_render(const struct container_vendor *v, const struct cdi_common_options *o,
                        const struct device_nodes *nodes, const struct driver_files *files);

/* One entry of devices[]: its device files and its environment. together: all devices of its
 * container, itself included, where they are known (n 0: it is the only one); the environment then
 * covers all of them. ERR_NOT_FOUND: some of its device files are not known. ERR_INVALID: no such
 * vendor, or a value that cannot be expressed. Caller frees *ret. */
int cdi_device_render(const struct device_nodes *nodes, const struct entry_device *d,
                      const struct entry_device *const *together, size_t n, char **ret,
                      struct err *e) MUST_CHECK;

/* The text before and after the entries of a spec. common: made by cdi_common_render, or NULL. */
void cdi_spec_begin(struct sb *out, const struct container_vendor *v, const char *common);
void cdi_spec_end(struct sb *out);
