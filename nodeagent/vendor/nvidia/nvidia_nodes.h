/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/auto.h"
#include "base/err.h"

#include "nodeagent/container/container_vendor.h"

/*
 * The device files of NVIDIA's driver: the numbers that the kernel gave them, and which exist
 * (nvidia_make.h makes the missing ones).
 *
 *   /dev/nvidiactl                 195, 255
 *   /dev/nvidia<minor>             195, minor of the card
 *   /dev/nvidia-modeset            195, 254
 *   /dev/nvidia-uvm, -uvm-tools    dynamic major, 0 and 1
 *   /dev/nvidia-caps/nvidia-cap<N> dynamic major, N from the driver
 *
 * The minors of the capability files are fixed for each possible card, GPU instance id and compute
 * instance id (/proc/driver/nvidia-caps/mig-minors), whether or not it exists now. Read once at
 * start, they are still right after a change of layout.
 */

/* Small: the driver lists over 4,000, whichever cards there are. */
struct nvidia_nodes_cap {
    uint16_t card_minor;
    uint8_t gi_id;
    int8_t ci_id;   /* -1: the GPU instance's own file */
    uint32_t minor; /* /dev/nvidia-caps/nvidia-cap<minor> */
};

/* Minors of cards: /dev/nvidia0 to nvidia253. */
#define NVIDIA_NODES_MAX_CARDS 254

/* The numbers and files as read. Immutable once read; owned: nvidia_nodes_done. */
struct nvidia_nodes {
    int nvidia_major, uvm_major, caps_major; /* -1 or 0: not loaded */
    bool has_modeset;                        /* the kernel has nvidia-modeset */
    bool ctl, modeset, uvm, uvm_tools;       /* the file exists below dev_root */
    bool cards[NVIDIA_NODES_MAX_CARDS];      /* the same of /dev/nvidia<minor> */
    int config_minor, monitor_minor;         /* the two MIG capabilities for managers; or -1 */
    struct nvidia_nodes_cap *caps;           /* sorted by card, GPU instance, compute instance */
    size_t n_caps;
    char *host_dev_root; /* the folder that holds dev/, as the container runtime sees it; "" for
                            "/". nvidia_nodes_read sets it */
};

/* Reads majors, capability minors and which files exist, by proc_root, dev_root and host_dev_root
 * of w. Without a driver everything is -1, false and empty; that is no error. For the worker or the
 * start, not for Allocate. ERR_TOO_LARGE, ERR_SYSTEM. Release *ret with nvidia_nodes_done. */
int nvidia_nodes_read(const struct driver_where *w, struct nvidia_nodes *ret,
                      struct err *e) MUST_CHECK;

/* The capability minor of a GPU instance (ci_id -1) or of a compute instance; -1: the driver has
 * none. In memory, logarithmic. */
int nvidia_nodes_cap_minor(const struct nvidia_nodes *n, unsigned card_minor, unsigned gi_id,
                           int ci_id);

/* True while majors and files are as in n. Minors of capabilities are fixed until the next boot. */
bool nvidia_nodes_are_current(const struct driver_where *w, const struct nvidia_nodes *n);

/* True unless the driver is loaded and the card has no file. */
bool nvidia_nodes_have_card(const struct nvidia_nodes *n, unsigned minor);

/* Reads again which of the common files and which cards' files exist. Reads the folder. */
void nvidia_nodes_look(const struct driver_where *w, struct nvidia_nodes *n);

/* Frees its contents and makes it empty. */
void nvidia_nodes_done(struct nvidia_nodes *n);
AUTO_DEFINE(nvidia_nodes, struct nvidia_nodes, nvidia_nodes_done)
#define auto_nvidia_nodes AUTO(nvidia_nodes)

/* The parsers, for tests and fuzzing; all are pure. */

/* The first character major of that name in the text of /proc/devices; -1 when there is none. */
int nvidia_nodes_parse_major(const char *text, const char *name);
/* Parses mig-minors: "config 1", "gpu0/gi0/ci0/access 4". Other lines are skipped, as NVIDIA's
 * toolkit does. Replaces the capabilities of *n. ERR_TOO_LARGE: more than 65,536 capabilities. */
int nvidia_nodes_parse_mig_minors(const char *text, struct nvidia_nodes *n,
                                  struct err *e) MUST_CHECK;

/* The values of a capability file ("DeviceFileMinor: 4", "DeviceFileMode: 292", "DeviceFileModify:
 * 1"), or of the driver's params ("DeviceFileUID: 0", …, "ModifyDeviceFiles: 1"). */
struct nvidia_nodes_file {
    int minor;     /* -1: not in the text */
    unsigned mode; /* permission bits; 0666 when not in the text */
    unsigned uid, gid;
    bool modify; /* user space may make and change the file; true when not in the text */
};
/* Parses such a text; unknown lines are skipped. */
struct nvidia_nodes_file nvidia_nodes_parse_file(const char *text);
