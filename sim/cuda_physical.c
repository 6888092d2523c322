/* SPDX-License-Identifier: Apache-2.0 */
/* CUDA: physical memory. Contracts are the driver API's own. */
#include "sim/cuda_physical.h"

#include <stdlib.h>

#include "sim/cuda_context.h"
#include "sim/cuda_handle.h"
#include "sim/cuda_location.h"
#include "sim/cuda_range.h"

#define USAGES                                                                                     \
    3U /* tiles of sparse arrays, and decompression by hardware: accepted, and nothing here */

/* --- Its life --- */

static void end_if_over(struct physical *p)
{
    if (p->retained > 0 || p->uses > 0)
        return;
    handle_end(p->handle);
    multicast_end(p->multicast);
    chunk_let_go(p->chunk);
    free(p);
}

struct physical *physical_new(const CUmemAllocationProp *prop, struct chunk *chunk)
{
    struct physical *p = calloc(1, sizeof(*p));
    void *handle = p != NULL ? handle_new(HANDLE_PHYSICAL, p) : NULL;
    if (handle == NULL) {
        free(p);
        chunk_let_go(chunk);
        return NULL;
    }
    *p = (struct physical){.handle = handle,
                           .retained = 1,
                           .prop = *prop,
                           .bytes = chunk->bytes,
                           .id = range_new_id(),
                           .chunk = chunk};
    return p;
}

struct physical *physical_find(CUmemGenericAllocationHandle handle)
{
    struct physical *p = handle_find(HANDLE_PHYSICAL, (void *)(uintptr_t)handle);
    return p != NULL && p->retained > 0 ? p : NULL;
}

void physical_use(struct physical *p)
{
    p->uses++;
}

void physical_let_go(struct physical *p)
{
    p->uses--;
    end_if_over(p);
}

/* --- Creating --- */

/* Managed memory has no handles here. */
static CUresult check(const CUmemAllocationProp *prop)
{
    if (prop->type == CU_MEM_ALLOCATION_TYPE_MANAGED)
        return CUDA_ERROR_NOT_SUPPORTED;
    if (prop->type != CU_MEM_ALLOCATION_TYPE_PINNED || prop->allocFlags.compressionType > 1)
        return CUDA_ERROR_INVALID_VALUE;
    if ((prop->allocFlags.usage & ~USAGES) != 0)
        return CUDA_ERROR_INVALID_VALUE;
    CUresult rc = location_check(&prop->location);
    if (rc == CUDA_SUCCESS)
        rc = location_check_handles(&prop->location, prop->requestedHandleTypes);
    return rc;
}

static const struct cuda_device *device_of(const CUmemAllocationProp *prop)
{
    bool is_device = prop->location.type == CU_MEM_LOCATION_TYPE_DEVICE;
    return is_device ? cuda_device_at(prop->location.id) : NULL;
}

static CUresult create(CUmemGenericAllocationHandle *ret, size_t bytes,
                       const CUmemAllocationProp *prop)
{
    struct chunk *chunk = NULL;
    bool exports = prop->requestedHandleTypes != CU_MEM_HANDLE_TYPE_NONE;
    struct store_file *file = exports ? store_file_new() : NULL;
    if (exports && file == NULL)
        return CUDA_ERROR_OUT_OF_MEMORY;
    CUresult rc = chunk_new(device_of(prop), bytes, file, &chunk);
    store_file_unref(file);
    if (rc != CUDA_SUCCESS)
        return rc;
    const struct physical *p = physical_new(prop, chunk);
    if (p == NULL)
        return CUDA_ERROR_OUT_OF_MEMORY;
    *ret = (uintptr_t)p->handle;
    return CUDA_SUCCESS;
}

CUresult cuMemCreate(CUmemGenericAllocationHandle *handle, size_t bytes,
                     const CUmemAllocationProp *prop, unsigned long long flags)
{
    struct cuda_call c = {.id = CALL_cuMemCreate};
    CUresult rc = location_enter(&c, prop != NULL ? &prop->location : NULL);
    if (rc == CUDA_SUCCESS && (handle == NULL || prop == NULL || flags != 0))
        rc = CUDA_ERROR_INVALID_VALUE;
    if (rc == CUDA_SUCCESS && (bytes == 0 || bytes % CHUNK_GRANULE != 0))
        rc = CUDA_ERROR_INVALID_VALUE;
    if (rc == CUDA_SUCCESS)
        rc = check(prop);
    context_lock();
    if (rc == CUDA_SUCCESS)
        rc = create(handle, bytes, prop);
    context_unlock();
    cuda_args(&c, "%zu", bytes);
    return cuda_leave(&c, rc);
}

/* --- Handles --- */

CUresult cuMemRelease(CUmemGenericAllocationHandle handle)
{
    struct cuda_call c = {.id = CALL_cuMemRelease};
    CUresult rc = cuda_enter(&c);
    context_lock();
    struct physical *p = rc == CUDA_SUCCESS ? physical_find(handle) : NULL;
    if (rc == CUDA_SUCCESS && p == NULL)
        rc = CUDA_ERROR_INVALID_VALUE;
    if (rc == CUDA_SUCCESS) {
        p->retained--;
        end_if_over(p);
    }
    context_unlock();
    return cuda_leave(&c, rc);
}

/* Assumed: one granularity for all, minimal and recommended. */
CUresult cuMemGetAllocationGranularity(size_t *granularity, const CUmemAllocationProp *prop,
                                       int option)
{
    struct cuda_call c = {.id = CALL_cuMemGetAllocationGranularity};
    CUresult rc = location_enter(&c, prop != NULL ? &prop->location : NULL);
    if (rc == CUDA_SUCCESS && (granularity == NULL || prop == NULL || option < 0 || option > 1))
        rc = CUDA_ERROR_INVALID_VALUE;
    if (rc == CUDA_SUCCESS)
        rc = check(prop);
    if (rc == CUDA_SUCCESS)
        *granularity = CHUNK_GRANULE;
    return cuda_leave(&c, rc);
}

CUresult cuMemGetAllocationPropertiesFromHandle(CUmemAllocationProp *prop,
                                                CUmemGenericAllocationHandle handle)
{
    struct cuda_call c = {.id = CALL_cuMemGetAllocationPropertiesFromHandle};
    CUresult rc = cuda_enter(&c);
    context_lock();
    const struct physical *p = rc == CUDA_SUCCESS ? physical_find(handle) : NULL;
    if (rc == CUDA_SUCCESS && (p == NULL || p->multicast != NULL || prop == NULL))
        rc = CUDA_ERROR_INVALID_VALUE;
    if (rc == CUDA_SUCCESS)
        *prop = p->prop;
    context_unlock();
    return cuda_leave(&c, rc);
}
