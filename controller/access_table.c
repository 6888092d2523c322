/* SPDX-License-Identifier: Apache-2.0 */
#include "controller/access_table.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/xalloc.h"

/* What an entry counts as. */
enum kind { FREE, NEW, GOOD, BAD };

struct entry {
    enum kind kind; /* GOOD: was allowed at its last review; BAD: was not; NEW: had none */
    struct access_key key;
    enum access access;
    uint32_t peer;    /* NEW: where it came from */
    bool under_way;   /* given out by access_table_next */
    uint64_t turn;    /* of those in line the least is next */
    int64_t until_ms; /* unless ACCESS_PENDING */
};

/* How many new tokens may be let in, in thousandths, and when it was counted. */
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

static struct entry *find(const struct access_table *t, const struct access_key *key)
{
    for (size_t i = 0; i < ACCESS_MAX; i++)
        if (t->entries[i].kind != FREE && memcmp(&t->entries[i].key, key, sizeof(*key)) == 0)
            return (struct entry *)(uintptr_t)&t->entries[i];
    return NULL;
}

static size_t count(const struct access_table *t, enum kind kind)
{
    size_t n = 0;
    for (size_t i = 0; i < ACCESS_MAX; i++)
        n += t->entries[i].kind == kind;
    return n;
}

/* The decided one of this kind that runs out first; NULL: none. */
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

/* The kinds' bounds add up to the table's: there is one. */
static struct entry *free_entry(struct access_table *t)
{
    struct entry *n = t->entries;
    while (n->kind != FREE)
        n++;
    assert(n < t->entries + ACCESS_MAX);
    return n;
}

/* --- New tokens --- */

static void fill(struct bucket *b, int64_t per_s, int64_t burst, int64_t now_ms)
{
    int64_t most = burst * 1000;
    int64_t passed_ms = now_ms - b->counted_ms;
    b->counted_ms = now_ms;
    b->milli = passed_ms > most / per_s ? most : b->milli + passed_ms * per_s;
    if (b->milli > most)
        b->milli = most;
}

/* Of an address that is not known, in the place of the one that was not seen for longest. */
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
    fill(own, ACCESS_PEER_PER_S, ACCESS_PEER_BURST, now_ms);
    fill(&t->all, ACCESS_NEW_PER_S, ACCESS_NEW_BURST, now_ms);
    if (own->milli < 1000 || new_ones_from(t, peer) >= ACCESS_MAX_NEW_OF_PEER)
        return false;
    if (t->all.milli < 1000 || count(t, NEW) >= ACCESS_MAX_NEW)
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
                             int64_t now_ms, size_t *ret_place, bool *ret_put)
{
    struct entry *n = find(t, key);
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
    *ret_place = (size_t)(n - t->entries);
    return ACCESS_PENDING;
}

enum access access_table_result(const struct access_table *t, const struct access_key *key)
{
    const struct entry *n = find(t, key);
    return n ? n->access : ACCESS_BUSY;
}

/* --- Reviews --- */

static bool is_before(const struct entry *a, const struct entry *b)
{
    return a->kind == b->kind ? a->turn < b->turn : a->kind == GOOD;
}

bool access_table_next(struct access_table *t, size_t *ret_place)
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
    *ret_place = (size_t)(first - t->entries);
    return true;
}

static int64_t life_ms(enum access verdict)
{
    if (verdict == ACCESS_ALLOWED)
        return ACCESS_ALLOWED_MS;
    return verdict == ACCESS_UNKNOWN ? ACCESS_UNKNOWN_MS : ACCESS_REFUSED_MS;
}

/* A token that was allowed, and of which nothing is known now, counts as before. */
static enum kind kind_after(const struct entry *n, enum access verdict)
{
    if (verdict == ACCESS_ALLOWED)
        return GOOD;
    return verdict == ACCESS_UNKNOWN && n->kind == GOOD ? GOOD : BAD;
}

static void settle(struct access_table *t, struct entry *n, enum access verdict, int64_t now_ms)
{
    enum kind kind = kind_after(n, verdict);
    size_t most = kind == GOOD ? ACCESS_MAX_ALLOWED : ACCESS_MAX_REFUSED;
    if (n->kind != kind && count(t, kind) == most) {
        struct entry *goes = first_out(t, kind);
        if (!goes) /* all of them are being reviewed again */
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

void access_table_decide(struct access_table *t, size_t place, enum access verdict, int64_t now_ms)
{
    assert(place < ACCESS_MAX && t->entries[place].under_way);
    settle(t, &t->entries[place], verdict, now_ms);
    for (size_t i = 0; verdict == ACCESS_UNKNOWN && i < ACCESS_MAX; i++)
        if (access_table_is_pending(t, i) && !t->entries[i].under_way)
            settle(t, &t->entries[i], verdict, now_ms);
}

bool access_table_is_pending(const struct access_table *t, size_t place)
{
    return t->entries[place].kind != FREE && t->entries[place].access == ACCESS_PENDING;
}

struct access_table *access_table_free(struct access_table *t)
{
    free(t);
    return NULL;
}
