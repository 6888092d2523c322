/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "nodeagent/transaction.h"

/*
 * The cards with an interrupted change that could not be ended: its journal stands, and the next
 * recovery tries again. While nobody wants such a card to be anything, nothing of it is offered and
 * nothing new is made on it. Each is listed once; a plain value, zeroed is empty.
 */
struct unended_card {
    char uuid[GPU_UUID_BYTES];
    bool waits;           /* for a person: the journal is another version's; else for its time */
    char why[512];        /* for a person, with the remedy */
    int64_t told_number;  /* of the first status that offers nothing of it; 0: none does yet */
    int64_t told_mono_ms; /* when the kubelet was told so; valid with told_number */
};

struct unended {
    struct unended_card *items; /* owned */
    size_t n;
};

/* r (FAILED) is what came of the newest try. A card that is listed keeps its told_number. */
void unended_note(struct unended *u, const char *uuid, const struct txn_result *r);
/* Borrowed until the next note, or NULL. u may be NULL: none is. */
struct unended_card *unended_find(const struct unended *u, const char *uuid);
/* The reason for a condition. Static. */
const char *unended_reason(const struct unended_card *u);
void unended_done(struct unended *u);
