/* SPDX-License-Identifier: Apache-2.0 */
/* CUDA: linear memory. Contracts are the driver API's own. */
#include "sim/cuda_room.h"
#include "sim/cuda_work.h"

#define PITCH       512
#define MAX_ELEMENT 16

CUresult cuMemGetInfo_v2(size_t *free, size_t *total)
{
    struct cuda_call c = {.id = CALL_cuMemGetInfo_v2};
    struct cuda_context *context = NULL;
    CUresult rc = context_enter(&c, &context);
    if (rc == CUDA_SUCCESS && (free == NULL || total == NULL))
        rc = CUDA_ERROR_INVALID_VALUE;
    if (rc == CUDA_SUCCESS)
        rc = cuda_room(cuda_device_at(context->device), free, total);
    return context_leave(&c, context, rc);
}

static CUresult allocate(struct cuda_context *context, size_t bytes, CUdeviceptr *ret)
{
    struct allocation *a = NULL;
    if (ret == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    CUresult rc = arena_allocate(&context->arena, RANGE_LINEAR, bytes, &a);
    if (rc == CUDA_SUCCESS)
        *ret = a->range.base;
    return rc;
}

CUresult cuMemAlloc_v2(CUdeviceptr *pointer, size_t bytes)
{
    struct cuda_call c = {.id = CALL_cuMemAlloc_v2};
    struct cuda_context *context = NULL;
    CUresult rc = context_enter(&c, &context);
    if (rc == CUDA_SUCCESS)
        rc = allocate(context, bytes, pointer);
    cuda_args(&c, "%zu", bytes);
    return context_leave(&c, context, rc);
}

static CUresult allocate_rows(struct cuda_context *context, CUdeviceptr *pointer, size_t *pitch,
                              size_t width, size_t height, unsigned int element_bytes)
{
    size_t bytes = 0;
    if (pitch == NULL || width == 0 || height == 0)
        return CUDA_ERROR_INVALID_VALUE;
    if (element_bytes != 4 && element_bytes != 8 && element_bytes != MAX_ELEMENT)
        return CUDA_ERROR_INVALID_VALUE;
    if (width > SIZE_MAX / 2)
        return CUDA_ERROR_OUT_OF_MEMORY;
    size_t row = arena_round_up(width, PITCH);
    if (__builtin_mul_overflow(row, height, &bytes))
        return CUDA_ERROR_OUT_OF_MEMORY;
    CUresult rc = allocate(context, bytes, pointer);
    if (rc == CUDA_SUCCESS)
        *pitch = row;
    return rc;
}

CUresult cuMemAllocPitch_v2(CUdeviceptr *pointer, size_t *pitch, size_t width, size_t height,
                            unsigned int element_bytes)
{
    struct cuda_call c = {.id = CALL_cuMemAllocPitch_v2};
    struct cuda_context *context = NULL;
    CUresult rc = context_enter(&c, &context);
    if (rc == CUDA_SUCCESS)
        rc = allocate_rows(context, pointer, pitch, width, height, element_bytes);
    return context_leave(&c, context, rc);
}

/* Memory is freed by the address where it begins, in whichever context; 0 is none, and no error. */
static CUresult free_at(CUdeviceptr pointer)
{
    struct range *r = range_find(pointer);
    if (pointer != 0 && (r == NULL || r->base != pointer || r->free == NULL))
        return CUDA_ERROR_INVALID_VALUE;
    if (r != NULL)
        r->free(r);
    return CUDA_SUCCESS;
}

static bool is_pooled(CUdeviceptr pointer)
{
    const struct range *r = range_find(pointer);
    return r != NULL &&
           (r->kind == RANGE_POOL || r->kind == RANGE_IMPORTED || r->kind == RANGE_GRAPH);
}

/* Waits for the context's work, as cudaFree is seen to do, unless the memory is a pool's or a graph's. */
CUresult cuMemFree_v2(CUdeviceptr pointer)
{
    struct cuda_call c = {.id = CALL_cuMemFree_v2};
    struct cuda_context *context = NULL;
    CUresult rc = context_enter(&c, &context);
    if (rc == CUDA_SUCCESS && !is_pooled(pointer))
        rc = work_wait_context(context);
    if (rc == CUDA_SUCCESS)
        rc = free_at(pointer);
    return context_leave(&c, context, rc);
}

CUresult cuMemGetAddressRange_v2(CUdeviceptr *base, size_t *bytes, CUdeviceptr pointer)
{
    struct cuda_call c = {.id = CALL_cuMemGetAddressRange_v2};
    struct cuda_context *context = NULL;
    CUresult rc = context_enter(&c, &context);
    const struct range *r = rc == CUDA_SUCCESS ? range_find(pointer) : NULL;
    if (rc == CUDA_SUCCESS && r == NULL)
        rc = CUDA_ERROR_NOT_FOUND;
    if (rc == CUDA_SUCCESS && base != NULL)
        *base = r->base;
    if (rc == CUDA_SUCCESS && bytes != NULL)
        *bytes = r->bytes;
    return context_leave(&c, context, rc);
}
