/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/auto.h"
#include "base/err.h"

#include "nodeagent/kubelet/device_nodes.h"
#include "nodeagent/kubelet/dri_nodes.h"
#include "nodeagent/kubelet/entry.h"

/*
 * What is different from vendor to vendor about getting a device into a container. Everything else
 * here asks this table: a new vendor is a line of it, and a pair of files with its functions.
 */

/* Files of MetaX's that belong to no card: they stand. */
struct metax_nodes {
    bool mxcd, mxnd, mxgd;
};

/* The device files of all vendors, as they were read. Immutable; owned: container_nodes_done. */
struct container_nodes {
    struct device_nodes nvidia;
    struct metax_nodes metax;
    struct dri_nodes dri; /* of cards that are used through these; what MetaX has beside them lies
                             below the same host_dev_root */
};
void container_nodes_done(struct container_nodes *n);
AUTO_DEFINE(container_nodes, struct container_nodes, container_nodes_done)
#define auto_container_nodes AUTO(container_nodes)

/* Paths of device files in a container, and where they lie on the host. Owned: node_list_done. */
struct node_list {
    const char *host_root; /* goes before each path on the host; "": nothing. Borrowed */
    char **paths;          /* "/dev/nvidia0" */
    size_t n;
};
/* Adds a path, which is taken over. */
void node_list_add(struct node_list *l, char *path_take);
void node_list_done(struct node_list *l);
AUTO_DEFINE(node_list, struct node_list, node_list_done)
#define auto_node_list AUTO(node_list)

/* All functions but read_nodes are pure. Devices are of this vendor, none of them a slot, and none
 * comes twice. */
struct container_vendor {
    const char *name;       /* as entry_device.vendor */
    const char *cdi_kind;   /* "gpu.cleave.dev/nvidia" */
    const char *common_env; /* by CDI each container gets this, "KEY=value"; NULL: nothing */
    bool uses_dri;          /* its cards are used through their DRI nodes: those are looked up */
    bool mounts_driver;     /* containers get the driver's files; not so: images bring them */
    bool has_runtime;       /* a container runtime of the vendor's makes device files of what
                               tell_runtime says; not so: without CDI they are in each answer */
    /* Looks which files of the vendor's own stand below dev/. NULL: it has none, or they are read
     * elsewhere. The one function here that touches disks: for the worker. */
    void (*read_nodes)(const char *dev_root, struct container_nodes *ret);
    /* The files that every container gets. */
    void (*common_nodes)(const struct container_nodes *n, struct node_list *ret);
    /* Those of a device. ERR_NOT_FOUND: some are not known, and it could not be used. */
    int (*device_nodes)(const struct container_nodes *n, const struct entry_device *d,
                        struct node_list *ret, struct err *e);
    /* The variable for a container that gets all of these; *ret_key NULL: nothing is to be said.
     * ERR_INVALID: a device says what cannot be told. *ret_key is static, the caller frees
     * *ret_value. The member is NULL for a vendor without. */
    int (*device_env)(const struct entry_device *const *devices, size_t n, const char **ret_key,
                      char **ret_value, struct err *e);
    /* What ways other than CDI say to the vendor's runtime. NULL: nothing. */
    void (*tell_runtime)(const struct entry_options *o, const struct entry_device *const *devices,
                         size_t n, struct entry *en);
};

/* By name, the last one without. */
extern const struct container_vendor container_vendors[];
/* NULL: we know none of this name, or name is NULL. */
const struct container_vendor *container_vendor_find(const char *name);

/* Looks up the files that drivers make by themselves: the DRI nodes of the cards at these PCI
 * addresses (dri_nodes_read), and what vendors have beside them. ret->nvidia is left as it is. */
void container_nodes_look(const struct dri_where *w, const char *host_dev_root,
                          const char *const *bus_ids, size_t n, struct container_nodes *ret);
/* Did two looks see the same? */
bool container_nodes_same_look(const struct container_nodes *a, const struct container_nodes *b);
