/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/auto.h"
#include "base/err.h"

#include "nodeagent/container/container_vendor.h"
#include "nodeagent/container/driver_files.h"
#include "nodeagent/gpu/gpu.h"

/*
 * The needs of a container besides the cards, from the drivers: device files of all vendors, and
 * the libraries of the vendor that has them mounted (container_vendor.h). Read and made on the
 * worker's threads, since it uses disks; immutable afterwards.
 */
struct driver_view {
    unsigned more;    /* owners besides one; see driver_view_hold */
    char version[80]; /* of the driver whose files are mounted; "": none is loaded */
    char boot_id[40];
    struct device_nodes nodes;
    struct driver_files files;
    bool has_files;    /* false: no installation of that driver was found */
    char trouble[256]; /* what could not be read, for a person; "": nothing */
};

/* True while the view fits this driver, this boot and the device files that drivers make by
 * themselves. NULL fits nothing. Reads folders. */
bool driver_view_is_current(const struct driver_where *w, const struct driver_view *v,
                            const struct gpu_inventory *inv);
/* Reads a new view; never NULL. `trouble` says what is missing. Caller frees. */
struct driver_view *driver_view_read(const struct driver_where *w, const struct gpu_inventory *inv);
/* Makes the missing device files of these cards and their partitions, where that is not their
 * driver's own work, and logs what it could not make. Updates the view's list of files, so it must
 * be called before the view is shared. */
void driver_view_make(const struct driver_where *w, struct driver_view *v,
                      const struct gpu_card *cards, size_t n);
/* The same for one card and its partitions, with a view that is shared already: what it makes is in
 * the next view. */
void driver_view_make_card(const struct driver_where *w, const struct driver_view *v,
                           const struct gpu_card *card);
/* One more owner of a view that is shared already; each one frees it. Owners hold and free on one
 * thread. NULL allowed; returns v. */
struct driver_view *driver_view_hold(struct driver_view *v);
/* NULL allowed; returns NULL. */
struct driver_view *driver_view_free(struct driver_view *v);
AUTO_DEFINE_PTR(driver_view, struct driver_view, driver_view_free)
#define auto_driver_view AUTO_PTR(driver_view)
