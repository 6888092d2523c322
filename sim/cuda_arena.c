/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/cuda_arena.h"

#include <stdlib.h>

#include "sim/cuda_address.h"
#include "sim/cuda_chunk.h"

#define ALIGNMENT UINT64_C(512)
#define LARGE     (CHUNK_GRANULE / 2)

/* A mapped chunk. */
struct block {
    struct block *next, **before; /* in its arena */
    struct chunk *chunk;
    char *base;
    uint64_t filled;
    unsigned int pieces;
};

/* Puts an element at the head of a list, and takes it out. */
#define LINK(list, element)                                                                        \
    do {                                                                                           \
        (element)->next = *(list);                                                                 \
        (element)->before = (list);                                                                \
        if (*(list) != NULL)                                                                       \
            (*(list))->before = &(element)->next;                                                  \
        *(list) = (element);                                                                       \
    } while (0)
#define UNLINK(element)                                                                            \
    do {                                                                                           \
        *(element)->before = (element)->next;                                                      \
        if ((element)->next != NULL)                                                               \
            (element)->next->before = (element)->before;                                           \
    } while (0)

uint64_t arena_round_up(uint64_t bytes, uint64_t unit)
{
    return (bytes + unit - 1) / unit * unit;
}

static CUresult new_block(struct arena *arena, uint64_t bytes, struct block **ret)
{
    struct block *b = calloc(1, sizeof(*b));
    CUresult rc = b != NULL ? chunk_new(arena->device, bytes, /* file= */ NULL, &b->chunk)
                            : CUDA_ERROR_OUT_OF_MEMORY;
    if (rc == CUDA_SUCCESS) {
        b->base = chunk_map(b->chunk, arena->is_low);
        if (b->base == NULL) {
            chunk_let_go(b->chunk);
            rc = CUDA_ERROR_OUT_OF_MEMORY;
        }
    }
    if (rc != CUDA_SUCCESS) {
        free(b);
        return rc;
    }
    LINK(&arena->blocks, b);
    *ret = b;
    return CUDA_SUCCESS;
}

static void end_block(struct block *b)
{
    UNLINK(b);
    address_release(b->base, b->chunk->bytes);
    chunk_let_go(b->chunk);
    free(b);
}

static CUresult find_block(struct arena *arena, uint64_t bytes, struct block **ret)
{
    if (bytes > LARGE)
        return new_block(arena, arena_round_up(bytes, CHUNK_GRANULE), ret);
    for (struct block *b = arena->blocks; b != NULL; b = b->next) {
        *ret = b;
        if (b->chunk->bytes - b->filled >= bytes)
            return CUDA_SUCCESS;
    }
    return new_block(arena, CHUNK_GRANULE, ret);
}

static void free_range(struct range *r)
{
    arena_free((struct allocation *)r);
}

static void take(struct arena *arena, struct block *block, struct allocation *a, size_t bytes,
                 enum range_kind kind)
{
    uint64_t rounded = arena_round_up(bytes, ALIGNMENT);
    *a = (struct allocation){.range = {.base = (uintptr_t)(block->base + block->filled),
                                       .bytes = bytes,
                                       .kind = kind,
                                       .device = arena->ordinal,
                                       .context = arena->context,
                                       .free = kind == RANGE_MODULE ? NULL : free_range},
                             .arena = arena,
                             .block = block};
    LINK(&arena->allocations, a);
    block->filled = rounded > LARGE ? block->chunk->bytes : block->filled + rounded;
    block->pieces++;
}

CUresult arena_allocate(struct arena *arena, enum range_kind kind, size_t bytes,
                        struct allocation **ret)
{
    if (bytes == 0)
        return CUDA_ERROR_INVALID_VALUE;
    if (bytes > SIZE_MAX / 2)
        return CUDA_ERROR_OUT_OF_MEMORY;
    struct block *block = NULL;
    struct allocation *a = calloc(1, sizeof(*a));
    CUresult rc = a != NULL ? find_block(arena, arena_round_up(bytes, ALIGNMENT), &block)
                            : CUDA_ERROR_OUT_OF_MEMORY;
    if (rc != CUDA_SUCCESS) {
        free(a);
        return rc;
    }
    take(arena, block, a, bytes, kind);
    if (kind != RANGE_HIDDEN && !range_add(&a->range)) {
        arena_free(a);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    *ret = a;
    return CUDA_SUCCESS;
}

struct chunk *arena_chunk_of(const struct allocation *a, uint64_t *ret_offset)
{
    *ret_offset = a->range.base - (uintptr_t)a->block->base;
    return a->block->chunk;
}

void arena_free(struct allocation *a)
{
    if (a->token.serial != 0)
        (void)cuda_let_go(a->token);
    UNLINK(a);
    if (a->range.kind != RANGE_HIDDEN)
        range_remove(&a->range);
    if (--a->block->pieces == 0)
        end_block(a->block);
    free(a);
}

void arena_free_all(struct arena *arena)
{
    while (arena->allocations != NULL)
        arena_free(arena->allocations);
}
