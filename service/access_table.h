/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/auto.h"

/*
 * The known results of token reviews, by the tokens' hashes, and the queue of tokens to review.
 * Pure: time is passed in, and never goes back.
 *
 * All numbers are bounded, whatever strangers invent: allowed tokens, other decided tokens, and new
 * tokens that wait for their first review, of which only some are accepted each second. A token
 * that was allowed before is reviewed again ahead of the new ones and outside their bounds, so a
 * flood of invented tokens cannot keep a known one out.
 *
 * One thread, or the caller's lock.
 */
struct access_table;

enum access {
    ACCESS_PENDING, /* the review waits or runs */
    ACCESS_ALLOWED,
    ACCESS_UNAUTHENTICATED, /* the API server does not know the token */
    ACCESS_FORBIDDEN,       /* its user has no right to the page */
    ACCESS_UNKNOWN,         /* the API server could not be asked */
    ACCESS_BUSY,            /* not put in the queue: too many new tokens */
};

enum {
    /* controller-runtime keeps an authentication for 60 s and a refusal for 30 s. It keeps a right
     * for 5 minutes; here 60 s, so that a right that was taken away does not last longer. */
    ACCESS_ALLOWED_MS = 60 * 1000,
    ACCESS_REFUSED_MS = 30 * 1000,
    /* A token is not reviewed again for so long after the API server could not be asked. */
    ACCESS_UNKNOWN_MS = 1000,

    ACCESS_MAX_ALLOWED = 32, /* those under another review included */
    ACCESS_MAX_REFUSED = 64,
    ACCESS_MAX_NEW = 4, /* waiting for their first review, the running one included */
    ACCESS_MAX = ACCESS_MAX_ALLOWED + ACCESS_MAX_REFUSED + ACCESS_MAX_NEW,

    /* New tokens accepted each second, and at once after some quiet seconds. */
    ACCESS_NEW_PER_S = 5,
    ACCESS_NEW_BURST = 10,

    /* The same limits for one address, so that a flood from it leaves room for new tokens from
     * others. */
    ACCESS_MAX_NEW_OF_PEER = 2,
    ACCESS_PEER_PER_S = 2,
    ACCESS_PEER_BURST = 5,
    /* Addresses counted separately; for one more, the one seen longest ago is dropped. */
    ACCESS_MAX_PEERS = 32,
};

struct access_key {
    unsigned char sha256[32];
};

struct access_table *access_table_new(void);

/* The result for this token, which came from the address peer. An unknown or expired one is put in
 * the queue: ACCESS_PENDING, *ret_put is true, and *ret_entry (less than ACCESS_MAX) identifies it;
 * or ACCESS_BUSY when there is no room. *ret_put is false for every other result. */
enum access access_table_ask(struct access_table *t, const struct access_key *key, uint32_t peer,
                             int64_t now_ms, size_t *ret_entry, bool *ret_put);

/* The result for a token that was ACCESS_PENDING before. ACCESS_BUSY: it was dropped meanwhile. */
enum access access_table_result(const struct access_table *t, const struct access_key *key);

/* Takes the next entry to review out of the queue; false: none waits. */
bool access_table_next(struct access_table *t, size_t *ret_entry);

/* Ends the review of an entry from access_table_next; verdict is neither ACCESS_PENDING nor
 * ACCESS_BUSY. With ACCESS_UNKNOWN all waiting new tokens get that result too: the API server
 * would hardly answer for them either, and each would wait for its own timeout. Tokens that were
 * allowed before stay in the queue: it may be a stranger's token that takes the API server long. */
void access_table_decide(struct access_table *t, size_t entry, enum access verdict, int64_t now_ms);

/* True while this entry waits for its review, or is under review. */
bool access_table_is_pending(const struct access_table *t, size_t entry);

/* NULL allowed; returns NULL. */
struct access_table *access_table_free(struct access_table *t);
AUTO_DEFINE_PTR(access_table, struct access_table, access_table_free)
#define auto_access_table AUTO_PTR(access_table)
