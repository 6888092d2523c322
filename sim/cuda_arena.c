/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/cuda_arena.h"

#include <search.h>
#include <stdlib.h>
#include <sys/mman.h>

#define GRANULE   (UINT64_C(2) << 20U)
#define ALIGNMENT UINT64_C(512)
#define LARGE     (GRANULE / 2)

/* A run of granules. */
struct block {
    struct block *next, **before; /* in its arena */
    char *base;
    uint64_t bytes, filled;
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

/* All of the process, by their addresses. Guarded by the contexts' lock. */
static void *by_address;

/* Equal where they overlap. */
static int compare(const void *a, const void *b)
{
    const struct allocation *x = a;
    const struct allocation *y = b;
    if (x->base + x->bytes <= y->base)
        return -1;
    return y->base + y->bytes <= x->base;
}

struct allocation *arena_find(CUdeviceptr pointer)
{
    struct allocation key = {.base = pointer, .bytes = 1};
    struct allocation *const *found = tfind(&key, &by_address, compare);
    return found != NULL ? *found : NULL;
}

uint64_t arena_round_up(uint64_t bytes, uint64_t unit)
{
    return (bytes + unit - 1) / unit * unit;
}

static CUresult new_block(struct arena *arena, uint64_t bytes, struct block **ret)
{
    const struct cuda_device *d = arena->device;
    CUresult rc = cuda_reserve(d, bytes, 0);
    if (rc != CUDA_SUCCESS)
        return rc;
    struct block *b = calloc(1, sizeof(*b));
    void *at = mmap(/* addr= */ NULL, bytes, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, /* fd= */ -1, 0);
    if (b == NULL || at == MAP_FAILED) {
        free(b);
        if (at != MAP_FAILED)
            (void)munmap(at, bytes);
        cuda_give_back(d, bytes, 0);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    *b = (struct block){.base = at, .bytes = bytes};
    LINK(&arena->blocks, b);
    *ret = b;
    return CUDA_SUCCESS;
}

static void end_block(struct arena *arena, struct block *b)
{
    UNLINK(b);
    (void)munmap(b->base, b->bytes);
    cuda_give_back(arena->device, b->bytes, 0);
    free(b);
}

static CUresult find_block(struct arena *arena, uint64_t bytes, struct block **ret)
{
    if (bytes > LARGE)
        return new_block(arena, arena_round_up(bytes, GRANULE), ret);
    for (struct block *b = arena->blocks; b != NULL; b = b->next) {
        *ret = b;
        if (b->bytes - b->filled >= bytes)
            return CUDA_SUCCESS;
    }
    return new_block(arena, GRANULE, ret);
}

CUresult arena_allocate(struct arena *arena, size_t bytes, CUdeviceptr *ret)
{
    if (ret == NULL || bytes == 0)
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
    *a = (struct allocation){.arena = arena,
                             .block = block,
                             .base = (CUdeviceptr)(uintptr_t)(block->base + block->filled),
                             .bytes = bytes};
    LINK(&arena->allocations, a);
    block->filled = bytes > LARGE ? block->bytes : block->filled + arena_round_up(bytes, ALIGNMENT);
    block->pieces++;
    (void)tsearch(a, &by_address, compare);
    *ret = a->base;
    return CUDA_SUCCESS;
}

void arena_free(struct allocation *a)
{
    UNLINK(a);
    (void)tdelete(a, &by_address, compare);
    if (--a->block->pieces == 0)
        end_block(a->arena, a->block);
    free(a);
}

void arena_free_all(struct arena *arena)
{
    while (arena->allocations != NULL)
        arena_free(arena->allocations);
}
