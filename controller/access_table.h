/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/auto.h"

/*
 * What is known of tokens, by their hashes, and which of them to ask the API server about. Pure:
 * time is passed in, and never goes back.
 *
 * Bounded, whatever strangers invent: so many tokens that were allowed, so many others, and so many
 * new ones that wait for their review, of which only some are let in each second. A token that was
 * allowed before is reviewed again ahead of the new ones and beside their bounds, so that a flood
 * of invented tokens keeps no known one out.
 *
 * One thread, or the caller's lock.
 */
struct access_table;

enum access {
    ACCESS_PENDING, /* the review is on its way */
    ACCESS_ALLOWED,
    ACCESS_UNAUTHENTICATED, /* nobody's token */
    ACCESS_FORBIDDEN,       /* its user has not the right */
    ACCESS_UNKNOWN,         /* the API server could not be asked */
    ACCESS_BUSY,            /* not asked: too many new tokens */
};

enum {
    /* controller-runtime keeps an authentication for 60 s and a refusal for 30 s; its 5 minutes for
     * a right would be ours of a right that was taken away. */
    ACCESS_ALLOWED_MS = 60 * 1000,
    ACCESS_REFUSED_MS = 30 * 1000,
    /* The API server is not asked again about this token for so long. */
    ACCESS_UNKNOWN_MS = 1000,

    ACCESS_MAX_ALLOWED = 32, /* being reviewed again included */
    ACCESS_MAX_REFUSED = 64,
    ACCESS_MAX_NEW = 4, /* that wait for their first review, the one under way included */
    ACCESS_MAX = ACCESS_MAX_ALLOWED + ACCESS_MAX_REFUSED + ACCESS_MAX_NEW,

    /* New tokens for each second, and at once after some quiet seconds. */
    ACCESS_NEW_PER_S = 5,
    ACCESS_NEW_BURST = 10,

    /* Of these from one address: whoever floods leaves room for a new token from another one. */
    ACCESS_MAX_NEW_OF_PEER = 2,
    ACCESS_PEER_PER_S = 2,
    ACCESS_PEER_BURST = 5,
    ACCESS_MAX_PEERS = 32, /* that are told apart; beyond, the one longest ago is forgotten */
};

struct access_key {
    unsigned char sha256[32];
};

struct access_table *access_table_new(void);

/* What is known of the token, which came from this address. One of which nothing is, or no longer,
 * is put in line for a review (ACCESS_PENDING; *ret_place, less than ACCESS_MAX, is where, and
 * *ret_put is true) or not (ACCESS_BUSY). *ret_put is false for every other answer. */
enum access access_table_ask(struct access_table *t, const struct access_key *key, uint32_t peer,
                             int64_t now_ms, size_t *ret_place, bool *ret_put);

/* What came of it, for who was told ACCESS_PENDING. ACCESS_BUSY: it was forgotten meanwhile. */
enum access access_table_result(const struct access_table *t, const struct access_key *key);

/* The place that is to be reviewed next; false: none. */
bool access_table_next(struct access_table *t, size_t *ret_place);

/* The review of this place, which access_table_next gave, is over; verdict is neither
 * ACCESS_PENDING nor ACCESS_BUSY. With ACCESS_UNKNOWN all who wait in line get that, too: the
 * API server would not answer them either, and theirs would be the wait. */
void access_table_decide(struct access_table *t, size_t place, enum access verdict, int64_t now_ms);

/* Does a review of this place wait, or is it on its way? */
bool access_table_is_pending(const struct access_table *t, size_t place);

/* NULL allowed; returns NULL. */
struct access_table *access_table_free(struct access_table *t);
AUTO_DEFINE_PTR(access_table, struct access_table, access_table_free)
#define auto_access_table AUTO_PTR(access_table)
