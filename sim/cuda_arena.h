/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory of one context on its card.
 *
 * What is larger than half a granule has granules of its own; smaller pieces share one, as long as
 * it has room at its end. Behind an address is memory of the process, which the system fills in
 * where it is written.
 *
 * All arenas of the process are guarded by the contexts' lock (cuda_context.h).
 */
#pragma once

#include "sim/cuda_range.h"
#include "sim/cuda_session.h"
#include "sim/cuda_shared.h"

struct block;
struct chunk;
struct cuda_context;

struct allocation {
    struct range range;
    struct allocation *next, **before; /* in its arena */
    struct arena *arena;
    struct block *block;
    struct shared_name token; /* of linear memory that was exported (cuda_ipc.c) */
};

struct arena {
    CUdevice ordinal;
    const struct cuda_device *device; /* of that ordinal */
    struct cuda_context *context;
    bool is_low; /* its addresses are of 32 bits */
    struct allocation *allocations;
    struct block *blocks;
};

/* Allocates; INVALID_VALUE for no bytes, OUT_OF_MEMORY where the card has no room. */
CUresult arena_allocate(struct arena *arena, enum range_kind kind, size_t bytes,
                        struct allocation **ret);

/* The chunk that it is in, and where. */
struct chunk *arena_chunk_of(const struct allocation *a, uint64_t *ret_offset);

/* Ends an allocation. */
void arena_free(struct allocation *a);

/* Ends all of an arena. */
void arena_free_all(struct arena *arena);

/* The next multiple of a unit. */
uint64_t arena_round_up(uint64_t bytes, uint64_t unit);
