/* SPDX-License-Identifier: Apache-2.0 */
/* CUDA: arrays, and memory of other interfaces. */
#include "limiter/array_size.h"
#include "limiter/charge.h"
#include "limiter/real.h"

#define ALLOCATE(kind, handle, bytes, call)                                                        \
    struct charge c;                                                                               \
    CUresult rc = charge_begin(&c, kind, bytes);                                                   \
    if (rc == CUDA_SUCCESS)                                                                        \
        rc = call;                                                                                 \
    const uint64_t key = rc == CUDA_SUCCESS ? (uint64_t)(uintptr_t) * (handle) : 0;                \
    return charge_end(&c, rc, &key)

#define FREE(kind, handle, call)                                                                   \
    struct charge_free f;                                                                          \
    charge_free_begin(&f, kind, (uint64_t)(uintptr_t)(handle));                                    \
    return charge_free_end(&f, call)

static uint64_t flat(uint64_t width, uint64_t height, int format, unsigned int channels)
{
    const struct array3d_descriptor d = {.width = width,
                                         .height = height,
                                         .format = format,
                                         .channels = channels};
    return array_bytes(&d, 1);
}

CUresult cuArrayCreate_v2(CUarray *array, const struct array_descriptor *d)
{
    if (d == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    ALLOCATE(LEDGER_ARRAY, array, flat(d->width, d->height, d->format, d->channels),
             real.cuArrayCreate_v2(array, d));
}

CUresult cuArrayCreate(CUarray *array, const struct array_descriptor_v1 *d)
{
    if (d == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    ALLOCATE(LEDGER_ARRAY, array, flat(d->width, d->height, d->format, d->channels),
             real.cuArrayCreate(array, d));
}

CUresult cuArray3DCreate_v2(CUarray *array, const struct array3d_descriptor *d)
{
    if (d == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    ALLOCATE(LEDGER_ARRAY, array, array_bytes(d, 1), real.cuArray3DCreate_v2(array, d));
}

CUresult cuArray3DCreate(CUarray *array, const struct array3d_descriptor_v1 *d)
{
    if (d == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    const struct array3d_descriptor wide = {.width = d->width,
                                            .height = d->height,
                                            .depth = d->depth,
                                            .format = d->format,
                                            .channels = d->channels,
                                            .flags = d->flags};
    ALLOCATE(LEDGER_ARRAY, array, array_bytes(&wide, 1), real.cuArray3DCreate(array, d));
}

CUresult cuArrayDestroy(CUarray array)
{
    FREE(LEDGER_ARRAY, array, real.cuArrayDestroy(array));
}

CUresult cuMipmappedArrayCreate(CUmipmappedArray *array, const struct array3d_descriptor *d,
                                unsigned int levels)
{
    if (d == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    ALLOCATE(LEDGER_ARRAY, array, array_bytes(d, levels),
             real.cuMipmappedArrayCreate(array, d, levels));
}

CUresult cuMipmappedArrayDestroy(CUmipmappedArray array)
{
    FREE(LEDGER_ARRAY, array, real.cuMipmappedArrayDestroy(array));
}

/* Memory of Vulkan or of another library that a limiter does not stand in front of. What CUDA has
 * exported itself is counted twice. */
CUresult cuImportExternalMemory(CUexternalMemory *memory, const struct external_memory *d)
{
    if (d == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    ALLOCATE(LEDGER_EXTERNAL, memory, d->bytes, real.cuImportExternalMemory(memory, d));
}

CUresult cuDestroyExternalMemory(CUexternalMemory memory)
{
    FREE(LEDGER_EXTERNAL, memory, real.cuDestroyExternalMemory(memory));
}
