/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/auto.h"
#include "base/err.h"

#include "nodeagent/cdi/cdi.h"
#include "nodeagent/container/slot_pool.h"

/*
 * The CDI files of slots, one each. What a slot stands for is decided only when its pod is known
 * (late binding), and the runtime looks the name up only when it creates the container. The kind is
 * that of the vendor's other devices and the name is the slot's, so the file of cdi.h does not
 * change:
 *
 *   <folder>/<slot name>.gpu.cleave.dev-<vendor>-slot.json
 *
 * A file exists while its slot is bound. A container that names a slot without a file fails to
 * start until there is one. The files survive the agent, so a new one lists them. Source of the
 * time of the look-up: tried with kubelet 1.34.4 and containerd 2.1.9.
 */

/* The slot files of all pools. Immutable: any thread may use it; one thread at a time writes a slot's file. */
struct cdi_slots;

/* Copies the options. Removes temporary files that a crashed agent left. */
struct cdi_slots *cdi_slots_new(const struct cdi_options *o);
struct cdi_slots *cdi_slots_free(struct cdi_slots *s);
AUTO_DEFINE_PTR(cdi_slots, struct cdi_slots, cdi_slots_free)
#define auto_cdi_slots AUTO_PTR(cdi_slots)

/* What the container of a slot gets besides its devices. Borrowed. */
struct cdi_outfit {
    const struct driver_files *files; /* the driver's, for a vendor whose containers get them; NULL:
                                         none */
    /* As in struct cdi_common_options. */
    const char *limiter;
    const struct entry_mount *mounts;
    size_t n_mounts;
    const struct entry_pair *envs;
    size_t n_envs;
};

/* Writes the file of slot d->cdi_name so that it stands for d: a whole card, an existing slice, or
 * a share of a card. outfit NULL: nothing besides. together: all devices of d's container, d
 * included (n 0: only d); the files of all of them are to be written with the same list and outfit.
 * An older file of the slot is replaced durably; an equal one is not written. Does file I/O with
 * fsync: some milliseconds on a disk, almost none in memory, where /var/run is.
 *
 * Errors; the old file stays then. ERR_INVALID: not a slot's name, another vendor's device, or a
 * slot itself; ERR_NOT_FOUND: its device files are not known; ERR_SYSTEM: folder or disk. */
int cdi_slots_write(const struct cdi_slots *s, const struct device_nodes *nodes,
                    const struct cdi_outfit *outfit, const struct entry_device *d,
                    const struct entry_device *const *together, size_t n, struct err *e) MUST_CHECK;

/* Removes the file of a slot. A missing one is no error. ERR_INVALID: not a slot's name.
 * ERR_SYSTEM. */
int cdi_slots_remove(const struct cdi_slots *s, const char *name, struct err *e) MUST_CHECK;

/* The names of slots. Owned: cdi_slot_names_done. */
struct cdi_slot_names {
    char **items; /* sorted */
    size_t n;
};
/* The slots that have a file, the first SLOT_MAX found. Other files are ignored; a missing
 * folder has none. ERR_SYSTEM. */
int cdi_slots_list(const struct cdi_slots *s, struct cdi_slot_names *ret, struct err *e) MUST_CHECK;
void cdi_slot_names_done(struct cdi_slot_names *n);
/* True when the file of some slot has the text in it, or it cannot be said: a file or the folder
 * cannot be read. */
bool cdi_slots_mention(const struct cdi_slots *s, const char *text);
AUTO_DEFINE(cdi_slot_names, struct cdi_slot_names, cdi_slot_names_done)
#define auto_cdi_slot_names AUTO(cdi_slot_names)
