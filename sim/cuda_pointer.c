/* SPDX-License-Identifier: Apache-2.0 */
/* CUDA: what an address is. Contracts are the driver API's own. */
#include <string.h>

#include "sim/cuda_host.h"
#include "sim/cuda_mapping.h"
#include "sim/cuda_pool.h"

/* The memory that an address lies in: the card's, or the host's as the driver knows it. */
struct place {
    const struct range *range;          /* NULL: the host's, ... */
    const struct reservation *reserved; /* ... or none, at a reserved address */
    CUcontext context;
    CUdevice device;
    uint64_t base;
    size_t bytes;
};

static bool find(CUdeviceptr pointer, struct place *ret)
{
    const struct range *a = range_find(pointer);
    const struct host_range *r = a == NULL ? host_find(pointer) : NULL;
    const struct reservation *v = mapping_find_reservation(pointer);
    if (a != NULL)
        *ret = (struct place){.range = a,
                              .reserved = v,
                              .context = a->context,
                              .device = a->device,
                              .base = a->base,
                              .bytes = a->bytes};
    else if (r != NULL)
        *ret = (struct place){.context = r->context,
                              .device = r->context->device,
                              .base = (uintptr_t)r->base,
                              .bytes = r->bytes};
    else if (v != NULL)
        *ret = (struct place){.reserved = v, .device = CU_DEVICE_INVALID};
    return a != NULL || r != NULL || v != NULL;
}

static bool is_of(const struct place *p, enum range_kind kind)
{
    return p->range != NULL && p->range->kind == kind;
}

/* --- The attributes --- */

/* Bytes of a value; 0: there is no such attribute. */
static size_t size_of(int attribute)
{
    switch (attribute) {
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
    case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS:
    case CU_POINTER_ATTRIBUTE_IS_MANAGED:
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
    case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
    case CU_POINTER_ATTRIBUTE_MAPPED:
    case CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE:
    case CU_POINTER_ATTRIBUTE_ACCESS_FLAGS:
    case CU_POINTER_ATTRIBUTE_IS_HW_DECOMPRESS_CAPABLE:
        return sizeof(uint32_t);
    case CU_POINTER_ATTRIBUTE_CONTEXT:
    case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
    case CU_POINTER_ATTRIBUTE_HOST_POINTER:
    case CU_POINTER_ATTRIBUTE_BUFFER_ID:
    case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
    case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
    case CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES:
    case CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE:
    case CU_POINTER_ATTRIBUTE_MAPPING_SIZE:
    case CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR:
    case CU_POINTER_ATTRIBUTE_MEMORY_BLOCK_ID:
        return sizeof(uint64_t);
    default:
        return 0;
    }
}

static bool is_on_host(const struct place *p)
{
    return p->range == NULL || p->device == CU_DEVICE_CPU;
}

static CUresult get_host_pointer(const struct place *p, CUdeviceptr pointer, uint64_t *ret)
{
    if (!is_on_host(p) && p->range->kind != RANGE_MANAGED)
        return CUDA_ERROR_INVALID_VALUE;
    *ret = pointer;
    return CUDA_SUCCESS;
}

static const struct mapping *mapping_of(const struct place *p)
{
    return is_of(p, RANGE_MAPPED) ? (const struct mapping *)p->range : NULL;
}

static int handle_types_of(const struct place *p)
{
    const struct mapping *m = mapping_of(p);
    return m != NULL ? m->physical->prop.requestedHandleTypes : CU_MEM_HANDLE_TYPE_NONE;
}

static bool is_rdma_capable(const struct place *p)
{
    const struct mapping *m = mapping_of(p);
    return m != NULL ? m->physical->prop.allocFlags.gpuDirectRDMACapable != 0
                     : is_of(p, RANGE_LINEAR);
}

static uint64_t block_of(const struct place *p)
{
    const struct mapping *m = mapping_of(p);
    uint64_t other = p->range != NULL ? p->range->id : p->base;
    return m != NULL ? m->physical->id : other;
}

/* That of the current context's device. */
static int access_of(const struct place *p)
{
    const struct mapping *m = mapping_of(p);
    return m != NULL ? m->access[context_current()->device] : CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
}

/* An address that is only reserved has a range, and nothing else. */
static CUresult get_reserved(const struct place *p, int attribute, uint64_t *ret)
{
    switch (attribute) {
    case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
        *ret = p->reserved->base;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
        *ret = p->reserved->bytes;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_MAPPED:
        return CUDA_SUCCESS;
    default:
        return CUDA_ERROR_INVALID_VALUE;
    }
}

static uint64_t pool_of(const struct place *p)
{
    if (is_of(p, RANGE_IMPORTED))
        return (uintptr_t)((const struct imported *)p->range)->pool->handle;
    if (!is_of(p, RANGE_POOL))
        return 0;
    return (uintptr_t)((const struct piece *)p->range)->slab->pool->handle;
}

/* Of attributes that are of one kind of memory alone the others have 0. */
static CUresult get(const struct place *p, int attribute, CUdeviceptr pointer, uint64_t *ret)
{
    *ret = 0;
    if (p->reserved != NULL && p->range == NULL)
        return get_reserved(p, attribute, ret);
    switch (attribute) {
    case CU_POINTER_ATTRIBUTE_CONTEXT:
        *ret = (uintptr_t)p->context;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
        *ret = is_on_host(p) ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
        *ret = pointer;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_HOST_POINTER:
        return get_host_pointer(p, pointer, ret);
    case CU_POINTER_ATTRIBUTE_MEMORY_BLOCK_ID:
        *ret = block_of(p);
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_BUFFER_ID:
        *ret = p->range != NULL ? p->range->id : p->base;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS:
        *ret = p->range != NULL && p->range->is_synchronous;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_IS_MANAGED:
        *ret = is_of(p, RANGE_MANAGED);
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
        *ret = (uint32_t)p->device;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
        *ret = is_of(p, RANGE_LINEAR);
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE:
        *ret = is_rdma_capable(p);
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES:
        *ret = (uint64_t)handle_types_of(p);
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
        *ret = p->reserved != NULL ? p->reserved->base : p->base;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
        *ret = p->reserved != NULL ? p->reserved->bytes : p->bytes;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR:
        *ret = p->base;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_MAPPING_SIZE:
        *ret = p->bytes;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_MAPPED:
        *ret = 1;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE:
        *ret = pool_of(p);
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_ACCESS_FLAGS:
        *ret = (uint64_t)access_of(p);
        return CUDA_SUCCESS;
    default:
        return size_of(attribute) > 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
    }
}

/* INVALID_VALUE for what the driver did not allocate, map or register. */
CUresult cuPointerGetAttribute(void *value, int attribute, CUdeviceptr pointer)
{
    struct cuda_call c = {.id = CALL_cuPointerGetAttribute};
    struct cuda_context *context = NULL;
    struct place place = {0};
    uint64_t found = 0;
    CUresult rc = context_enter(&c, &context);
    if (rc == CUDA_SUCCESS && (value == NULL || !find(pointer, &place)))
        rc = CUDA_ERROR_INVALID_VALUE;
    if (rc == CUDA_SUCCESS)
        rc = get(&place, attribute, pointer, &found);
    if (rc == CUDA_SUCCESS)
        memcpy(value, &found, size_of(attribute));
    return context_leave(&c, context, rc);
}

/* --- Several of them --- */

static bool are_attributes(unsigned int count, const int *attributes, void *const *values)
{
    if (count == 0 || attributes == NULL || values == NULL)
        return false;
    for (unsigned int i = 0; i < count; i++) {
        if (size_of(attributes[i]) == 0 || values[i] == NULL)
            return false;
    }
    return true;
}

/* What an attribute is of an address that has none. */
static uint64_t nothing(int attribute)
{
    return attribute == CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL ? (uint32_t)CU_DEVICE_INVALID : 0;
}

/* That the driver does not know an address is no error here. */
CUresult cuPointerGetAttributes(unsigned int count, int *attributes, void **values,
                                CUdeviceptr pointer)
{
    struct cuda_call c = {.id = CALL_cuPointerGetAttributes};
    struct cuda_context *context = NULL;
    struct place place = {0};
    CUresult rc = context_enter(&c, &context);
    if (rc == CUDA_SUCCESS && !are_attributes(count, attributes, values))
        rc = CUDA_ERROR_INVALID_VALUE;
    bool known = rc == CUDA_SUCCESS && find(pointer, &place);
    for (unsigned int i = 0; rc == CUDA_SUCCESS && i < count; i++) {
        uint64_t found = 0;
        if (!known || get(&place, attributes[i], pointer, &found) != CUDA_SUCCESS)
            found = nothing(attributes[i]);
        memcpy(values[i], &found, size_of(attributes[i]));
    }
    return context_leave(&c, context, rc);
}

/* Copies always wait as if it were set. */
CUresult cuPointerSetAttribute(const void *value, int attribute, CUdeviceptr pointer)
{
    struct cuda_call c = {.id = CALL_cuPointerSetAttribute};
    struct cuda_context *context = NULL;
    uint32_t set = 0;
    CUresult rc = context_enter(&c, &context);
    struct range *r = rc == CUDA_SUCCESS ? range_find(pointer) : NULL;
    if (rc == CUDA_SUCCESS &&
        (value == NULL || attribute != CU_POINTER_ATTRIBUTE_SYNC_MEMOPS || r == NULL))
        rc = CUDA_ERROR_INVALID_VALUE;
    if (rc == CUDA_SUCCESS) {
        memcpy(&set, value, sizeof(set));
        r->is_synchronous = set != 0;
    }
    return context_leave(&c, context, rc);
}
