/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "nodeagent/kubelet/container_vendor.h"
#include "nodeagent/kubelet/entry.h"
#include "nodeagent/status.h"

/*
 * What the kubelet is told that the node has: for each resource its devices, by identifiers that
 * outlive restarts, re-creations and reboots. A pure function of the same state as the status, so
 * that the two never disagree.
 *
 * A device's id is the card's UUID; a partition's is the card's UUID, the profile and the first
 * memory slice, "GPU-…/1g.10gb@4" (with compute instances apart, "GPU-…/1c.3g.40gb@4.1"); a slice's
 * is the card's UUID and its alias, "GPU-…/small-0"; a virtual function's is the card's UUID and
 * how far behind the card's own function it lies, "GPU-…/vf@2"; a slot, for which a slice is made
 * once its pod is known and on the card that is chosen then, is "sgpu@3"; "::2" is appended to the
 * third replica of a shared one (docs/adr/0011).
 */
#define DEVICE_ID_BYTES 192

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
    bool mixed_instead_of_single; /* single was asked for and does not fit the node's cards */
    char *left_out;      /* why a card gets no slices for pods that could be told; NULL: none is */
    bool pods_forbidden; /* there would be slices for pods, if the agent could read these */
};

/* *ret is the caller's (device_table_done). */
void device_table_build(const struct node_state *s, int64_t now_ms, struct device_table *ret);
void device_table_done(struct device_table *t);
AUTO_DEFINE(device_table, struct device_table, device_table_done)
#define auto_device_table AUTO(device_table)

/* The strategy by which the table names partitions (resource_strategy). */
int device_table_strategy(const struct node_state *s, int64_t now_ms);

/* Do they say the same of everything? */
bool device_table_equal(const struct device_table *a, const struct device_table *b);

/* None of these may be granted: what their containers need is not there. By the entry's cdi_name.
 */
void device_table_withhold(struct device_table *t, const char *const *names, size_t n);

/* Adds how many of each may be granted to status.resources (freed by device_status_done). What
 * nothing may be granted of is named only where the kubelet serves it. publisher: enum
 * api_publisher. */
void device_table_counts(const struct device_table *t, int publisher, struct device_status *ret);

/* The resource of this name, or NULL. Borrowed. */
const struct table_resource *device_table_resource(const struct device_table *t, const char *name);
/* The device of an id, whose replica is not looked at; NULL: there is none. Borrowed. */
const struct table_device *table_resource_device(const struct table_resource *r, const char *id);

/* Our id, in place of a MIG UUID with or without replica, which NVIDIA's plugin names partitions
 * by. NULL: it is none of a partition that stands. Caller frees. */
char *device_table_translate(const struct device_table *t, const char *id);
/* The id of a whole card, or with p of a part. buf holds DEVICE_ID_BYTES. Returns buf. */
char *device_id(const struct gpu_card *card, const struct card_part *p, char *buf);
/* How a slice gets into a container, under this CDI name, which is taken over. *ret is freed with
 * entry_device_done. */
void device_slice_entry(const struct gpu_card *card, const struct card_part *p, char *cdi_name_take,
                        struct entry_device *ret);
/* The id of a slot. buf as above. */
char *device_slot_id(unsigned slot, char *buf);
/* The slot of an id; -1: it is none of a slot. */
int device_slot_of(const char *id);
/* Are slices of the card in mode GPU_SGPU made for pods? want: what is wanted of it, NULL: nothing.
 */
bool device_has_slots(const struct gpu_card *card, const struct device_want *want);
/* Do the device files stand with which containers use the card? nodes NULL: that is not asked.
 * ERR_NOT_FOUND: not those without which it cannot be used. */
int device_check_nodes(const struct container_nodes *nodes, const struct gpu_card *card,
                       struct err *e) MUST_CHECK;
/* Slots whose slices stand, on any card. */
struct device_slots {
    uint64_t bits[SGPU_MAX_SLOTS / 64];
};
void device_slots_put(struct device_slots *s, unsigned slot);
void device_slots_add(struct device_slots *s, const struct gpu_card *card);
bool device_slots_has(const struct device_slots *s, unsigned slot);

/* Tells the card of the pods that were given it or parts of it, in place of those that it was told
 * of before (gpu_card_set_holders). A pod that was given a slot which is not in `made` holds each
 * card on which its slice may come to stand. */
void device_mark_holders(const struct holders *h, const struct device_slots *made,
                         struct gpu_card *card);
/* How long an id is without its replica. */
size_t device_id_base(const char *id);
