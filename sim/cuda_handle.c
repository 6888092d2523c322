/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/cuda_handle.h"

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#define MAX_HANDLES (UINT32_C(1) << 22U)

/* A handle is made of its entry's number, the entry's generation, and its kind. */
#define KIND_SHIFT       4U
#define INDEX_SHIFT      8U
#define GENERATION_SHIFT 32U
#define INDEX_MASK       UINT64_C(0xFFFFFF)
#define GENERATION_MASK  UINT32_C(0xFFFFFF)

struct entry {
    void *object; /* NULL: free */
    uint32_t generation;
    uint32_t next_free; /* + 1; 0: none */
    enum handle_kind kind;
};

static struct {
    struct entry *entries;
    uint32_t count, room;
    uint32_t free; /* + 1; 0: none */
} table;

static uint64_t name_of(uint32_t i)
{
    const struct entry *e = &table.entries[i];
    return ((uint64_t)e->generation << GENERATION_SHIFT) | ((uint64_t)i << INDEX_SHIFT) |
           ((uint64_t)e->kind << KIND_SHIFT);
}

static struct entry *grow(void)
{
    if (table.count == table.room) {
        uint32_t room = table.room > 0 ? table.room * 2 : 64;
        struct entry *more =
            room <= MAX_HANDLES ? realloc(table.entries, room * sizeof(*more)) : NULL;
        if (more == NULL)
            return NULL;
        table.entries = more;
        table.room = room;
    }
    table.entries[table.count] = (struct entry){0};
    return &table.entries[table.count++];
}

static struct entry *take_free(void)
{
    if (table.free == 0)
        return grow();
    struct entry *e = &table.entries[table.free - 1];
    table.free = e->next_free;
    return e;
}

void *handle_new(enum handle_kind kind, void *object)
{
    struct entry *e = take_free();
    if (e == NULL)
        return NULL;
    e->object = object;
    e->kind = kind;
    e->generation = e->generation % GENERATION_MASK + 1;
    return (void *)(uintptr_t)name_of((uint32_t)(e - table.entries));
}

static struct entry *find(const void *handle)
{
    uint64_t name = (uintptr_t)handle;
    uint64_t i = name >> INDEX_SHIFT & INDEX_MASK;
    if (i >= table.count || table.entries[i].object == NULL || name_of((uint32_t)i) != name)
        return NULL;
    return &table.entries[i];
}

void *handle_find(enum handle_kind kind, const void *handle)
{
    const struct entry *e = find(handle);
    return e != NULL && e->kind == kind ? e->object : NULL;
}

void handle_end(const void *handle)
{
    struct entry *e = find(handle);
    if (e == NULL)
        return;
    e->object = NULL;
    e->next_free = table.free;
    table.free = (uint32_t)(e - table.entries) + 1;
}
