/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "nodeagent/kubelet/cdi_slot.h"
#include "nodeagent/slot_record.h"

/*
 * A container's slots are given what they mean: their slices are made and said in CDI files; and
 * taken back. Every step may be the last: done again, each goes on from whatever stands. For the
 * worker's thread.
 */

/* One slot, and the slice that it is to mean. */
struct slot_grant {
    unsigned slot;
    char card[GPU_UUID_BYTES];
    struct sgpu_quota quota;
    int qos; /* the card's policy, set first where it is another and no slice stands; -1: any */
};

/* All slots of one container. Owned: slot_binding_done. */
struct slot_binding {
    char *ns, *pod, *uid, *container;
    struct slot_grant *grants;
    size_t n;
    struct err unplaced; /* why no place was found, and the grants name none; kind 0: they do */
};
void slot_binding_done(struct slot_binding *b);
AUTO_DEFINE(slot_binding, struct slot_binding, slot_binding_done)
#define auto_slot_binding AUTO(slot_binding)

/* All borrowed. */
struct slot_deps {
    struct gpu *gpu;
    const char *state_dir;
    const struct cdi_slots *cdi;         /* NULL: containers are told in other ways */
    const struct container_nodes *nodes; /* NULL: not read yet */
};

/* A slice that was made for this pod (by its uid) and container stays as it is, whatever is asked
 * for now, and whether or not there is a place for another. What an earlier pod had under these
 * slots is nobody's any more and goes, also where no place was found: that may be what stood in the
 * way, of this pod or of others. ERR_UNAVAILABLE: it is still in use, or the driver's files are not
 * known yet; ERR_CONFLICT: the card does not show what was made; b->unplaced, where a slice would
 * have to be made; others as the card's verbs and cdi_slots_write. */
int slot_bind(const struct slot_deps *d, const struct slot_binding *b, struct err *e) MUST_CHECK;

/* The slot means nothing any more: its CDI file goes, its slice on the card (uuid; "": on none that
 * we know) and then its record. ERR_UNAVAILABLE: the slice is in use; as the verbs otherwise. */
int slot_release(const struct slot_deps *d, unsigned slot, const char *card,
                 struct err *e) MUST_CHECK;
