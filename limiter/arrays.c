/* SPDX-License-Identifier: Apache-2.0 */
/* CUDA: arrays, and memory of other interfaces. */
#include "limiter/array_size.h"
#include "limiter/charge.h"
#include "limiter/real.h"

static uint64_t key_of(const void *handle)
{
    return (uint64_t)(uintptr_t)handle;
}

/* handle: what was made; NULL where rc says that nothing was. */
static CUresult end(const struct charge *c, CUresult rc, const void *handle)
{
    const uint64_t key = key_of(handle);
    return charge_end(c, rc, &key);
}

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
    struct charge c;
    CUresult rc = charge_begin(&c, LEDGER_ARRAY, flat(d->width, d->height, d->format, d->channels));
    if (rc == CUDA_SUCCESS)
        rc = real.cuArrayCreate_v2(array, d);
    return end(&c, rc, rc == CUDA_SUCCESS ? *array : NULL);
}

CUresult cuArrayCreate(CUarray *array, const struct array_descriptor_v1 *d)
{
    if (d == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    struct charge c;
    CUresult rc = charge_begin(&c, LEDGER_ARRAY, flat(d->width, d->height, d->format, d->channels));
    if (rc == CUDA_SUCCESS)
        rc = real.cuArrayCreate(array, d);
    return end(&c, rc, rc == CUDA_SUCCESS ? *array : NULL);
}

CUresult cuArray3DCreate_v2(CUarray *array, const struct array3d_descriptor *d)
{
    if (d == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    struct charge c;
    CUresult rc = charge_begin(&c, LEDGER_ARRAY, array_bytes(d, 1));
    if (rc == CUDA_SUCCESS)
        rc = real.cuArray3DCreate_v2(array, d);
    return end(&c, rc, rc == CUDA_SUCCESS ? *array : NULL);
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
    struct charge c;
    CUresult rc = charge_begin(&c, LEDGER_ARRAY, array_bytes(&wide, 1));
    if (rc == CUDA_SUCCESS)
        rc = real.cuArray3DCreate(array, d);
    return end(&c, rc, rc == CUDA_SUCCESS ? *array : NULL);
}

CUresult cuArrayDestroy(CUarray array)
{
    struct charge_free f;
    charge_free_begin(&f, LEDGER_ARRAY, key_of(array));
    return charge_free_end(&f, real.cuArrayDestroy(array));
}

CUresult cuMipmappedArrayCreate(CUmipmappedArray *array, const struct array3d_descriptor *d,
                                unsigned int levels)
{
    if (d == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    struct charge c;
    CUresult rc = charge_begin(&c, LEDGER_ARRAY, array_bytes(d, levels));
    if (rc == CUDA_SUCCESS)
        rc = real.cuMipmappedArrayCreate(array, d, levels);
    return end(&c, rc, rc == CUDA_SUCCESS ? *array : NULL);
}

CUresult cuMipmappedArrayDestroy(CUmipmappedArray array)
{
    struct charge_free f;
    charge_free_begin(&f, LEDGER_ARRAY, key_of(array));
    return charge_free_end(&f, real.cuMipmappedArrayDestroy(array));
}

/* Memory of Vulkan or of another library that a limiter does not stand in front of. What CUDA has
 * exported itself is counted twice. */
CUresult cuImportExternalMemory(CUexternalMemory *memory, const struct external_memory *d)
{
    if (d == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    struct charge c;
    CUresult rc = charge_begin(&c, LEDGER_EXTERNAL, d->bytes);
    if (rc == CUDA_SUCCESS)
        rc = real.cuImportExternalMemory(memory, d);
    return end(&c, rc, rc == CUDA_SUCCESS ? *memory : NULL);
}

CUresult cuDestroyExternalMemory(CUexternalMemory memory)
{
    struct charge_free f;
    charge_free_begin(&f, LEDGER_EXTERNAL, key_of(memory));
    return charge_free_end(&f, real.cuDestroyExternalMemory(memory));
}
