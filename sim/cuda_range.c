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

bool range_add(struct range *r)
{
    if (tsearch(r, &ranges, compare) == NULL)
        return false;
    r->id = ++last_id;
    return true;
}

void range_remove(struct range *r)
{
    (void)tdelete(r, &ranges, compare);
}

struct range *range_find(CUdeviceptr pointer)
{
    const struct range key = {.base = pointer, .bytes = 1};
    struct range *const *found = pointer != UINT64_MAX ? tfind(&key, &ranges, compare) : NULL;
    return found != NULL ? *found : NULL;
}

bool range_covers(CUdeviceptr pointer, size_t bytes)
{
    const struct range *r = range_find(pointer);
    return r != NULL && bytes <= r->bytes - (pointer - r->base);
}
