/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory that nodes of graphs allocate.
 *
 * Its addresses are there from the node on. Its bytes of the card are taken, for the executable graph, by
 * an upload or the first launch, and stay with it; what no graph needs any more stays reserved for others
 * until it is trimmed. Assumed: each allocation has whole granules of its own, which it shares with no other
 * one. Behind the addresses are bytes of the host all the time.
 *
 * What its own graph does not free, a launch gives to the program, which frees it.
 *
 * Guarded by the contexts' lock.
 */
#pragma once

#include "sim/cuda_chunk.h"
#include "sim/cuda_range.h"

struct graph_memory {
    struct range range; /* RANGE_GRAPH; its `free` is there while the program has it */
    struct graph_memory *next;
    unsigned int refs; /* nodes, and what the program or a stream has */
    struct chunk *behind;
    uint64_t bytes;    /* of the card */
    const void *owner; /* the handle of the graph whose node allocates it */
    bool frees_itself; /* a node of that graph frees it, ... */
    bool freed_by_other;
    bool has_exec; /* the one executable graph that can be made of it */
    bool has_bytes;
    unsigned int busy; /* launches, and frees in streams, that are not over */
};

/* New memory, with one reference: INVALID_VALUE for no bytes, OUT_OF_MEMORY. */
CUresult memory_new(CUdevice device, uint64_t bytes, const void *owner, struct graph_memory **ret);
struct graph_memory *memory_ref(struct graph_memory *m);
void memory_unref(struct graph_memory *m);

/* The memory that begins there, or NULL. */
struct graph_memory *memory_find(CUdeviceptr pointer);

/* Notes that a node of a graph frees it. INVALID_VALUE: another one does. */
CUresult memory_add_free(struct graph_memory *m, const void *graph);

/* Takes the bytes of the card, if it has none: OUT_OF_MEMORY, DEVICE_UNAVAILABLE. */
CUresult memory_take_bytes(struct graph_memory *m);

/* A launch, or something else, keeps its bytes; and does so no more. */
void memory_begin_use(struct graph_memory *m);
void memory_end_use(struct graph_memory *m);

/* No executable graph is made of it any more. */
void memory_leave_exec(struct graph_memory *m);

/* Gives it to the program; has the program it? */
void memory_give(struct graph_memory *m);
bool memory_is_given(const struct graph_memory *m);

/* It is freed once a stream is there: who sees that calls memory_end_free. */
void memory_begin_free(struct graph_memory *m);
void memory_end_free(struct graph_memory *m);
