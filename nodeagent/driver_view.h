/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/auto.h"
#include "base/err.h"

#include "nodeagent/gpu/gpu.h"
#include "nodeagent/kubelet/container_vendor.h"
#include "nodeagent/kubelet/driver_files.h"

/*
 * What a container needs of the drivers beside the cards themselves: device files of all vendors,
 * and libraries of NVIDIA's. Read and made on the worker's thread (it touches disks), immutable
 * afterwards.
 */
struct driver_where {
    const char *proc_root;        /* NULL: /proc */
    const char *sys_root;         /* NULL: /sys */
    const char *dev_root;         /* the folder that holds dev/, seen from here; NULL: / */
    const char *host_dev_root;    /* the same as the runtime sees it; NULL: / */
    const char *plain_dev_root;   /* likewise for other vendors' files, which no driver container
                                     keeps to itself; NULL: / */
    const char *driver_root;      /* NVIDIA's installation, seen from here; NULL: / */
    const char *host_driver_root; /* the same as the runtime sees it; NULL: as driver_root */
};

struct driver_view {
    char version[80]; /* of NVIDIA's driver; "": there is none */
    char boot_id[40];
    struct container_nodes nodes;
    struct driver_files files;
    bool has_files;    /* not so: NVIDIA's driver's installation was not found */
    char trouble[256]; /* what could not be read, for a person; "": nothing */
};

/* Is it still of this driver, this boot, and of the device files that drivers make by themselves?
 * NULL is of none. Looks at folders. */
bool driver_view_is_current(const struct driver_where *w, const struct driver_view *v,
                            const struct gpu_inventory *inv);
/* Reads it anew. Always gives one; what is missing is told by trouble. Caller frees. */
struct driver_view *driver_view_read(const struct driver_where *w, const struct gpu_inventory *inv);
/* Makes the device files of NVIDIA's among these cards and their partitions where they are missing;
 * tells in the log what could not be made. Updates which common files stand: before others see the
 * view. */
void driver_view_make(const struct driver_where *w, struct driver_view *v,
                      const struct gpu_card *cards, size_t n);
/* The same for the partitions of one card, for a view that others see. */
void driver_view_make_partitions(const struct driver_where *w, const struct driver_view *v,
                                 const struct gpu_card *card);
/* NULL allowed; returns NULL. */
struct driver_view *driver_view_free(struct driver_view *v);
AUTO_DEFINE_PTR(driver_view, struct driver_view, driver_view_free)
#define auto_driver_view AUTO_PTR(driver_view)
