/* SPDX-License-Identifier: Apache-2.0 */
/* CUDA: linear memory, and copies. Contracts are the driver API's own. */
#include <string.h>

#include "sim/cuda_context.h"

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

CUresult cuMemAlloc_v2(CUdeviceptr *pointer, size_t bytes)
{
    struct cuda_call c = {.id = CALL_cuMemAlloc_v2};
    struct cuda_context *context = NULL;
    CUresult rc = context_enter(&c, &context);
    if (rc == CUDA_SUCCESS)
        rc = arena_allocate(&context->arena, bytes, pointer);
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
    CUresult rc = arena_allocate(&context->arena, bytes, pointer);
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

/* An allocation is freed by the address where it begins, in whichever context; 0 is none, and no
 * error. */
CUresult cuMemFree_v2(CUdeviceptr pointer)
{
    struct cuda_call c = {.id = CALL_cuMemFree_v2};
    struct cuda_context *context = NULL;
    CUresult rc = context_enter(&c, &context);
    struct allocation *a = rc == CUDA_SUCCESS ? arena_find(pointer) : NULL;
    if (rc == CUDA_SUCCESS && pointer != 0 && (a == NULL || a->base != pointer))
        rc = CUDA_ERROR_INVALID_VALUE;
    if (rc == CUDA_SUCCESS && a != NULL)
        arena_free(a);
    return context_leave(&c, context, rc);
}

CUresult cuMemGetAddressRange_v2(CUdeviceptr *base, size_t *bytes, CUdeviceptr pointer)
{
    struct cuda_call c = {.id = CALL_cuMemGetAddressRange_v2};
    struct cuda_context *context = NULL;
    CUresult rc = context_enter(&c, &context);
    const struct allocation *a = rc == CUDA_SUCCESS ? arena_find(pointer) : NULL;
    if (rc == CUDA_SUCCESS && a == NULL)
        rc = CUDA_ERROR_NOT_FOUND;
    if (rc == CUDA_SUCCESS && base != NULL)
        *base = a->base;
    if (rc == CUDA_SUCCESS && bytes != NULL)
        *bytes = a->bytes;
    return context_leave(&c, context, rc);
}

/* --- Copies: one at a time in a process --- */

/* The memory behind a range that lies in one allocation, or NULL. */
static void *memory_at(CUdeviceptr pointer, size_t bytes)
{
    const struct allocation *a = arena_find(pointer);
    if (a == NULL || bytes > a->bytes - (pointer - a->base))
        return NULL;
    return (void *)(uintptr_t)pointer;
}

enum { HOST_TO_DEVICE, DEVICE_TO_HOST, DEVICE_TO_DEVICE };

static CUresult copy(unsigned int call, int way, uint64_t to, uint64_t from, size_t bytes)
{
    struct cuda_call c = {.id = call};
    struct cuda_context *context = NULL;
    CUresult rc = context_enter(&c, &context);
    if (rc == CUDA_SUCCESS && bytes > 0) {
        void *target = way == DEVICE_TO_HOST ? (void *)(uintptr_t)to : memory_at(to, bytes);
        const void *source =
            way == HOST_TO_DEVICE ? (const void *)(uintptr_t)from : memory_at(from, bytes);
        if (target != NULL && source != NULL)
            memmove(target, source, bytes);
        else
            rc = CUDA_ERROR_INVALID_VALUE;
    }
    return context_leave(&c, context, rc);
}

CUresult cuMemcpyHtoD_v2(CUdeviceptr to, const void *from, size_t bytes)
{
    return copy(CALL_cuMemcpyHtoD_v2, HOST_TO_DEVICE, to, (uintptr_t)from, bytes);
}

CUresult cuMemcpyDtoH_v2(void *to, CUdeviceptr from, size_t bytes)
{
    return copy(CALL_cuMemcpyDtoH_v2, DEVICE_TO_HOST, (uintptr_t)to, from, bytes);
}

CUresult cuMemcpyDtoD_v2(CUdeviceptr to, CUdeviceptr from, size_t bytes)
{
    return copy(CALL_cuMemcpyDtoD_v2, DEVICE_TO_DEVICE, to, from, bytes);
}

CUresult cuMemsetD8_v2(CUdeviceptr to, unsigned char value, size_t count)
{
    struct cuda_call c = {.id = CALL_cuMemsetD8_v2};
    struct cuda_context *context = NULL;
    CUresult rc = context_enter(&c, &context);
    void *at = rc == CUDA_SUCCESS && count > 0 ? memory_at(to, count) : NULL;
    if (rc == CUDA_SUCCESS && count > 0 && at == NULL)
        rc = CUDA_ERROR_INVALID_VALUE;
    if (at != NULL)
        memset(at, value, count);
    return context_leave(&c, context, rc);
}

CUresult cuMemsetD32_v2(CUdeviceptr to, unsigned int value, size_t count)
{
    struct cuda_call c = {.id = CALL_cuMemsetD32_v2};
    struct cuda_context *context = NULL;
    CUresult rc = context_enter(&c, &context);
    bool fits = count <= SIZE_MAX / sizeof(value) && to % sizeof(value) == 0;
    uint32_t *at =
        rc == CUDA_SUCCESS && count > 0 && fits ? memory_at(to, count * sizeof(value)) : NULL;
    if (rc == CUDA_SUCCESS && count > 0 && at == NULL)
        rc = CUDA_ERROR_INVALID_VALUE;
    for (size_t i = 0; at != NULL && i < count; i++)
        at[i] = value;
    return context_leave(&c, context, rc);
}
