/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>

#include "base/err.h"

#include "nodeagent/kubelet/device_nodes.h"
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

/* containerEdits of every container: NVIDIA_VISIBLE_DEVICES=void (keeps NVIDIA's own hook away),
 * the control devices, the driver's files (NULL: none), hooks. Caller frees. */
char *cdi_common_render(const struct cdi_common_options *o, const struct device_nodes *nodes,
                        const struct driver_files *files);

/* One entry of devices[]: the card's device and for a partition its two capability devices.
 * ERR_NOT_FOUND: these are not known. Caller frees *ret. */
int cdi_device_render(const struct device_nodes *nodes, const struct entry_device *d, char **ret,
                      struct err *e) MUST_CHECK;
