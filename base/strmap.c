/* SPDX-License-Identifier: Apache-2.0 */
#include "base/strmap.h"

#include <assert.h>
#include <stdint.h>
#include <string.h>

#include "base/fnv1a.h"
#include "base/rng.h"
#include "base/xalloc.h"

/* free: key NULL. removed: key NULL, value TOMB. */
struct entry {
    char *key;
    void *value;
    uint64_t hash;
};

struct strmap {
    struct entry *entries;
    size_t room; /* a power of two, or 0 */
    size_t count;
    size_t used; /* entries and tombstones */
    uint64_t seed;
};

static char tomb;
#define TOMB     ((void *)&tomb)
#define MIN_ROOM 8

struct strmap *strmap_new(void)
{
    struct strmap *m = xmalloc(sizeof(*m));
    struct rng rng;
    rng_init_random(&rng);
    m->seed = rng_next(&rng);
    return m;
}

/* FNV-1a leaves its high bits poorly mixed for short keys; a multiplication and a fold correct
 * that. */
static uint64_t hash_of(const struct strmap *m, const char *key)
{
    uint64_t h = fnv1a(m->seed, key, strlen(key));
    h = (h ^ (h >> 32)) * (m->seed | 1);
    return h ^ (h >> 29);
}

static struct entry *find_entry(const struct strmap *m, const char *key)
{
    if (!m->count)
        return NULL;
    uint64_t hash = hash_of(m, key);
    for (size_t i = hash;; i++) {
        struct entry *at = &m->entries[i & (m->room - 1)];
        if (at->key && at->hash == hash && strcmp(at->key, key) == 0)
            return at;
        if (!at->key && !at->value)
            return NULL;
    }
}

void *strmap_get(const struct strmap *m, const char *key)
{
    const struct entry *at = find_entry(m, key);
    return at ? at->value : NULL;
}

/* Inserts an entry whose key is not in the map; there is room. */
static void insert_entry(struct strmap *m, const struct entry *e)
{
    size_t i = e->hash & (m->room - 1);
    while (m->entries[i].key)
        i = (i + 1) & (m->room - 1);
    m->used += m->entries[i].value ? 0 : 1;
    m->entries[i] = *e;
    m->count++;
}

static void rehash(struct strmap *m, size_t room)
{
    struct entry *old = m->entries;
    size_t old_room = m->room;
    m->entries = xcalloc(room, sizeof(*m->entries));
    m->room = room;
    m->count = m->used = 0;
    for (size_t i = 0; i < old_room; i++)
        if (old[i].key)
            insert_entry(m, &old[i]);
    free(old);
}

/* Keeps a quarter of the entries free. A map full of tombstones is rehashed at its size. */
static void make_room(struct strmap *m)
{
    if (!m->room)
        rehash(m, MIN_ROOM);
    else if (4 * (m->used + 1) > 3 * m->room)
        rehash(m, 2 * m->count >= m->room ? 2 * m->room : m->room);
}

void *strmap_put(struct strmap *m, const char *key, void *value)
{
    assert(value);
    struct entry *at = find_entry(m, key);
    if (at) {
        void *before = at->value;
        at->value = value;
        return before;
    }
    make_room(m);
    insert_entry(m, &(struct entry){.key = xstrdup(key), .value = value, .hash = hash_of(m, key)});
    return NULL;
}

void *strmap_remove(struct strmap *m, const char *key)
{
    struct entry *at = find_entry(m, key);
    if (!at)
        return NULL;
    void *value = at->value;
    free(at->key);
    *at = (struct entry){.value = TOMB};
    m->count--;
    return value;
}

size_t strmap_count(const struct strmap *m)
{
    return m->count;
}

bool strmap_next(const struct strmap *m, size_t *pos, const char **ret_key, void **ret_value)
{
    while (*pos < m->room) {
        const struct entry *at = &m->entries[(*pos)++];
        if (!at->key)
            continue;
        *ret_key = at->key;
        *ret_value = at->value;
        return true;
    }
    return false;
}

struct strmap *strmap_free(struct strmap *m)
{
    if (!m)
        return NULL;
    for (size_t i = 0; i < m->room; i++)
        free(m->entries[i].key);
    free(m->entries);
    free(m);
    return NULL;
}
