/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/auto.h"
#include "base/err.h"

#include "nodeagent/container/device_nodes.h"
#include "nodeagent/container/dri_nodes.h"
#include "nodeagent/container/entry.h"

/*
 * The differences between vendors in how a device gets into a container. Each vendor's folder fills
 * one (vendor_backend.h); container_vendors.h finds it.
 */

/* MetaX's files that belong to no card: which exist. */
struct metax_nodes {
    bool mxcd, mxnd, mxgd;
};

/* The device files of all vendors, as last read. Immutable; owned: container_nodes_done. */
struct container_nodes {
    struct device_nodes nvidia;
    struct metax_nodes metax;
    struct dri_nodes dri; /* for cards that are used through DRI nodes; MetaX's other files are
                             below the same host_dev_root */
};
void container_nodes_done(struct container_nodes *n);
AUTO_DEFINE(container_nodes, struct container_nodes, container_nodes_done)
#define auto_container_nodes AUTO(container_nodes)

/* Paths of device files in a container, and their location on the host. Owned: node_list_done. */
struct node_list {
    const char *host_root; /* prefix of each path on the host; "": none. Borrowed */
    char **paths;          /* "/dev/nvidia0" */
    size_t n;
};
/* Adds a path, which is taken over. */
void node_list_add(struct node_list *l, char *path_take);
void node_list_done(struct node_list *l);
AUTO_DEFINE(node_list, struct node_list, node_list_done)
#define auto_node_list AUTO(node_list)

/* A vendor's row. All functions but read_nodes are pure. Devices passed in are this vendor's,
 * without slots and without duplicates. */
struct container_vendor {
    const char *name;       /* as entry_device.vendor */
    const char *cdi_kind;   /* "gpu.cleave.dev/nvidia" */
    const char *common_env; /* "KEY=value" that each container gets by CDI; NULL: none */
    bool uses_dri;      /* its cards are used through their DRI nodes, which are then looked up */
    bool mounts_driver; /* containers get the driver's files; false: images bring them */
    bool has_runtime;   /* the vendor's container runtime makes the device files that
                           tell_runtime names; false: without CDI each answer lists them */
    /* Looks which of the vendor's own files exist below dev/. NULL: it has none, or they are read
     * elsewhere. The only function here that uses the disk: for the worker. */
    void (*read_nodes)(const char *dev_root, struct container_nodes *ret);
    /* The files that every container gets. */
    void (*common_nodes)(const struct container_nodes *n, struct node_list *ret);
    /* The files of a device. ERR_NOT_FOUND: some are not known, so the device could not be used. */
    int (*device_nodes)(const struct container_nodes *n, const struct entry_device *d,
                        struct node_list *ret, struct err *e);
    /* The variable for a container that gets all of these devices; *ret_key NULL: none. *ret_key is
     * static, the caller frees *ret_value. NULL for a vendor without a variable. ERR_INVALID: a
     * value cannot be expressed. */
    int (*device_env)(const struct entry_device *const *devices, size_t n, const char **ret_key,
                      char **ret_value, struct err *e);
    /* Adds what the vendor's runtime needs in ways other than CDI. NULL: nothing. */
    void (*tell_runtime)(const struct entry_options *o, const struct entry_device *const *devices,
                         size_t n, struct entry *en);
};
