/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory that the driver keeps for a process: pools of stream-ordered allocations, and that of
 * graphs. What the driver has reserved is what counts, whoever has a part of it at the moment. It
 * lets go of some when streams are synchronised, and tells nobody: what is taken of the share is
 * settled before it is told, and before something is refused.
 */
#pragma once

#include <stdbool.h>

#include "limiter/cuda_abi.h"

/* Brings what is taken of the share to what is reserved now. */
void pools_settle(void);

/* Takes room for a graph's memory nodes before it is launched; until pools_graph_end, which takes the
 * same, it is there for nobody else. False: there is none. */
struct pools_graph {
    CUdevice device;
    int card;
    uint64_t bytes;
};
bool pools_graph_begin(const struct pools_graph *g);
void pools_graph_end(const struct pools_graph *g);

/* --- One at a time: between lock and unlock, and the real call with them, so that what is settled
 * is what it did --- */

struct pool;
void pools_lock(void);
void pools_unlock(void);

/* The pool with this handle; that from which a stream allocates. NULL, in *ret: of no handle, as the
 * call will say. Else an error, or OUT_OF_MEMORY where there are too many. */
CUresult pools_known(CUmemoryPool handle, struct pool **ret);
CUresult pools_of_stream(CUstream stream, struct pool **ret);

/* One was made; device -1: it is of none, or another process counts it. False: there are too many
 * that count. */
bool pools_add(CUmemoryPool handle, CUdevice device);
/* It was destroyed; what is still allocated of it goes on. */
void pools_destroyed(CUmemoryPool handle);

/* Before and after an allocation of a pool; pool NULL: it is not counted. False: there is no room. */
bool pools_begin(struct pool *p, uint64_t bytes);
/* It has reserved too much: the allocation has to be undone. */
bool pools_end(struct pool *p);
void pools_allocated(struct pool *p, CUdeviceptr pointer, uint64_t bytes);

/* --- --- */

/* Begins to free one of their allocations, which pools_free_end ends; that returns rc. False: it is
 * none of theirs. */
struct pools_free {
    uint64_t pool, pointer, bytes;
};
bool pools_free_begin(struct pools_free *f, CUdeviceptr pointer);
CUresult pools_free_end(const struct pools_free *f, CUresult rc);
