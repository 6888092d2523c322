/* SPDX-License-Identifier: Apache-2.0 */
#include "limiter/ledger.h"

#include <pthread.h>
#include <string.h>
#include <sys/mman.h>

enum { FIRST_SIZE = 1024 };
static struct ledger_entry first[FIRST_SIZE];

/*
 * A table with open addressing, in which one place at least is free. Its memory is mapped once it
 * needs more than the first: programs with an allocator of their own may be inside it when they
 * call CUDA.
 */
static struct {
    struct ledger_entry *at;
    size_t size; /* a power of two */
    size_t n;
} table = {.at = first, .size = FIRST_SIZE};

static pthread_mutex_t mu = PTHREAD_MUTEX_INITIALIZER;

static void forget_after_fork(void)
{
    (void)pthread_mutex_init(&mu, NULL);
    memset(first, 0, sizeof(first));
    table.at = first;
    table.size = FIRST_SIZE;
    table.n = 0;
}

__attribute__((constructor)) static void watch_forks(void)
{
    (void)pthread_atfork(/* prepare= */ NULL, /* parent= */ NULL, forget_after_fork);
}

static size_t first_place(unsigned int kind, uint64_t key)
{
    uint64_t mixed = (key ^ ((uint64_t)kind << 56U)) * UINT64_C(0x9e3779b97f4a7c15);
    return (size_t)(mixed >> 20U) & (table.size - 1);
}

static size_t next_place(size_t i)
{
    return (i + 1) & (table.size - 1);
}

static struct ledger_entry *find(unsigned int kind, uint64_t key)
{
    for (size_t i = first_place(kind, key); table.at[i].kind != 0; i = next_place(i)) {
        if (table.at[i].key == key && table.at[i].kind == kind)
            return &table.at[i];
    }
    return NULL;
}

static void insert(const struct ledger_entry *e)
{
    size_t i = first_place(e->kind, e->key);
    while (table.at[i].kind != 0)
        i = next_place(i);
    table.at[i] = *e;
    table.n++;
}

/* Without memory for more the table that there is fills up. */
static void grow(void)
{
    struct ledger_entry *old = table.at;
    size_t n = table.size, size = n * 2;
    void *at =
        mmap(NULL, size * sizeof(*old), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (at == MAP_FAILED)
        return;
    table.at = at;
    table.size = size;
    table.n = 0;
    for (size_t i = 0; i < n; i++) {
        if (old[i].kind != 0)
            insert(&old[i]);
    }
    if (old != first)
        (void)munmap(old, n * sizeof(*old));
}

/* What stands behind it moves up where it would not be found any more. */
static void erase(struct ledger_entry *e)
{
    size_t hole = (size_t)(e - table.at);
    e->kind = 0;
    table.n--;
    for (size_t i = next_place(hole); table.at[i].kind != 0; i = next_place(i)) {
        size_t home = first_place(table.at[i].kind, table.at[i].key);
        size_t away = (i - home) & (table.size - 1), reach = (i - hole) & (table.size - 1);
        if (away < reach)
            continue;
        table.at[hole] = table.at[i];
        table.at[i].kind = 0;
        hole = i;
    }
}

/* Locked. What a full table has no place for stays counted, for as long as the process lives. */
static void put(const struct ledger_entry *e)
{
    if (table.n * 2 >= table.size)
        grow();
    if (table.n + 1 < table.size)
        insert(e);
}

void ledger_put(const struct ledger_entry *e)
{
    (void)pthread_mutex_lock(&mu);
    put(e);
    (void)pthread_mutex_unlock(&mu);
}

bool ledger_join(const struct ledger_entry *e, bool (*has_ended)(uint64_t owner),
                 struct ledger_entry *ret_old)
{
    *ret_old = (struct ledger_entry){0};
    (void)pthread_mutex_lock(&mu);
    struct ledger_entry *there = find(e->kind, e->key);
    bool is_new = there == NULL || (there->owner != e->owner && has_ended(there->owner));
    if (there == NULL) {
        put(e);
    } else if (is_new) {
        *ret_old = *there;
        *there = *e;
    } else {
        there->holds += e->holds;
    }
    (void)pthread_mutex_unlock(&mu);
    return is_new;
}

bool ledger_take(enum ledger_kind kind, uint64_t key, struct ledger_entry *ret)
{
    (void)pthread_mutex_lock(&mu);
    struct ledger_entry *e = find(kind, key);
    bool found = e != NULL;
    if (found) {
        *ret = *e;
        erase(e);
    }
    (void)pthread_mutex_unlock(&mu);
    return found;
}

int ledger_hold(enum ledger_kind kind, uint64_t key, int more, struct ledger_entry *ret)
{
    int left = -1;
    (void)pthread_mutex_lock(&mu);
    struct ledger_entry *e = find(kind, key);
    if (e != NULL) {
        left = (int)e->holds + more;
        e->holds = (uint32_t)(left > 0 ? left : 0);
        *ret = *e;
        if (left <= 0)
            erase(e);
    }
    (void)pthread_mutex_unlock(&mu);
    return left;
}

void ledger_end(uint64_t owner, void (*fn)(const struct ledger_entry *e))
{
    (void)pthread_mutex_lock(&mu);
    for (size_t i = 0; i < table.size; i++) {
        /* Another entry may come to stand where one is erased. */
        while (table.at[i].kind != 0 && table.at[i].owner == owner) {
            fn(&table.at[i]);
            erase(&table.at[i]);
        }
    }
    (void)pthread_mutex_unlock(&mu);
}
