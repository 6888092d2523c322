/* SPDX-License-Identifier: Apache-2.0 */
/*
 * CUDA: multicast objects. Contracts are the driver API's own.
 *
 * An object is physical memory of no card, which can be mapped once all its devices were added, and
 * keeps the memory that is bound to it. Assumed: what is written to its addresses is not seen in that
 * memory, as the switches would have it; and objects are not exported.
 */
#include "sim/cuda_context.h"
#include "sim/cuda_mapping.h"
#include "sim/cuda_multicast.h"
#include "sim/cuda_pool.h"

/* Assumed: the granularity that is recommended, as it is seen on H100. */
#define RECOMMENDED (UINT64_C(512) << 20U)

static bool is_supported(void)
{
    bool any = false;
    for (CUdevice i = 0; i < cuda_device_count(); i++)
        any = any || multicast_is_supported(cuda_device_at(i));
    return any;
}

/* --- Objects --- */

static CUresult check(const CUmulticastObjectProp *prop)
{
    if (!is_supported() || prop->handleTypes != CU_MEM_HANDLE_TYPE_NONE)
        return CUDA_ERROR_NOT_SUPPORTED;
    bool good = prop->numDevices > 0 && prop->size > 0 && prop->flags == 0;
    return good ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

static CUresult make(const CUmulticastObjectProp *prop, CUmemGenericAllocationHandle *ret)
{
    const CUmemAllocationProp none = {0};
    struct chunk *chunk = NULL;
    struct multicast *m = multicast_new(prop->numDevices);
    if (m == NULL || chunk_new(/* device= */ NULL, prop->size, /* file= */ NULL, &chunk) != 0) {
        multicast_end(m);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    struct physical *p = physical_new(&none, chunk);
    if (p == NULL) {
        multicast_end(m);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    p->multicast = m;
    *ret = (uintptr_t)p->handle;
    return CUDA_SUCCESS;
}

CUresult cuMulticastCreate(CUmemGenericAllocationHandle *handle, const CUmulticastObjectProp *prop)
{
    struct cuda_call c = {.id = CALL_cuMulticastCreate};
    CUresult rc = cuda_enter(&c);
    if (rc == CUDA_SUCCESS && (handle == NULL || prop == NULL))
        rc = CUDA_ERROR_INVALID_VALUE;
    if (rc == CUDA_SUCCESS)
        rc = check(prop);
    if (rc == CUDA_SUCCESS && prop->size % CHUNK_GRANULE != 0)
        rc = CUDA_ERROR_INVALID_VALUE;
    context_lock();
    if (rc == CUDA_SUCCESS)
        rc = make(prop, handle);
    context_unlock();
    return cuda_leave(&c, rc);
}

CUresult cuMulticastGetGranularity(size_t *granularity, const CUmulticastObjectProp *prop,
                                   int option)
{
    struct cuda_call c = {.id = CALL_cuMulticastGetGranularity};
    CUresult rc = cuda_enter(&c);
    if (rc == CUDA_SUCCESS && (granularity == NULL || prop == NULL || option < 0 || option > 1))
        rc = CUDA_ERROR_INVALID_VALUE;
    if (rc == CUDA_SUCCESS)
        rc = check(prop);
    if (rc == CUDA_SUCCESS)
        *granularity = option == CU_MULTICAST_GRANULARITY_MINIMUM ? CHUNK_GRANULE : RECOMMENDED;
    return cuda_leave(&c, rc);
}

static struct physical *find(CUmemGenericAllocationHandle handle)
{
    struct physical *p = physical_find(handle);
    return p != NULL && p->multicast != NULL ? p : NULL;
}

/* The object is said to be where its first device is. */
static CUresult add_device(struct physical *p, CUdevice device)
{
    if (p == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    CUresult rc = multicast_add_device(p->multicast, device);
    if (rc == CUDA_SUCCESS && p->prop.location.type == 0)
        p->prop.location = (CUmemLocation){.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device};
    return rc;
}

CUresult cuMulticastAddDevice(CUmemGenericAllocationHandle handle, CUdevice device)
{
    struct cuda_call c = {.id = CALL_cuMulticastAddDevice};
    CUresult rc = cuda_enter_device(&c, device);
    context_lock();
    if (rc == CUDA_SUCCESS)
        rc = add_device(find(handle), device);
    context_unlock();
    return cuda_leave(&c, rc);
}

/* --- Binding --- */

#define ANY_DEVICE CU_DEVICE_INVALID

/* What a program asks for. */
struct wish {
    CUmemGenericAllocationHandle handle;
    CUdevice device; /* or ANY_DEVICE: the memory's */
    uint64_t offset, bytes;
    unsigned long long flags;
    CUmemGenericAllocationHandle memory; /* with its offset, ... */
    uint64_t memory_offset;
    CUdeviceptr pointer; /* ... or, if that is not 0, mapped or pooled memory */
};

/* The memory, as far as it is long enough. */
static struct chunk *find_physical(const struct wish *w, CUdevice *ret)
{
    const struct physical *p = physical_find(w->memory);
    if (p == NULL || p->multicast != NULL || p->chunk->device == NULL ||
        w->memory_offset % CHUNK_GRANULE != 0 || w->memory_offset > p->bytes ||
        w->bytes > p->bytes - w->memory_offset)
        return NULL;
    *ret = p->prop.location.id;
    return p->chunk;
}

static struct chunk *find_mapped(const struct wish *w, CUdevice *ret)
{
    const struct range *r = range_find(w->pointer);
    if (r == NULL || r->device < 0 || w->pointer % CHUNK_GRANULE != 0 ||
        w->bytes > r->bytes - (w->pointer - r->base))
        return NULL;
    *ret = r->device;
    if (r->kind == RANGE_POOL)
        return ((const struct piece *)r)->slab->chunk;
    return r->kind == RANGE_MAPPED ? ((const struct mapping *)r)->physical->chunk : NULL;
}

static struct chunk *find_memory(const struct wish *w, CUdevice *ret)
{
    return w->pointer != 0 ? find_mapped(w, ret) : find_physical(w, ret);
}

static bool is_within(const struct wish *w, uint64_t bytes)
{
    return w->bytes > 0 && w->bytes % CHUNK_GRANULE == 0 && w->offset % CHUNK_GRANULE == 0 &&
           w->offset <= bytes && w->bytes <= bytes - w->offset;
}

/* With all devices added. */
static CUresult bind_now(const struct wish *w)
{
    CUdevice device = CU_DEVICE_INVALID;
    const struct physical *p = find(w->handle);
    struct chunk *chunk = p != NULL && is_within(w, p->bytes) ? find_memory(w, &device) : NULL;
    if (chunk == NULL || (w->device != ANY_DEVICE && w->device != device))
        return CUDA_ERROR_INVALID_VALUE;
    return multicast_bind(p->multicast, device, w->offset, w->bytes, chunk);
}

static CUresult bind(const struct wish *w)
{
    const struct physical *p = find(w->handle);
    if (p == NULL || w->flags != 0 || !is_within(w, p->bytes))
        return CUDA_ERROR_INVALID_VALUE;
    CUresult rc = multicast_wait(p->multicast);
    return rc == CUDA_SUCCESS ? bind_now(w) : rc;
}

static CUresult bind_in(unsigned int call, const struct wish *w)
{
    struct cuda_call c = {.id = call};
    CUresult rc = w->device != ANY_DEVICE ? cuda_enter_device(&c, w->device) : cuda_enter(&c);
    context_lock();
    if (rc == CUDA_SUCCESS)
        rc = bind(w);
    context_unlock();
    return cuda_leave(&c, rc);
}

CUresult cuMulticastBindMem(CUmemGenericAllocationHandle handle, size_t offset,
                            CUmemGenericAllocationHandle memory, size_t memory_offset, size_t bytes,
                            unsigned long long flags)
{
    const struct wish w = {.handle = handle,
                           .device = ANY_DEVICE,
                           .offset = offset,
                           .bytes = bytes,
                           .flags = flags,
                           .memory = memory,
                           .memory_offset = memory_offset};
    return bind_in(CALL_cuMulticastBindMem, &w);
}

CUresult cuMulticastBindMem_v2(CUmemGenericAllocationHandle handle, CUdevice device, size_t offset,
                               CUmemGenericAllocationHandle memory, size_t memory_offset,
                               size_t bytes, unsigned long long flags)
{
    const struct wish w = {.handle = handle,
                           .device = device != ANY_DEVICE ? device : CU_DEVICE_CPU,
                           .offset = offset,
                           .bytes = bytes,
                           .flags = flags,
                           .memory = memory,
                           .memory_offset = memory_offset};
    return bind_in(CALL_cuMulticastBindMem_v2, &w);
}

/* Address 0 is that of no memory, as 1 is. */
static CUdeviceptr pointer_of(CUdeviceptr pointer)
{
    return pointer != 0 ? pointer : 1;
}

CUresult cuMulticastBindAddr(CUmemGenericAllocationHandle handle, size_t offset,
                             CUdeviceptr pointer, size_t bytes, unsigned long long flags)
{
    const struct wish w = {.handle = handle,
                           .device = ANY_DEVICE,
                           .offset = offset,
                           .bytes = bytes,
                           .flags = flags,
                           .pointer = pointer_of(pointer)};
    return bind_in(CALL_cuMulticastBindAddr, &w);
}

CUresult cuMulticastBindAddr_v2(CUmemGenericAllocationHandle handle, CUdevice device, size_t offset,
                                CUdeviceptr pointer, size_t bytes, unsigned long long flags)
{
    const struct wish w = {.handle = handle,
                           .device = device != ANY_DEVICE ? device : CU_DEVICE_CPU,
                           .offset = offset,
                           .bytes = bytes,
                           .flags = flags,
                           .pointer = pointer_of(pointer)};
    return bind_in(CALL_cuMulticastBindAddr_v2, &w);
}

/* What was bound by one call. */
CUresult cuMulticastUnbind(CUmemGenericAllocationHandle handle, CUdevice device, size_t offset,
                           size_t bytes)
{
    struct cuda_call c = {.id = CALL_cuMulticastUnbind};
    CUresult rc = cuda_enter_device(&c, device);
    context_lock();
    const struct physical *p = rc == CUDA_SUCCESS ? find(handle) : NULL;
    if (rc == CUDA_SUCCESS)
        rc = p != NULL ? multicast_unbind(p->multicast, device, offset, bytes)
                       : CUDA_ERROR_INVALID_VALUE;
    context_unlock();
    return cuda_leave(&c, rc);
}
