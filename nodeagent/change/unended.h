/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "nodeagent/change/transaction.h"

/*
 * The cards with an interrupted change that could not be recovered: the journal remains, and the
 * next recovery tries again. While no source wants anything of such a card, none of it is offered
 * and nothing new is made on it. Each card is listed once. A plain value; zeroed is empty.
 */
struct unended_card {
    char uuid[GPU_UUID_BYTES];
    bool waits;    /* for a person, since the journal is another version's; else for a retry */
    char why[512]; /* for a person, with the remedy */
    int64_t told_number;  /* number of the first status that offers none of it; 0: none yet */
    int64_t told_mono_ms; /* when the kubelet was shown that; valid with told_number */
};

struct unended {
    struct unended_card *items; /* owned */
    size_t n;
};

/* Records r (FAILED), the newest result of recovering this card. A listed card keeps its
 * told_number. */
void unended_note(struct unended *u, const char *uuid, const struct txn_result *r);
/* The card's change has ended. */
void unended_drop(struct unended *u, const char *uuid);
/* Borrowed until the next note or drop, or NULL. u may be NULL: no cards. */
struct unended_card *unended_find(const struct unended *u, const char *uuid);
/* The reason for a condition. Static. */
const char *unended_reason(const struct unended_card *u);
void unended_done(struct unended *u);
