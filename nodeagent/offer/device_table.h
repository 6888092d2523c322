/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "nodeagent/container/entry.h"
#include "nodeagent/offer/device_id.h"
#include "nodeagent/offer/node_state.h"

/*
 * The kubelet's list: for each resource its devices, by identifiers that outlive restarts
 * (device_id.h). Pure.
 */

struct table_device {
    char id[DEVICE_ID_BYTES]; /* without the replica's suffix */
    uint8_t card_index;       /* position of its card in the inventory */
    /* True when it may be granted: the device is not ill, it is as wanted and is to stay, and no
     * pod holds it in a way that the kubelet does not count. The kubelet is shown it as healthy
     * only if a container can also be given it (kubelet_link.c: its CDI entry, its MPS daemon). */
    bool healthy;
    int64_t replicas; /* 1: not shared */
    bool mps;         /* shared by MPS, under the entry's cdi_name */
    uint64_t memory_mib;
    int numa;              /* -1: none */
    unsigned start;        /* a partition's first memory slice */
    unsigned gi_id, ci_id; /* a partition's */
    struct entry_device entry;
};

struct table_resource {
    char *name;
    bool one_replica;             /* a container gets at most one replica */
    struct table_device *devices; /* by card, then placement */
    size_t n_devices;
};

struct device_table {
    struct table_resource *resources; /* sorted by name */
    size_t n_resources;
    char *left_out;      /* why a card offers no slices for pods; NULL: none was left out */
    bool cdi_off;        /* slices for pods would be offered if the container runtime did CDI */
    bool pods_forbidden; /* slices for pods would be offered if the agent were allowed to read pods
                          */
};

/* The devices of these offers (in the order of s->cards), named by this strategy. A device that
 * exists but is not on offer stays listed as unhealthy, because a pod may still hold it. *ret is
 * the caller's (device_table_done). */
void device_table_build(const struct node_state *s, const struct card_offer *offers, int strategy,
                        struct device_table *ret);
/* *ret is the caller's. */
void device_table_copy(const struct device_table *from, struct device_table *ret);
void device_table_done(struct device_table *t);
AUTO_DEFINE(device_table, struct device_table, device_table_done)
#define auto_device_table AUTO(device_table)

/* True when both list the same devices with the same values. */
bool device_table_equal(const struct device_table *a, const struct device_table *b);

/* Adds the number of grantable devices of each resource, without those unready, to
 * status.resources (freed by device_status_done). A resource with none is listed only where the
 * kubelet serves it. */
void device_table_counts(const struct device_table *t, const struct unready *unready,
                         enum api_publisher publisher, struct device_status *ret);

/* The resource with this name, or NULL. Borrowed. */
const struct table_resource *device_table_resource(const struct device_table *t, const char *name);
/* The device with this id; a replica's suffix is ignored. NULL: none. Borrowed. */
const struct table_device *table_resource_device(const struct table_resource *r, const char *id);
/* The same, under whichever resource it is. */
const struct table_device *device_table_device(const struct device_table *t, const char *id);

/* Cleave's id for a MIG UUID, with or without replica suffix; NVIDIA's plugin names partitions by
 * that UUID. NULL: no existing partition has it. Caller frees. */
char *device_table_translate(const struct device_table *t, const char *id);
