/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/err.h"

#include "nodeagent/card_slices.h"

/*
 * The memory of a change that is under way on one card: one small JSON file per card,
 * <state_dir>/<uuid>.json, replaced atomically and fsynced. While the file exists the card may
 * stand between its old layout and the target; whoever starts next reads it and ends that. One
 * thread per card; processes exclude one another with journal_lock.
 *
 * Files are written in JOURNAL_VERSION and read from JOURNAL_OLDEST on, the version before. What a
 * newer release wrote is left as it is (docs/adr/0020-records-across-versions.md, which says what
 * raises the version). A field that is not known here is passed over.
 */
#define JOURNAL_VERSION     1
#define JOURNAL_OLDEST      1
#define JOURNAL_NOTE_BYTES  256
#define JOURNAL_BOOT_ID_LEN 40

enum journal_phase {
    JOURNAL_FORWARD, /* on the way to the target */
    JOURNAL_BACK,    /* a step failed: on the way to the old layout */
    JOURNAL_HELD,    /* a step failed and the policy is to stop there */
};

struct journal {
    char uuid[GPU_UUID_BYTES];
    char boot_id[JOURNAL_BOOT_ID_LEN]; /* of the boot that the layouts belong to */
    enum journal_phase phase;
    unsigned step;                 /* how many steps were done when the phase was entered */
    char note[JOURNAL_NOTE_BYTES]; /* why the phase was entered; "" for FORWARD */
    struct card_layout old, target;
    struct card_nameless nameless; /* that stood before the change: none of its making */
};

/* Writes the journal durably, making state_dir when it is not there. ERR_SYSTEM. */
int journal_write(const char *state_dir, const struct journal *j, struct err *e) MUST_CHECK;

/* The journal of a card. ERR_NOT_FOUND: none, the usual case. ERR_CONFLICT, reason OtherVersion:
 * the file is of a version that is not read here; it stays, and so must the card. ERR_PROTOCOL: the
 * file is damaged, too large or of another card; it was moved to <name>.bad-<n> (never deleted) and
 * the message says where. ERR_SYSTEM: it could not be read or moved, and is still there. */
int journal_read(const char *state_dir, const char *uuid, struct journal *ret,
                 struct err *e) MUST_CHECK;

/* Closes a change: removes the file durably. No file is no error. */
int journal_remove(const char *state_dir, const char *uuid, struct err *e) MUST_CHECK;

/* UUIDs of all cards with a journal, to be recovered at start: strings and array owned by the
 * caller, none when state_dir does not exist. ERR_SYSTEM. */
int journal_list(const char *state_dir, char ***ret_uuids, size_t *ret_n, struct err *e) MUST_CHECK;

/* Keeps other processes from changing this node's cards until the descriptor is closed, and sweeps
 * up what one that crashed while it wrote a journal left behind. ERR_CONFLICT: another process
 * holds it. ERR_SYSTEM. */
int journal_lock(const char *state_dir, int *ret_fd, struct err *e) MUST_CHECK;
