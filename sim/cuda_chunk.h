/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A chunk: memory of a card in granules of 2 MiB, which this process has as long as somebody holds
 * it, and the bytes behind it. The card's room is taken with the chunk, and free with its end.
 *
 * A chunk that is shared can be another process's too, and stays taken as long as any has it.
 *
 * Guarded by the contexts' lock.
 */
#pragma once

#include "sim/cuda_room.h"
#include "sim/cuda_store.h"

#define CHUNK_GRANULE (UINT64_C(2) << 20U)

struct chunk {
    const struct cuda_device *device; /* NULL: it is the host's memory */
    uint64_t bytes;
    struct store store;
    unsigned int holders;
    struct shared_name name; /* of a shared one; zero: this process has it alone */
    struct chunk *next;      /* of those that are shared */
};

/* A chunk of whole granules, with one holder, in a file (NULL: the process's): OUT_OF_MEMORY where the
 * card has no room. */
CUresult chunk_new(const struct cuda_device *device, uint64_t bytes, struct store_file *file,
                   struct chunk **ret);

/* The same of bytes that are there; the part of a file is the callee's from now on. */
CUresult chunk_new_at(const struct cuda_device *device, struct store store, struct chunk **ret);

void chunk_hold(struct chunk *c);
void chunk_let_go(struct chunk *c);

/* All of its bytes, mapped where there are addresses, in the lowest 2 GiB if `low`; NULL: there are
 * none. address_release ends it. */
char *chunk_map(const struct chunk *c, bool low);

/* Shares a chunk of a card. False: no more can be shared. */
bool chunk_share(struct chunk *c);

/* This process's chunk of a name, or NULL. */
struct chunk *chunk_find(struct shared_name name);

/*
 * A chunk, with one holder, of shared memory that this process has been made a holder of (cuda_room.h),
 * or of memory of the host, which has no name. The part of a file is the callee's from now on. NULL:
 * there is no memory, and all is let go.
 */
struct chunk *chunk_of(const struct cuda_device *device, struct shared_name name,
                       struct store store);
