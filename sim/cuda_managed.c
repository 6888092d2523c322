/* SPDX-License-Identifier: Apache-2.0 */
/*
 * CUDA: managed memory. Contracts are the driver API's own.
 *
 * Assumed: all of it is on the card of the context that it was made in, from the beginning, and
 * stays there; a driver moves pages to where they are touched. So advice and prefetches change
 * nothing, and managed memory cannot be more than the card has room for.
 */
#include <stdlib.h>

#include "sim/cuda_work.h"

static CUresult allocate(struct cuda_context *context, size_t bytes, unsigned int flags,
                         CUdeviceptr *ret)
{
    struct allocation *a = NULL;
    if (ret == NULL || (flags != CU_MEM_ATTACH_GLOBAL && flags != CU_MEM_ATTACH_HOST))
        return CUDA_ERROR_INVALID_VALUE;
    CUresult rc = arena_allocate(&context->arena, RANGE_MANAGED, bytes, &a);
    if (rc == CUDA_SUCCESS)
        *ret = a->range.base;
    return rc;
}

CUresult cuMemAllocManaged(CUdeviceptr *pointer, size_t bytes, unsigned int flags)
{
    struct cuda_call c = {.id = CALL_cuMemAllocManaged};
    struct cuda_context *context = NULL;
    CUresult rc = context_enter(&c, &context);
    if (rc == CUDA_SUCCESS)
        rc = allocate(context, bytes, flags, pointer);
    cuda_args(&c, "%zu", bytes);
    return context_leave(&c, context, rc);
}

/* --- Where it is to be --- */

static CUmemLocation location_of(CUdevice device)
{
    return device == CU_DEVICE_CPU
               ? (CUmemLocation){.type = CU_MEM_LOCATION_TYPE_HOST}
               : (CUmemLocation){.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device};
}

static bool is_managed(CUdeviceptr pointer, size_t bytes)
{
    const struct range *r = range_find(pointer);
    return bytes > 0 && r != NULL && r->kind == RANGE_MANAGED &&
           range_allows(pointer, bytes, /* writes= */ false);
}

static CUresult check_location(const CUmemLocation *l)
{
    if (l->type == CU_MEM_LOCATION_TYPE_DEVICE)
        return l->id >= 0 && l->id < cuda_device_count() ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
    bool is_host =
        l->type >= CU_MEM_LOCATION_TYPE_HOST && l->type <= CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT;
    return is_host ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

static CUresult check_advice(int advice, const CUmemLocation *l)
{
    switch (advice) {
    case CU_MEM_ADVISE_SET_READ_MOSTLY:
    case CU_MEM_ADVISE_UNSET_READ_MOSTLY:
    case CU_MEM_ADVISE_UNSET_PREFERRED_LOCATION:
        return CUDA_SUCCESS;
    case CU_MEM_ADVISE_SET_ACCESSED_BY:
    case CU_MEM_ADVISE_UNSET_ACCESSED_BY:
        if (l->type > CU_MEM_LOCATION_TYPE_HOST)
            return CUDA_ERROR_INVALID_VALUE;
        return check_location(l);
    case CU_MEM_ADVISE_SET_PREFERRED_LOCATION:
        return check_location(l);
    default:
        return CUDA_ERROR_INVALID_VALUE;
    }
}

static CUresult advise(unsigned int call, CUdeviceptr pointer, size_t bytes, int advice,
                       CUmemLocation location)
{
    struct cuda_call c = {.id = call};
    CUresult rc = cuda_enter(&c);
    context_lock();
    if (rc == CUDA_SUCCESS && !is_managed(pointer, bytes))
        rc = CUDA_ERROR_INVALID_VALUE;
    context_unlock();
    if (rc == CUDA_SUCCESS)
        rc = check_advice(advice, &location);
    return cuda_leave(&c, rc);
}

CUresult cuMemAdvise(CUdeviceptr pointer, size_t bytes, int advice, CUdevice device)
{
    return advise(CALL_cuMemAdvise, pointer, bytes, advice, location_of(device));
}

CUresult cuMemAdvise_v2(CUdeviceptr pointer, size_t bytes, int advice, CUmemLocation location)
{
    return advise(CALL_cuMemAdvise_v2, pointer, bytes, advice, location);
}

static CUresult submit_nothing(struct stream *s)
{
    struct work_item *item = calloc(1, sizeof(*item));
    if (item == NULL)
        return CUDA_ERROR_OUT_OF_MEMORY;
    item->kind = WORK_INSTANT;
    return work_submit(s, item);
}

static CUresult prefetch(unsigned int call, CUdeviceptr pointer, size_t bytes,
                         CUmemLocation location, CUstream stream)
{
    struct cuda_call c = {.id = call};
    struct cuda_context *context = NULL;
    struct stream *s = NULL;
    CUresult rc = work_enter(&c, stream, &context, &s);
    if (rc == CUDA_SUCCESS && !is_managed(pointer, bytes))
        rc = CUDA_ERROR_INVALID_VALUE;
    if (rc == CUDA_SUCCESS)
        rc = check_location(&location);
    if (rc == CUDA_SUCCESS)
        rc = submit_nothing(s);
    return context_leave(&c, context, rc);
}

CUresult cuMemPrefetchAsync(CUdeviceptr pointer, size_t bytes, CUdevice device, CUstream stream)
{
    return prefetch(CALL_cuMemPrefetchAsync, pointer, bytes, location_of(device), stream);
}

CUresult cuMemPrefetchAsync_ptsz(CUdeviceptr pointer, size_t bytes, CUdevice device,
                                 CUstream stream)
{
    return prefetch(CALL_cuMemPrefetchAsync_ptsz, pointer, bytes, location_of(device),
                    work_own_stream(stream));
}

/* Flags are for later versions. */
CUresult cuMemPrefetchAsync_v2(CUdeviceptr pointer, size_t bytes, CUmemLocation location,
                               unsigned int flags, CUstream stream)
{
    return prefetch(CALL_cuMemPrefetchAsync_v2, pointer, flags == 0 ? bytes : 0, location, stream);
}

CUresult cuMemPrefetchAsync_v2_ptsz(CUdeviceptr pointer, size_t bytes, CUmemLocation location,
                                    unsigned int flags, CUstream stream)
{
    return prefetch(CALL_cuMemPrefetchAsync_v2_ptsz, pointer, flags == 0 ? bytes : 0, location,
                    work_own_stream(stream));
}
