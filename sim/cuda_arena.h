/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Device memory of one context.
 *
 * A card's memory comes in granules of 2 MiB. What is larger has granules of its own; smaller
 * pieces share one, as long as it has room at its end. Behind an address is memory of the process,
 * which the system fills in where it is written.
 *
 * All arenas of the process are guarded by the contexts' lock (cuda_context.h).
 */
#pragma once

#include "sim/cuda_session.h"

struct block;

struct allocation {
    struct allocation *next, **before; /* in its arena */
    struct arena *arena;
    struct block *block;
    CUdeviceptr base;
    size_t bytes;
    bool is_module; /* a module's, which ends with it alone */
};

struct arena {
    const struct cuda_device *device;
    struct allocation *allocations;
    struct block *blocks;
};

/* Allocates; INVALID_VALUE for no bytes, OUT_OF_MEMORY where the card has no room. */
CUresult arena_allocate(struct arena *arena, size_t bytes, CUdeviceptr *ret);

/* The allocation of this process that an address lies in, of whichever arena; NULL when there is
 * none. */
struct allocation *arena_find(CUdeviceptr pointer);

/* Ends an allocation, which arena_find has found. */
void arena_free(struct allocation *a);

/* Ends all of an arena. */
void arena_free_all(struct arena *arena);

/* The next multiple of a unit. */
uint64_t arena_round_up(uint64_t bytes, uint64_t unit);
