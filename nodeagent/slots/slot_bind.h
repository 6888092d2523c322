/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "nodeagent/cdi/cdi_slot.h"
#include "nodeagent/slots/slot_record.h"

/*
 * Binds and releases slots: makes a container's slices and writes their CDI files, or removes both.
 * The agent may be killed after every step; a repeated call continues from whatever exists. For the
 * worker's threads, one at a time for each slot and for each card that has, or gets, its slice.
 */

/* One slot and its slice. */
struct bound_slot {
    unsigned slot;
    char card[GPU_UUID_BYTES];
    struct sgpu_quota quota;
    int memory_level;  /* of a share (enum api_level): what holds its container to its memory, */
    int compute_level; /* ... and to its compute; */
    bool is_capped;    /* ... which it never has more of, also alone */
    bool is_low;       /* those of high priority have the card first */
    int qos; /* the card's policy (enum api_qos_policy), set first where it differs and no slice
                exists; -1: any */
};

/* The slots of one container. Owned: slot_binding_done. */
struct slot_binding {
    char *ns, *pod, *uid, *container;
    struct bound_slot *bound;
    size_t n;
    struct entry_device *entries; /* of shares: n, how each gets into the container; else NULL */
    struct entry mps; /* of shares: what a client of their card's MPS daemon gets; empty: nothing */
    int64_t known_mono_us; /* when its pod was read; 0: it waited for room, or was bound before */
    struct err unplaced; /* why no card has room; none of them names a card then. kind 0: they do */
};
void slot_binding_done(struct slot_binding *b);
/* The record of one of its slots, without nameless slices. Free it with slot_record_done. */
struct slot_record slot_binding_record(const struct slot_binding *b, const struct bound_slot *g);
AUTO_DEFINE(slot_binding, struct slot_binding, slot_binding_done)
#define auto_slot_binding AUTO(slot_binding)

struct share_folders;
struct shares;

/* All borrowed. */
struct slot_deps {
    struct gpu *gpu;
    const char *state_dir;
    const struct cdi_slots *cdi;      /* NULL: no CDI files are written */
    const struct device_nodes *nodes; /* NULL: not read yet */
    const struct driver_files *files; /* the driver's, for shares; NULL: not found */
    struct share_folders
        *share_folders;      /* of containers with limited shares; NULL: there are none */
    const char *limiter;     /* the folder of the host with the limiter's libraries; NULL: it is not
                            installed */
    const char *cgroup_root; /* the kubelet's (pod_cgroup.h); NULL: not told */
    const struct shares *shares; /* on the cards, those included that are bound; NULL: no others */
};

/* Makes the slices of b and writes their CDI files.
 *  - A slice that was made for this pod (by its uid) and container stays as it is, whatever the pod
 *    asks for now, and whether or not there is room for another.
 *  - A slice of an earlier pod under one of these slots has no holder any more and is removed. This
 *    is done even where no card has room, since that slice may be what takes the room.
 *
 * Errors:
 *  - ERR_UNAVAILABLE: the old slice is still in use, or the driver's files are not known yet.
 *  - ERR_CONFLICT: the card does not show the slice that was made.
 *  - b->unplaced, where a slice would have to be made.
 *  - others as the card's verbs and cdi_slots_write. */
int slot_bind(const struct slot_deps *d, const struct slot_binding *b, struct err *e) MUST_CHECK;

/* Releases the slot: removes its CDI file, its slice on the card (uuid; "": no card is known to
 * have one), then its record. ERR_UNAVAILABLE: the slice is in use; others as the card's verbs. */
int slot_release(const struct slot_deps *d, unsigned slot, const char *card,
                 struct err *e) MUST_CHECK;
