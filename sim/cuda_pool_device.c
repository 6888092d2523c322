/* SPDX-License-Identifier: Apache-2.0 */
/* CUDA: which pool a device's streams allocate from. Contracts are the driver API's own. */
#include "sim/cuda_context.h"
#include "sim/cuda_pool.h"

static CUresult give(CUmemoryPool *ret, CUdevice device, struct pool *of(CUdevice))
{
    if (ret == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    const struct pool *p = of(device);
    if (p == NULL)
        return CUDA_ERROR_OUT_OF_MEMORY;
    *ret = p->handle;
    return CUDA_SUCCESS;
}

static CUresult get(unsigned int call, CUmemoryPool *ret, CUdevice device,
                    struct pool *of(CUdevice))
{
    struct cuda_call c = {.id = call};
    CUresult rc = cuda_enter_device(&c, device);
    context_lock();
    if (rc == CUDA_SUCCESS)
        rc = give(ret, device, of);
    context_unlock();
    return cuda_leave(&c, rc);
}

CUresult cuDeviceGetDefaultMemPool(CUmemoryPool *pool, CUdevice device)
{
    return get(CALL_cuDeviceGetDefaultMemPool, pool, device, pool_default);
}

CUresult cuDeviceGetMemPool(CUmemoryPool *pool, CUdevice device)
{
    return get(CALL_cuDeviceGetMemPool, pool, device, pool_current);
}

/* Only a pool of that device, in which something can be allocated. */
static CUresult set_current(CUdevice device, CUmemoryPool pool)
{
    struct pool *p = pool_find(pool);
    if (p == NULL || p->is_imported || p->device != cuda_device_at(device))
        return CUDA_ERROR_INVALID_VALUE;
    pool_set_current(device, p);
    return CUDA_SUCCESS;
}

static CUresult set(unsigned int call, CUdevice device, CUmemoryPool pool)
{
    struct cuda_call c = {.id = call};
    CUresult rc = cuda_enter_device(&c, device);
    context_lock();
    if (rc == CUDA_SUCCESS)
        rc = set_current(device, pool);
    context_unlock();
    return cuda_leave(&c, rc);
}

CUresult cuDeviceSetMemPool(CUdevice device, CUmemoryPool pool)
{
    return set(CALL_cuDeviceSetMemPool, device, pool);
}

/* --- By location: pools of devices alone are current --- */

static CUresult refuse(unsigned int call, const CUmemLocation *location, int type)
{
    struct cuda_call c = {.id = call};
    CUresult rc = cuda_enter(&c);
    bool known = location != NULL && location->type > 0 && type > 0 &&
                 location->type <= CU_MEM_LOCATION_TYPE_HOST_NUMA &&
                 type <= CU_MEM_ALLOCATION_TYPE_MANAGED;
    if (rc == CUDA_SUCCESS)
        rc = known ? CUDA_ERROR_NOT_SUPPORTED : CUDA_ERROR_INVALID_VALUE;
    return cuda_leave(&c, rc);
}

static bool is_of_device(const CUmemLocation *location, int type)
{
    return location != NULL && location->type == CU_MEM_LOCATION_TYPE_DEVICE &&
           type == CU_MEM_ALLOCATION_TYPE_PINNED;
}

CUresult cuMemGetDefaultMemPool(CUmemoryPool *pool, CUmemLocation *location, int type)
{
    if (!is_of_device(location, type))
        return refuse(CALL_cuMemGetDefaultMemPool, location, type);
    return get(CALL_cuMemGetDefaultMemPool, pool, location->id, pool_default);
}

CUresult cuMemGetMemPool(CUmemoryPool *pool, CUmemLocation *location, int type)
{
    if (!is_of_device(location, type))
        return refuse(CALL_cuMemGetMemPool, location, type);
    return get(CALL_cuMemGetMemPool, pool, location->id, pool_current);
}

CUresult cuMemSetMemPool(CUmemLocation *location, int type, CUmemoryPool pool)
{
    if (!is_of_device(location, type))
        return refuse(CALL_cuMemSetMemPool, location, type);
    return set(CALL_cuMemSetMemPool, location->id, pool);
}
