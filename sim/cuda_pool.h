/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pools of memory, from which streams allocate.
 *
 * A pool reserves memory of its card in slabs, and keeps what was freed until it is trimmed. A piece
 * of a slab that was freed in a stream's order is pending until the stream is there; until then only
 * that stream may have it again. Pools and their memory belong to no context.
 *
 * Guarded by the contexts' lock.
 */
#pragma once

#include "sim/cuda_borrowed.h"
#include "sim/cuda_chunk.h"
#include "sim/cuda_range.h"

struct stream;
struct slab;

enum piece_state { PIECE_FREE, PIECE_USED, PIECE_PENDING };

struct piece {
    struct range range; /* known as long as it is not free */
    struct slab *slab;
    struct piece *previous, *next; /* its neighbours, by address */
    uint64_t bytes;                /* rounded up */
    enum piece_state state;
    const struct stream *stream; /* of a pending one */
    uint64_t ticket;
    struct piece *later; /* pending after it, in whichever pool */
};

/* Memory of another process's pool: a range of RANGE_IMPORTED. */
struct imported {
    struct borrowed borrowed;
    struct pool *pool;
};

struct slab {
    struct slab *next;
    struct pool *pool;
    struct chunk *chunk;
    char *base;
    struct piece *first;
};

struct pool {
    struct pool *next;
    void *handle; /* NULL: it was destroyed, and goes with its last piece */
    CUmemPoolProps props;
    struct store_file *file; /* of a pool that can be exported, or was imported; else NULL */
    bool is_imported;
    const struct cuda_device *device; /* NULL: on the host */
    uint64_t threshold;
    uint64_t reserved, reserved_high, used, used_high;
    int reuses[3]; /* kept for who asks: memory is reused whenever it can be */
    int access[HW_MAX_GPUS];
    struct slab *slabs;
    unsigned int taken; /* pieces that are not free, and what was imported */
};

/* A new pool; NULL: there is no memory. Its properties are valid. With a file it is another
 * process's. */
struct pool *pool_new(const CUmemPoolProps *props, struct store_file *imported);

/* Ends its handle. */
void pool_end(struct pool *p);

/* The pool of a handle, or NULL. */
struct pool *pool_find(CUmemoryPool handle);

/* A device's default pool, made when it is first asked for, and its current one; NULL: there is no
 * memory. */
struct pool *pool_default(CUdevice device);
struct pool *pool_current(CUdevice device);
void pool_set_current(CUdevice device, struct pool *p);
bool pool_is_default(const struct pool *p);

/* Frees what was imported. */
void imported_free(struct imported *i);

/* What keeps a pool from its end, beside its pieces. */
void pool_hold(struct pool *p);
void pool_let_go(struct pool *p);

/* Takes bytes for use in a stream: OUT_OF_MEMORY; INVALID_VALUE in a pool that was imported. */
CUresult pool_take(struct pool *p, uint64_t bytes, const struct stream *s, struct piece **ret);

/* Frees a piece now. */
void pool_free(struct piece *piece);

/* Frees a piece once the stream is there: who sees that calls pool_redeem with the ticket. */
uint64_t pool_retire(struct piece *piece, const struct stream *s);
void pool_redeem(uint64_t ticket);

/* Gives back what is unused, as long as so many bytes stay reserved. */
void pool_trim(struct pool *p, uint64_t keep_bytes);

/* The same for all pools that have more than their thresholds: whoever waits for the card does it. */
void pool_trim_all(void);
