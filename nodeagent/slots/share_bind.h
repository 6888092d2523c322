/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "nodeagent/offer/shares.h"
#include "nodeagent/slots/slot_bind.h"

/*
 * Binds and releases slots of the pool of shares. A share is its record (slot_record.h) and a CDI
 * file, and between them in time, where it is limited, the driver's limit (cgroup_limits.h) and its
 * container's folder (share_outfit.h). The agent may be killed after every step; a repeated call continues from whatever
 * exists. For the worker's threads, one at a time for each slot.
 */

/* Writes the records of the binding's slots, sets the driver's limits, makes the container's folder,
 * then their CDI files; b->entries is set. ERR_UNAVAILABLE: the driver's files are not known yet, or
 * what a limited share needs is not there; ERR_CONFLICT: another release's record is there; others as
 * slot_record_write, cgroup_limits_put, share_folders_put and cdi_slots_write. While the driver's
 * limits cannot be set there are no CDI files. */
int share_bind(const struct slot_deps *d, const struct slot_binding *b, struct err *e) MUST_CHECK;

/* Removes the slot's CDI file, then the folder of a container whose lowest slot it is, then the
 * driver's limit, then its record. ERR_CONFLICT as above; ERR_SYSTEM; others as cgroup_limits_drop. */
int share_release(const struct slot_deps *d, unsigned slot, struct err *e) MUST_CHECK;

/* Adds the shares that have a record, among these slots of any pool. Those whose record is damaged, or
 * another release's, are unknown, which is logged. ERR_SYSTEM: one could not be read. */
int share_records_read(const char *state_dir, const unsigned *slots, size_t n, struct shares *ret,
                       struct err *e) MUST_CHECK;
