/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/auto.h"
#include "base/err.h"

/*
 * The driver's device files: which numbers the kernel gave them and which stand there
 * (device_make.h makes those that do not).
 *
 *   /dev/nvidiactl                 195, 255
 *   /dev/nvidia<minor>             195, minor of the card
 *   /dev/nvidia-modeset            195, 254
 *   /dev/nvidia-uvm, -uvm-tools    dynamic major, 0 and 1
 *   /dev/nvidia-caps/nvidia-cap<N> dynamic major, N as the driver says
 *
 * The minors of the capability files are fixed for each card, GPU instance id and compute instance
 * id that could be (/proc/driver/nvidia-caps/mig-minors), whether or not it is there now. So this
 * is read once at start and still right after a change of layout.
 */

/* Where to look. Borrowed strings. */
struct device_nodes_where {
    const char *proc_root; /* "/proc", or a copy of it */
    const char *dev_root;  /* the folder that holds dev/, as seen from here: "/", "/host" */
};

struct device_nodes_cap {
    unsigned card_minor, gi_id;
    int ci_id;      /* -1: the GPU instance's own */
    unsigned minor; /* /dev/nvidia-caps/nvidia-cap<minor> */
};

/* What was read. Immutable once read; owned: device_nodes_done. */
struct device_nodes {
    int nvidia_major, uvm_major, caps_major; /* -1 or 0: not loaded */
    bool has_modeset;                        /* the kernel has nvidia-modeset */
    bool ctl, modeset, uvm, uvm_tools;       /* the file stands below dev_root */
    int config_minor, monitor_minor;         /* of the two MIG capabilities for managers; or -1 */
    struct device_nodes_cap *caps;           /* sorted by card, GPU instance, compute instance */
    size_t n_caps;
    char *host_dev_root; /* the folder that holds dev/, as the runtime sees it; "" for "/". Set by
                            device_nodes_read from its argument */
};

/* Reads majors, capability minors and which files stand. Without a driver all is -1, false and
 * empty, which is no error. host_dev_root: the folder that holds dev/ as the container runtime sees
 * it ("/" or NULL where the files are the host's own). Reads files below proc_root; for the
 * worker or the start, not for Allocate.
 * ERR_TOO_LARGE, ERR_SYSTEM. *ret is to be released with device_nodes_done. */
int device_nodes_read(const struct device_nodes_where *w, const char *host_dev_root,
                      struct device_nodes *ret, struct err *e) MUST_CHECK;

/* The capability minor of a GPU instance (ci_id -1) or of a compute instance; -1 when the driver
 * names none. In memory, logarithmic. */
int device_nodes_cap_minor(const struct device_nodes *n, unsigned card_minor, unsigned gi_id,
                           int ci_id);

/* Looks again which of the common files stand. Reads the folder. */
void device_nodes_look(const struct device_nodes_where *w, struct device_nodes *n);

/* Frees what it owns and makes it empty. */
void device_nodes_done(struct device_nodes *n);
AUTO_DEFINE(device_nodes, struct device_nodes, device_nodes_done)
#define auto_device_nodes AUTO(device_nodes)

/* The parsers, for tests and fuzzing; all are pure. */

/* The first character major of that name in the text of /proc/devices; -1 when there is none. */
int device_nodes_parse_major(const char *text, const char *name);
/* The text of mig-minors: "config 1", "gpu0/gi0/ci0/access 4". Lines of another shape are skipped,
 * as NVIDIA's toolkit does. ERR_TOO_LARGE beyond 65,536 capabilities. Replaces what *n knows of
 * capabilities. */
int device_nodes_parse_mig_minors(const char *text, struct device_nodes *n,
                                  struct err *e) MUST_CHECK;

/* A capability file ("DeviceFileMinor: 4", "DeviceFileMode: 292", "DeviceFileModify: 1"), or the
 * driver's params ("DeviceFileUID: 0", …, "ModifyDeviceFiles: 1"). */
struct device_nodes_file {
    int minor;     /* -1: not told */
    unsigned mode; /* permission bits; 0666 or as told */
    unsigned uid, gid;
    bool modify; /* may user space make and change the file? true when not told */
};
/* What such a text says; lines that are not understood are skipped. */
struct device_nodes_file device_nodes_parse_file(const char *text);
