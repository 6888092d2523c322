/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "nodeagent/device_id.h"
#include "nodeagent/kubelet/entry.h"
#include "nodeagent/node_state.h"

/*
 * The kubelet's list: for each resource its devices, by identifiers that outlive restarts
 * (device_id.h). Pure.
 */

struct table_device {
    char id[DEVICE_ID_BYTES]; /* without the replica */
    uint8_t place;            /* of its card in the inventory */
    /* May be granted: it is well, stands as wanted, is to stay, and nobody holds it without the
     * kubelet's counting it. */
    bool healthy;
    int64_t replicas; /* 1: not shared */
    bool mps;         /* by MPS, under the entry's cdi_name */
    uint64_t memory_mib;
    int numa;              /* -1: none */
    unsigned start;        /* of a partition: first memory slice */
    unsigned gi_id, ci_id; /* of a partition */
    struct entry_device entry;
};

struct table_resource {
    char *name;
    bool one_replica;             /* a container may have one at most */
    struct table_device *devices; /* by card and placement */
    size_t n_devices;
};

struct device_table {
    struct table_resource *resources; /* by name */
    size_t n_resources;
    char *left_out;      /* why a card gets no slices for pods that could be told; NULL: none is */
    bool pods_forbidden; /* there would be slices for pods, if the agent could read these */
};

/* The devices of what the cards offer (by index, as s->cards), named by this strategy. Devices that
 * stand and are not on offer stay listed, and may not be granted: a pod may hold them. *ret is the
 * caller's (device_table_done). */
void device_table_build(const struct node_state *s, const struct card_offer *offers, int strategy,
                        struct device_table *ret);
/* *ret is the caller's. */
void device_table_copy(const struct device_table *from, struct device_table *ret);
void device_table_done(struct device_table *t);
AUTO_DEFINE(device_table, struct device_table, device_table_done)
#define auto_device_table AUTO(device_table)

/* They list the same devices, all alike. */
bool device_table_equal(const struct device_table *a, const struct device_table *b);

/* Adds how many of each may be granted, those withheld left out, to status.resources (freed by
 * device_status_done). What nothing may be granted of is named only where the kubelet serves it.
 * publisher: enum api_publisher. */
void device_table_counts(const struct device_table *t, const struct withheld *withheld,
                         int publisher, struct device_status *ret);

/* The resource of this name, or NULL. Borrowed. */
const struct table_resource *device_table_resource(const struct device_table *t, const char *name);
/* The device of an id, whose replica is not looked at; NULL: there is none. Borrowed. */
const struct table_device *table_resource_device(const struct table_resource *r, const char *id);

/* Our id, in place of a MIG UUID with or without replica, which NVIDIA's plugin names partitions
 * by. NULL: it is none of a partition that stands. Caller frees. */
char *device_table_translate(const struct device_table *t, const char *id);
