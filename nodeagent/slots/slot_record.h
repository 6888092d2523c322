/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stddef.h>

#include "base/auto.h"
#include "base/err.h"

#include "nodeagent/mode/nameless.h"

/*
 * The record of a slot that is, or was about to be, bound for a pod: <state-dir>/slots/
 * <name>.json (slot_name). A record of a share is the share itself: no driver knows it. One of a
 * slice is written durably before the slice is made and removed after the slice is gone. A slice
 * gets its name only after it is made. When the agent is killed in between, the record lists the
 * nameless slices that existed before; any other nameless slice on the card is the slot's.
 *
 * Files are written in SLOT_RECORD_VERSION and read from SLOT_RECORD_OLDEST (the version before)
 * on. A file of a newer release is left as it is (docs/adr/0020-records-across-versions.md).
 */
#define SLOT_RECORD_VERSION 1
#define SLOT_RECORD_OLDEST  1

struct slot_record {
    unsigned slot;
    char card[GPU_UUID_BYTES];
    char *ns, *pod, *uid, *container; /* owned */
    struct sgpu_quota quota;
    /* Of a share, enum api_level; a release that knows of none has none. */
    int memory_level, compute_level;
    bool is_capped;                /* it never has more than its compute, also alone */
    bool is_low;                   /* those of high priority have the card first */
    struct card_nameless nameless; /* those that existed before the slot's slice was made */
};

/* Writes a record durably. ERR_SYSTEM. */
int slot_record_write(const char *state_dir, const struct slot_record *r, struct err *e) MUST_CHECK;
/* Reads a record. ERR_NOT_FOUND: there is none. ERR_PROTOCOL: it cannot be used. ERR_CONFLICT,
 * reason OtherVersion: this release does not read its version; neither the record nor the slice may
 * be touched. Free *ret with slot_record_done. */
int slot_record_read(const char *state_dir, unsigned slot, struct slot_record *ret,
                     struct err *e) MUST_CHECK;
/* The same, for those that go on without: *ret is empty (uid NULL) where there is none, or where it
 * cannot be used, which is logged. ERR_CONFLICT as above. */
int slot_record_take(const char *state_dir, unsigned slot, struct slot_record *ret,
                     struct err *e) MUST_CHECK;
/* Removes a record. A missing one is no error. ERR_SYSTEM. */
int slot_record_remove(const char *state_dir, unsigned slot, struct err *e) MUST_CHECK;
/* The slots that have a record, readable or not, in any order. *ret is the caller's. ERR_SYSTEM. */
int slot_records_list(const char *state_dir, unsigned **ret, size_t *ret_n,
                      struct err *e) MUST_CHECK;
/* Removes the drafts that a killed agent left. For an agent that is alone on its node, while it writes
 * none. Failures are logged. */
void slot_records_sweep(const char *state_dir);
void slot_record_done(struct slot_record *r);
AUTO_DEFINE(slot_record, struct slot_record, slot_record_done)
#define auto_slot_record AUTO(slot_record)
