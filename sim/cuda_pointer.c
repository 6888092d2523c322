/* SPDX-License-Identifier: Apache-2.0 */
/* CUDA: what an address is. Contracts are the driver API's own. */
#include <string.h>

#include "sim/cuda_host.h"

/* The memory that an address lies in: the card's, or the host's as the driver knows it. */
struct place {
    CUcontext context;
    CUdevice device;
    bool is_host;
    uint64_t base;
    size_t bytes;
};

static bool find(CUdeviceptr pointer, struct place *ret)
{
    const struct range *a = range_find(pointer);
    const struct host_range *r = a == NULL ? host_find(pointer) : NULL;
    if (a != NULL)
        *ret = (struct place){.context = a->context,
                              .device = a->device,
                              .base = a->base,
                              .bytes = a->bytes};
    else if (r != NULL)
        *ret = (struct place){.context = r->context,
                              .device = r->context->device,
                              .is_host = true,
                              .base = (uintptr_t)r->base,
                              .bytes = r->bytes};
    return a != NULL || r != NULL;
}

static void put(void *to, const void *from, size_t bytes)
{
    memcpy(to, from, bytes);
}

static void put_word(void *to, uint64_t value)
{
    put(to, &value, sizeof(value));
}

static void put_int(void *to, unsigned int value)
{
    put(to, &value, sizeof(value));
}

static CUresult get(const struct place *p, int attribute, CUdeviceptr pointer, void *ret)
{
    switch (attribute) {
    case CU_POINTER_ATTRIBUTE_CONTEXT:
        put(ret, &p->context, sizeof(p->context));
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
        put_int(ret, p->is_host ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE);
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
        put_word(ret, pointer);
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_HOST_POINTER:
        if (!p->is_host)
            return CUDA_ERROR_INVALID_VALUE;
        put_word(ret, pointer);
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_BUFFER_ID:
        put_word(ret, p->base);
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS:
    case CU_POINTER_ATTRIBUTE_IS_MANAGED:
        put_int(ret, 0);
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
        put_int(ret, (unsigned int)p->device);
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
        put_word(ret, p->base);
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
        put_word(ret, p->bytes);
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_MAPPED:
        put_int(ret, 1);
        return CUDA_SUCCESS;
    default:
        return CUDA_ERROR_INVALID_VALUE;
    }
}

/* INVALID_VALUE for what the driver did not allocate, map or register. */
CUresult cuPointerGetAttribute(void *value, int attribute, CUdeviceptr pointer)
{
    struct cuda_call c = {.id = CALL_cuPointerGetAttribute};
    struct cuda_context *context = NULL;
    struct place place = {0};
    CUresult rc = context_enter(&c, &context);
    if (rc == CUDA_SUCCESS && (value == NULL || !find(pointer, &place)))
        rc = CUDA_ERROR_INVALID_VALUE;
    if (rc == CUDA_SUCCESS)
        rc = get(&place, attribute, pointer, value);
    return context_leave(&c, context, rc);
}
