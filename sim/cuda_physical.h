/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Physical memory: a chunk with a handle and without an address, until it is mapped. It stays as long
 * as it has handles or uses (mappings, bindings). It is of no context.
 *
 * Guarded by the contexts' lock.
 */
#pragma once

#include "sim/cuda_chunk.h"
#include "sim/cuda_multicast.h"

struct physical {
    void *handle;
    unsigned int retained; /* how often its handle must be released; 0: it is mapped still */
    unsigned int uses;
    CUmemAllocationProp prop;
    uint64_t bytes, id;
    struct chunk *chunk;
    struct multicast *multicast; /* of an object of which the chunk only stands for the addresses */
};

/* Gives a handle to a chunk, of which the holder is the callee from now on whatever it returns. NULL:
 * there is no memory. */
struct physical *physical_new(const CUmemAllocationProp *prop, struct chunk *chunk);

/* The memory of a handle that was not released yet, or NULL. */
struct physical *physical_find(CUmemGenericAllocationHandle handle);

/* One use more, and one less. */
void physical_use(struct physical *p);
void physical_let_go(struct physical *p);
