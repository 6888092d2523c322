/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/cuda_range.h"

#include <search.h>
#include <stddef.h>

/* By their addresses. */
static void *ranges;
static uint64_t last_id;

/* Equal where they overlap. */
static int compare(const void *a, const void *b)
{
    const struct range *x = a;
    const struct range *y = b;
    if (x->base + x->bytes <= y->base)
        return -1;
    return y->base + y->bytes <= x->base;
}

uint64_t range_new_id(void)
{
    return ++last_id;
}

bool range_add(struct range *r)
{
    if (tsearch(r, &ranges, compare) == NULL)
        return false;
    r->id = range_new_id();
    return true;
}

void range_remove(struct range *r)
{
    (void)tdelete(r, &ranges, compare);
}

static struct range *find(CUdeviceptr pointer, size_t bytes)
{
    const struct range key = {.base = pointer, .bytes = bytes};
    struct range *const *found =
        bytes <= UINT64_MAX - pointer ? tfind(&key, &ranges, compare) : NULL;
    return found != NULL ? *found : NULL;
}

struct range *range_find(CUdeviceptr pointer)
{
    return find(pointer, 1);
}

bool range_overlaps(CUdeviceptr pointer, size_t bytes)
{
    return find(pointer, bytes) != NULL;
}

static bool allows(const struct range *r, bool writes)
{
    return r->access == RANGE_ALL_ACCESS || (r->access == RANGE_READ_ACCESS && !writes);
}

bool range_allows(CUdeviceptr pointer, size_t bytes, bool writes)
{
    const struct range *r = range_find(pointer);
    while (r != NULL && allows(r, writes)) {
        size_t there = r->bytes - (pointer - r->base);
        if (bytes <= there)
            return true;
        pointer += there;
        bytes -= there;
        r = r->kind == RANGE_MAPPED ? range_find(pointer) : NULL;
        if (r != NULL && r->kind != RANGE_MAPPED)
            return false;
    }
    return false;
}
