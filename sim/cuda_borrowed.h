/* SPDX-License-Identifier: Apache-2.0 */
/* Memory that another process allocated, at an address of this process. Guarded by the contexts'
 * lock. */
#pragma once

#include "sim/cuda_chunk.h"
#include "sim/cuda_range.h"

/* Where it is: what its owner says of it, which need not be true. */
struct loan {
    struct shared_name name; /* of the chunk */
    uint64_t chunk_offset;   /* in the file */
    uint64_t offset, bytes;  /* in the chunk */
};

/* The beginning of a struct of whoever borrowed it. */
struct borrowed {
    struct range range;
    struct chunk *chunk;
    char *base; /* of the chunk */
};

/*
 * Borrows: INVALID_HANDLE when the owner has the memory no more, INVALID_DEVICE when this process does
 * not see its card, MAP_FAILED when it cannot be had. The file is the one that the loan speaks of; with
 * NULL that of the owner's process behind the descriptor `fd`. Kind and context are in b->range.
 */
CUresult borrowed_open(struct borrowed *b, const struct loan *loan, struct store_file *file,
                       int fd);

/* Gives it back. */
void borrowed_close(struct borrowed *b);
