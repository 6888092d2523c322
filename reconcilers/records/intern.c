/* SPDX-License-Identifier: Apache-2.0 */
#include "reconcilers/records/intern.h"

#include <assert.h>
#include <pthread.h>
#include <stdint.h>
#include <string.h>

#include "base/auto.h"
#include "base/fnv1a.h"
#include "base/rng.h"
#include "base/xalloc.h"

#define MIN_ROOM 1024

struct shared {
    struct shared *next; /* chain in the same bucket */
    uint64_t hash;
    uint32_t refs, len;
    _Alignas(max_align_t) char bytes[];
};

/* Chained hashing with a random seed; grows when full. The only mutable global here. */
static struct {
    pthread_mutex_t mu;
    struct shared **buckets; /* all guarded by mu */
    size_t room, count;      /* room: a power of two, or 0 */
    uint64_t seed;
} pool = {.mu = PTHREAD_MUTEX_INITIALIZER};

static uint64_t hash_of(const char *bytes, size_t n)
{
    uint64_t h = fnv1a(pool.seed, bytes, n);
    return h ^ (h >> 32);
}

static void rehash(size_t room)
{
    assert(room > pool.count && (room & (room - 1)) == 0);
    struct shared **buckets = xcalloc(room, sizeof(*buckets));
    for (size_t i = 0; i < pool.room; i++) {
        while (pool.buckets[i]) {
            struct shared *v = pool.buckets[i];
            pool.buckets[i] = v->next;
            v->next = buckets[v->hash & (room - 1)];
            buckets[v->hash & (room - 1)] = v;
        }
    }
    free(pool.buckets);
    pool.buckets = buckets;
    pool.room = room;
}

static void make_room(void)
{
    struct rng rng;
    if (pool.count < pool.room)
        return;
    if (pool.room) {
        rehash(pool.room * 2);
        return;
    }
    rng_init_random(&rng);
    pool.seed = rng_next(&rng);
    rehash(MIN_ROOM);
}

static struct shared *find(uint64_t hash, const void *bytes, size_t n)
{
    struct shared *v = pool.buckets[hash & (pool.room - 1)];
    while (v && (v->hash != hash || v->len != n || memcmp(v->bytes, bytes, n) != 0))
        v = v->next;
    return v;
}

static struct shared *add_value(uint64_t hash, const void *bytes, size_t n)
{
    struct shared *v = xmalloc(sizeof(*v) + n);
    v->hash = hash;
    v->len = (uint32_t)n;
    memcpy(v->bytes, bytes, n);
    v->next = pool.buckets[hash & (pool.room - 1)];
    pool.buckets[hash & (pool.room - 1)] = v;
    pool.count++;
    return v;
}

const void *intern_bytes(const void *bytes, size_t n)
{
    assert(n <= UINT32_MAX);
    HOLD(&pool.mu);
    make_room();
    uint64_t hash = hash_of(bytes, n);
    struct shared *v = find(hash, bytes, n);
    if (!v)
        v = add_value(hash, bytes, n);
    assert(v->refs < UINT32_MAX);
    v->refs++;
    return v->bytes;
}

const char *intern_text(const char *text)
{
    return text ? intern_bytes(text, strlen(text) + 1) : NULL;
}

/* The last value frees the table too, so that leak checkers find nothing. */
static void remove_value(struct shared *v)
{
    assert(pool.count > 0 && v->refs == 0);
    struct shared **at = &pool.buckets[v->hash & (pool.room - 1)];
    while (*at != v)
        at = &(*at)->next;
    *at = v->next;
    free(v);
    if (--pool.count)
        return;
    free(pool.buckets);
    pool.buckets = NULL;
    pool.room = 0;
}

void intern_drop(const void *shared)
{
    if (!shared)
        return;
    struct shared *v = (void *)((char *)(uintptr_t)shared - offsetof(struct shared, bytes));
    HOLD(&pool.mu);
    assert(v->refs);
    if (--v->refs == 0)
        remove_value(v);
}

size_t intern_count(void)
{
    HOLD(&pool.mu);
    return pool.count;
}
