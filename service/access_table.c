/* SPDX-License-Identifier: Apache-2.0 */
#include "service/access_table.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/xalloc.h"

/* The bound that an entry counts against. */
enum kind { FREE, NEW, GOOD, BAD };

struct entry {
    enum kind kind; /* GOOD: the last review allowed it; BAD: refused it; NEW: no review yet */
    struct access_key key;
    enum access access;
    uint32_t peer;    /* NEW: the address it came from */
    bool under_way;   /* returned by access_table_next and not decided yet */
    uint64_t turn;    /* of the waiting ones, the lowest is next */
    int64_t until_ms; /* expiry, unless ACCESS_PENDING */
};

/* A token bucket: how many new tokens may still be accepted, in thousandths, and when that was
 * computed. */
struct bucket {
    int64_t milli, counted_ms;
};

struct peer {
    uint32_t address;
    struct bucket bucket;
};

struct access_table {
    struct entry entries[ACCESS_MAX];
    uint64_t turns;
    struct bucket all;
    struct peer peers[ACCESS_MAX_PEERS];
    size_t n_peers;
};

struct access_table *access_table_new(void)
{
    struct access_table *t = xmalloc(sizeof(*t));
    t->all.milli = ACCESS_NEW_BURST * 1000;
    return t;
}

static struct entry *find_entry(const struct access_table *t, const struct access_key *key)
{
    for (size_t i = 0; i < ACCESS_MAX; i++)
        if (t->entries[i].kind != FREE && memcmp(&t->entries[i].key, key, sizeof(*key)) == 0)
            return (struct entry *)(uintptr_t)&t->entries[i];
    return NULL;
}

static size_t count_kind(const struct access_table *t, enum kind kind)
{
    size_t n = 0;
    for (size_t i = 0; i < ACCESS_MAX; i++)
        n += t->entries[i].kind == kind;
    return n;
}

/* The decided entry of this kind that expires first; NULL: none. */
static struct entry *first_out(struct access_table *t, enum kind kind)
{
    struct entry *first = NULL;
    for (size_t i = 0; i < ACCESS_MAX; i++) {
        struct entry *n = &t->entries[i];
        if (n->kind == kind && n->access != ACCESS_PENDING &&
            (!first || n->until_ms < first->until_ms))
            first = n;
    }
    return first;
}

/* The kinds' bounds add up to the table's size, so there is a free entry. */
static struct entry *free_entry(struct access_table *t)
{
    struct entry *n = t->entries;
    while (n->kind != FREE)
        n++;
    assert(n < t->entries + ACCESS_MAX);
    return n;
}

/* --- New tokens --- */

static void refill_bucket(struct bucket *b, int64_t per_s, int64_t burst, int64_t now_ms)
{
    int64_t most = burst * 1000;
    int64_t passed_ms = now_ms - b->counted_ms;
    b->counted_ms = now_ms;
    b->milli = passed_ms > most / per_s ? most : b->milli + passed_ms * per_s;
    if (b->milli > most)
        b->milli = most;
}

/* The bucket of this address. An unknown address takes the bucket of the one that was seen longest
 * ago. */
static struct bucket *bucket_of(struct access_table *t, uint32_t address)
{
    struct peer *oldest = t->peers;
    for (size_t i = 0; i < t->n_peers; i++) {
        if (t->peers[i].address == address)
            return &t->peers[i].bucket;
        if (t->peers[i].bucket.counted_ms < oldest->bucket.counted_ms)
            oldest = &t->peers[i];
    }
    if (t->n_peers < ACCESS_MAX_PEERS)
        oldest = &t->peers[t->n_peers++];
    *oldest = (struct peer){.address = address, .bucket.milli = ACCESS_PEER_BURST * 1000};
    return &oldest->bucket;
}

static size_t new_ones_from(const struct access_table *t, uint32_t address)
{
    size_t n = 0;
    for (size_t i = 0; i < ACCESS_MAX; i++)
        n += t->entries[i].kind == NEW && t->entries[i].peer == address;
    return n;
}

static bool let_in(struct access_table *t, uint32_t peer, int64_t now_ms)
{
    struct bucket *own = bucket_of(t, peer);
    refill_bucket(own, ACCESS_PEER_PER_S, ACCESS_PEER_BURST, now_ms);
    refill_bucket(&t->all, ACCESS_NEW_PER_S, ACCESS_NEW_BURST, now_ms);
    if (own->milli < 1000 || new_ones_from(t, peer) >= ACCESS_MAX_NEW_OF_PEER)
        return false;
    if (t->all.milli < 1000 || count_kind(t, NEW) >= ACCESS_MAX_NEW)
        return false;
    own->milli -= 1000;
    t->all.milli -= 1000;
    return true;
}

static void put_in_line(struct access_table *t, struct entry *n)
{
    n->access = ACCESS_PENDING;
    n->under_way = false;
    n->turn = t->turns++;
}

enum access access_table_ask(struct access_table *t, const struct access_key *key, uint32_t peer,
                             int64_t now_ms, size_t *ret_entry, bool *ret_put)
{
    struct entry *n = find_entry(t, key);
    *ret_put = false;
    if (n && (n->access == ACCESS_PENDING || now_ms < n->until_ms))
        return n->access;
    if (!n || n->kind == BAD) {
        if (!let_in(t, peer, now_ms))
            return ACCESS_BUSY;
        if (!n)
            n = free_entry(t);
        *n = (struct entry){.kind = NEW, .key = *key, .peer = peer};
    }
    put_in_line(t, n);
    *ret_put = true;
    *ret_entry = (size_t)(n - t->entries);
    return ACCESS_PENDING;
}

enum access access_table_result(const struct access_table *t, const struct access_key *key)
{
    const struct entry *n = find_entry(t, key);
    return n ? n->access : ACCESS_BUSY;
}

/* --- Reviews --- */

static bool is_before(const struct entry *a, const struct entry *b)
{
    return a->kind == b->kind ? a->turn < b->turn : a->kind == GOOD;
}

bool access_table_next(struct access_table *t, size_t *ret_entry)
{
    struct entry *first = NULL;
    for (size_t i = 0; i < ACCESS_MAX; i++) {
        struct entry *n = &t->entries[i];
        if (n->kind != FREE && n->access == ACCESS_PENDING && !n->under_way &&
            (!first || is_before(n, first)))
            first = n;
    }
    if (!first)
        return false;
    first->under_way = true;
    *ret_entry = (size_t)(first - t->entries);
    return true;
}

static int64_t life_ms(enum access verdict)
{
    if (verdict == ACCESS_ALLOWED)
        return ACCESS_ALLOWED_MS;
    return verdict == ACCESS_UNKNOWN ? ACCESS_UNKNOWN_MS : ACCESS_REFUSED_MS;
}

/* A token that was allowed, and could not be reviewed now, keeps its kind. */
static enum kind kind_after(const struct entry *n, enum access verdict)
{
    if (verdict == ACCESS_ALLOWED)
        return GOOD;
    return verdict == ACCESS_UNKNOWN && n->kind == GOOD ? GOOD : BAD;
}

static void decide_entry(struct access_table *t, struct entry *n, enum access verdict,
                         int64_t now_ms)
{
    enum kind kind = kind_after(n, verdict);
    size_t most = kind == GOOD ? ACCESS_MAX_ALLOWED : ACCESS_MAX_REFUSED;
    if (n->kind != kind && count_kind(t, kind) == most) {
        struct entry *goes = first_out(t, kind);
        if (!goes) /* all of them are under review */
            goes = n;
        goes->kind = FREE;
        if (goes == n)
            return;
    }
    n->kind = kind;
    n->access = verdict;
    n->under_way = false;
    n->until_ms = now_ms + life_ms(verdict);
}

void access_table_decide(struct access_table *t, size_t entry, enum access verdict, int64_t now_ms)
{
    assert(entry < ACCESS_MAX && t->entries[entry].under_way);
    decide_entry(t, &t->entries[entry], verdict, now_ms);
    for (size_t i = 0; verdict == ACCESS_UNKNOWN && i < ACCESS_MAX; i++)
        if (t->entries[i].kind == NEW && !t->entries[i].under_way)
            decide_entry(t, &t->entries[i], verdict, now_ms);
}

bool access_table_is_pending(const struct access_table *t, size_t entry)
{
    return t->entries[entry].kind != FREE && t->entries[entry].access == ACCESS_PENDING;
}

struct access_table *access_table_free(struct access_table *t)
{
    free(t);
    return NULL;
}
