/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/auto.h"
#include "base/err.h"

#include "nodeagent/container/dri_nodes.h"
#include "nodeagent/container/entry.h"
#include "nodeagent/gpu/gpu.h"

/*
 * The differences between vendors in how a device gets into a container. Each vendor's folder fills
 * one (vendor_backend.h); container_vendors.h finds it.
 */

/* The folders of the files that containers need. Borrowed strings. */
struct driver_where {
    const char *proc_root;        /* NULL: /proc */
    const char *sys_root;         /* NULL: /sys */
    const char *dev_root;         /* the folder that holds dev/, as the agent sees it; NULL: / */
    const char *host_dev_root;    /* the same as the container runtime sees it, for the vendor whose
                                     driver may be installed in a container; NULL: / */
    const char *plain_dev_root;   /* the same for other vendors' files, which are always the host's;
                                     NULL: / */
    const char *driver_root;      /* that driver's installation, as the agent sees it; NULL: / */
    const char *host_driver_root; /* the same as the container runtime sees it; NULL: driver_root */
};

struct container_vendor;

/* The device files of all vendors, as last read (device_nodes_read). Immutable once shared between
 * threads; owned: device_nodes_done. */
struct device_nodes {
    struct dri_nodes dri; /* of cards that are used through DRI nodes; its host_dev_root is that of
                             all files that are always the host's */
    struct {
        const struct container_vendor *vendor; /* NULL: no more */
        void *files;                           /* its own ones (container_own_files.read) */
    } own[GPU_MAX_VENDORS];
};
void device_nodes_done(struct device_nodes *n);
AUTO_DEFINE(device_nodes, struct device_nodes, device_nodes_done)
#define auto_device_nodes AUTO(device_nodes)

/* The struct that the vendor's own `read` returned; NULL: the vendor has none, or was not asked.
 * Borrowed. */
void *device_nodes_own(const struct device_nodes *n, const struct container_vendor *v);

/* Paths of device files in a container, and their location on the host. Owned:
 * device_paths_done. */
struct device_paths {
    const char *host_root; /* prefix of each path on the host; "": none. Borrowed */
    char **paths;          /* "/dev/nvidia0" */
    size_t n;
};
/* Adds a path, which is taken over. */
void device_paths_add(struct device_paths *l, char *path_take);
void device_paths_done(struct device_paths *l);
AUTO_DEFINE(device_paths, struct device_paths, device_paths_done)
#define auto_device_paths AUTO(device_paths)

/*
 * Device files that a vendor has beside DRI nodes. Only the vendor knows the struct behind `own`.
 * These functions use the disk: for the worker's threads. Every path of w is set.
 */
struct container_own_files {
    /* Reads which exist, and what else naming and making them needs. Never NULL: *e says what could
     * not be read. The caller frees it with `free`. */
    void *(*read)(const struct driver_where *w, struct err *e);
    /* True while `own` is what `read` would find. NULL: it changes with the driver and the boot
     * only, when everything is read again. */
    bool (*is_current)(const struct driver_where *w, const void *own);
    /* Makes the missing files that all cards share, and those of each of these cards (of any vendor:
     * others' are passed over), and updates own. After a failure the others are still made; the
     * first failure is returned. NULL: the driver and udev make them. */
    int (*make)(const struct driver_where *w, void *own, const struct gpu_card *cards, size_t n,
                struct err *e);
    /* The same for one of the vendor's cards and its partitions; own is shared already. NULL with
     * make. */
    int (*make_card)(const struct driver_where *w, const void *own, const struct gpu_card *card,
                     struct err *e);
    void (*free)(void *own);
};

/* A library of the limiter's, which a container with a limited share gets in place of one of the
 * driver's (driver_mounts.h). */
struct container_shim {
    const char *library; /* the driver's, without its version */
    const char *file;    /* the limiter's, in its folder */
    const char *real_at; /* where the limiter's finds the driver's, in the container */
};

/* A vendor's row. The functions are pure. Devices passed in are this vendor's,
 * without slots and without duplicates. */
struct container_vendor {
    const char *name;       /* as entry_device.vendor */
    const char *cdi_kind;   /* "gpu.cleave.dev/nvidia" */
    const char *common_env; /* "KEY=value" that each container gets by CDI; NULL: none */
    bool uses_dri;      /* its cards are used through their DRI nodes, which are then looked up */
    bool mounts_driver; /* containers get the driver's files; false: images bring them */
    bool has_runtime;   /* without CDI the vendor's container runtime brings the devices that
                           tell_runtime names into the container; false: each answer to Allocate
                           lists the files */
    const struct container_own_files *own; /* NULL: it has DRI nodes alone */
    /* The files that every container gets. */
    void (*common_paths)(const struct device_nodes *n, struct device_paths *ret);
    /* True where it is known which files the device has: then a failure of paths_of says that one of
     * them does not exist. False where the driver is not loaded, or its numbers could not be read.
     * NULL: it is always known. */
    bool (*knows_paths)(const struct device_nodes *n, const struct entry_device *d);
    /* The files of a device. ERR_NOT_FOUND: some are not known or do not exist, so the device could
     * not be used. */
    int (*paths_of)(const struct device_nodes *n, const struct entry_device *d,
                    struct device_paths *ret, struct err *e);
    /* The variable for a container that gets all of these devices; *ret_key NULL: none. *ret_key is
     * static, the caller frees *ret_value. NULL for a vendor without a variable. ERR_INVALID: a
     * value cannot be expressed. */
    int (*device_env)(const struct entry_device *const *devices, size_t n, const char **ret_key,
                      char **ret_value, struct err *e);
    /* Adds the variables that tell a container of a share (has_slice), which is the device at this
     * position among the container's own. NULL: the vendor's cards give no shares. */
    void (*share_env)(const struct entry_device *d, size_t position, struct entry *ret);
    /* What limits such a container; library NULL ends the list. NULL: there is no limiter. */
    const struct container_shim *shims;
    /* Adds what the vendor's runtime needs in ways other than CDI. NULL: nothing. */
    void (*tell_runtime)(const struct entry_options *o, const struct entry_device *const *devices,
                         size_t n, struct entry *en);
};
