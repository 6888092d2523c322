/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The addresses behind which this process has memory of cards, or managed memory. Memory of the host
 * alone is not here (cuda_host.h).
 *
 * A range is the beginning of a struct of whoever made it. Guarded by the contexts' lock.
 */
#pragma once

#include <stdbool.h>

#include "sim/cuda.h"

struct cuda_context;

enum range_kind {
    RANGE_LINEAR, /* of cuMemAlloc and its like */
    RANGE_MODULE, /* ends with its module alone */
    RANGE_HIDDEN, /* of arrays: no range is known at its addresses */
    RANGE_MANAGED,
    RANGE_POOL,
    RANGE_MAPPED,   /* physical memory */
    RANGE_OPENED,   /* linear memory of another process */
    RANGE_BUFFER,   /* memory of a graphics library */
    RANGE_IMPORTED, /* memory of another process's pool */
    RANGE_GRAPH,    /* that a node of a graph allocates */
};

/* What copies may do there. */
enum range_access { RANGE_ALL_ACCESS, RANGE_READ_ACCESS, RANGE_NO_ACCESS };

struct range {
    CUdeviceptr base;
    size_t bytes;
    enum range_kind kind;
    enum range_access access;
    CUdevice device;              /* CU_DEVICE_CPU: its memory is the host's */
    struct cuda_context *context; /* NULL: of none */
    uint64_t id;                  /* given by range_add; no other range has had it */
    bool is_synchronous;          /* CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, which changes nothing here */
    void (*free)(struct range *); /* what cuMemFree does with it; NULL: it refuses */
};

/* A number that no range has had, and none will have. */
uint64_t range_new_id(void);

/* They overlap no other range. False: there is no memory. */
bool range_add(struct range *r);
void range_remove(struct range *r);

/* The range that an address lies in, or NULL. */
struct range *range_find(CUdeviceptr pointer);

/* Does any range have one of these bytes? */
bool range_overlaps(CUdeviceptr pointer, size_t bytes);

/* True when all of these bytes may be read, and written if `writes`, and are one range's, or those of
 * mapped ranges one behind the other. */
bool range_allows(CUdeviceptr pointer, size_t bytes, bool writes);
