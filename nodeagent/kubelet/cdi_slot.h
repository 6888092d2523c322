/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/auto.h"
#include "base/err.h"

#include "nodeagent/kubelet/container_vendor.h"

/*
 * CDI files of slots, one each: what a slot means is decided when it is known which pod holds it
 * (late binding), and the runtime looks it up when it makes the container. The kind is that of the
 * vendor's other devices, the name is the slot's, so that the file of cdi.h need not be touched.
 *
 *   <folder>/<slot name>.gpu.cleave.dev-<vendor>-slot.json
 *
 * A file stands as long as its slot is bound; a name whose file is gone means nothing, and a
 * container that asks for it fails until it does. The files survive the process: who starts lists
 * them. Source of the look-up's time: tried with kubelet 1.34.4 and containerd 2.1.9.
 */

/* A node has fewer slots. */
#define CDI_MAX_SLOTS 1024

/* The slot's name, "slot.3", which is its slice's alias too. Caller frees. */
char *cdi_slot_name(unsigned slot);
/* Is it such a name? Then *ret_slot (may be NULL) is its number. */
bool cdi_slot_parse(const char *name, unsigned *ret_slot);

/* Where slots of one vendor have their files. Immutable: any thread may use it, one at a time may
 * write. */
struct cdi_slots;

/* folder NULL: CDI_FOLDER. vendor is one of container_vendors[]. Copies. Removes what a crash left
 * of an earlier write. */
struct cdi_slots *cdi_slots_new(const char *folder, const char *vendor);
struct cdi_slots *cdi_slots_free(struct cdi_slots *s);
AUTO_DEFINE_PTR(cdi_slots, struct cdi_slots, cdi_slots_free)
#define auto_cdi_slots AUTO_PTR(cdi_slots)

/* From now on the slot d->cdi_name means d: a whole card, or a slice that stands. together: all
 * that d's container gets, d among them, where these are several (n 0: it gets d alone); the files
 * of all of them are to be written with the same. An older file of the slot is replaced at once
 * and durably; nothing is written when it says so already. ERR_INVALID: no name of a slot, another
 * vendor's device, or still a slot itself; ERR_NOT_FOUND: its device files are not known;
 * ERR_SYSTEM: folder or disk. The old file stands then. Does file I/O with fsync: some milliseconds
 * on a disk, next to none where the folder is in memory, as /var/run is. */
int cdi_slots_write(const struct cdi_slots *s, const struct container_nodes *nodes,
                    const struct entry_device *d, const struct entry_device *const *together,
                    size_t n, struct err *e) MUST_CHECK;

/* The slot means nothing any more. One that means nothing is no error. ERR_INVALID: no name of a
 * slot. ERR_SYSTEM. */
int cdi_slots_remove(const struct cdi_slots *s, const char *name, struct err *e) MUST_CHECK;

/* Names of slots. Owned: cdi_slot_names_done. */
struct cdi_slot_names {
    char **items; /* sorted */
    size_t n;
};
/* The slots whose files stand, the first CDI_MAX_SLOTS that are found. Other files are not
 * looked at. A folder that is not there has none. ERR_SYSTEM. */
int cdi_slots_list(const struct cdi_slots *s, struct cdi_slot_names *ret, struct err *e) MUST_CHECK;
void cdi_slot_names_done(struct cdi_slot_names *n);
AUTO_DEFINE(cdi_slot_names, struct cdi_slot_names, cdi_slot_names_done)
#define auto_cdi_slot_names AUTO(cdi_slot_names)
