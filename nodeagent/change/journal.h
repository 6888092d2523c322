/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/err.h"

#include "nodeagent/mode/nameless.h"

/*
 * The journal of a change on one card: one small JSON file per card, <state_dir>/<uuid>.json,
 * replaced atomically and fsynced. While the file exists the card may be between its old layout and
 * the target; the next agent that starts reads it and ends the change. One thread per card;
 * processes exclude one another with journal_lock.
 *
 * Files are written in JOURNAL_VERSION and read from JOURNAL_OLDEST (the version before) on. A file
 * of a newer release is left as it is. docs/adr/0020-records-across-versions.md says what raises
 * the version. Unknown fields are ignored.
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
    char boot_id[JOURNAL_BOOT_ID_LEN]; /* the boot that the layouts belong to */
    enum journal_phase phase;
    unsigned step;                 /* number of steps done when the phase was entered */
    char note[JOURNAL_NOTE_BYTES]; /* why the phase was entered; "" for FORWARD */
    struct card_layout old, target;
    struct card_nameless nameless; /* slices without a name that existed before the change, so not
                                      made by it */
};

/* Writes the journal durably, and makes state_dir if it is missing. ERR_SYSTEM. */
int journal_write(const char *state_dir, const struct journal *j, struct err *e) MUST_CHECK;

/* Reads the journal of a card. Errors:
 *  - ERR_NOT_FOUND: there is none, the usual case.
 *  - ERR_CONFLICT, reason OtherVersion: the file is of a version that this release does not read.
 *    The file stays, and the card must not be touched.
 *  - ERR_PROTOCOL: the file is damaged, too large, or another card's. It was moved to
 *    <name>.bad-<n> (never deleted), and the message names the new path.
 *  - ERR_SYSTEM: it could not be read or moved, and is still there. */
int journal_read(const char *state_dir, const char *uuid, struct journal *ret,
                 struct err *e) MUST_CHECK;

/* Closes a change: removes the file durably. A missing file is no error. */
int journal_remove(const char *state_dir, const char *uuid, struct err *e) MUST_CHECK;

/* The UUIDs of all cards with a journal, to be recovered at start. Strings and array are the
 * caller's; none when state_dir does not exist. ERR_SYSTEM. */
int journal_list(const char *state_dir, char ***ret_uuids, size_t *ret_n, struct err *e) MUST_CHECK;

/* Keeps other processes from changing this node's cards until the descriptor is closed. Also
 * removes the temporary files of a process that crashed while it wrote a journal. ERR_CONFLICT:
 * another process holds the lock. ERR_SYSTEM. */
int journal_lock(const char *state_dir, int *ret_fd, struct err *e) MUST_CHECK;
/* The same, but waits for as long as another process holds the lock. ERR_SYSTEM. */
int journal_await_lock(const char *state_dir, int *ret_fd, struct err *e) MUST_CHECK;
