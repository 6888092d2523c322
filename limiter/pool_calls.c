/* SPDX-License-Identifier: Apache-2.0 */
/* CUDA: stream-ordered allocations, and the pools that they come from. */
#include <stdlib.h>

#include "limiter/charge.h"
#include "limiter/device.h"
#include "limiter/pools.h"
#include "limiter/real.h"
#include "limiter/streams.h"

/* --- Allocations --- */

/* The pool has reserved more than there is room for. */
static CUresult undo(struct pool *p, CUdeviceptr pointer, CUstream stream)
{
    (void)real.cuMemFreeAsync(pointer, stream);
    (void)pools_end(p);
    return CUDA_ERROR_OUT_OF_MEMORY;
}

static CUresult end(struct pool *p, CUresult rc, const CUdeviceptr *pointer, size_t bytes,
                    CUstream stream)
{
    bool ok = pools_end(p);
    if (rc != CUDA_SUCCESS)
        return rc;
    if (!ok)
        return undo(p, *pointer, stream);
    pools_allocated(p, *pointer, bytes);
    return rc;
}

/* rc: whether the pool could be told. */
static CUresult begin(CUresult rc, struct pool *p, size_t bytes)
{
    if (rc == CUDA_SUCCESS && !pools_begin(p, bytes))
        return CUDA_ERROR_OUT_OF_MEMORY;
    return rc;
}

/* What is captured takes memory when its graph is launched, but where another thread has ended the
 * capture before. */
#define ALLOCATE(which, stream, call)                                                              \
    if (!devices_are_ready())                                                                      \
        return CUDA_ERROR_NOT_INITIALIZED;                                                         \
    struct pool *p = NULL;                                                                         \
    if (streams_is_captured(stream)) {                                                             \
        CUresult captured = call;                                                                  \
        if (captured != CUDA_SUCCESS || streams_is_captured(stream))                               \
            return captured;                                                                       \
        pools_lock();                                                                              \
        (void)(which);                                                                             \
        captured = end(p, captured, pointer, bytes, stream);                                       \
        pools_unlock();                                                                            \
        return captured;                                                                           \
    }                                                                                              \
    pools_lock();                                                                                  \
    CUresult told = which;                                                                         \
    CUresult rc = begin(told, p, bytes);                                                           \
    rc = end(p, rc == CUDA_SUCCESS ? call : rc, pointer, bytes, stream);                           \
    pools_unlock();                                                                                \
    return rc

CUresult cuMemAllocAsync(CUdeviceptr *pointer, size_t bytes, CUstream stream)
{
    ALLOCATE(pools_of_stream(stream, &p), stream, real.cuMemAllocAsync(pointer, bytes, stream));
}

CUresult cuMemAllocAsync_ptsz(CUdeviceptr *pointer, size_t bytes, CUstream stream)
{
    CUstream own = stream_of_thread(stream);
    ALLOCATE(pools_of_stream(own, &p), own, real.cuMemAllocAsync_ptsz(pointer, bytes, stream));
}

CUresult cuMemAllocFromPoolAsync(CUdeviceptr *pointer, size_t bytes, CUmemoryPool pool,
                                 CUstream stream)
{
    ALLOCATE(pools_known(pool, &p), stream,
             real.cuMemAllocFromPoolAsync(pointer, bytes, pool, stream));
}

CUresult cuMemAllocFromPoolAsync_ptsz(CUdeviceptr *pointer, size_t bytes, CUmemoryPool pool,
                                      CUstream stream)
{
    CUstream own = stream_of_thread(stream);
    ALLOCATE(pools_known(pool, &p), own,
             real.cuMemAllocFromPoolAsync_ptsz(pointer, bytes, pool, stream));
}

/* --- Freeing, in a stream's order --- */

static void get_there(void *data)
{
    (void)charge_free_end(data, CUDA_SUCCESS);
    free(data);
}

/* A stream that cannot tell when it gets there is waited for. */
static CUresult end_charge(const struct charge_free *f, CUresult rc, CUstream stream)
{
    struct charge_free *copy = rc == CUDA_SUCCESS && f->is_known ? malloc(sizeof(*copy)) : NULL;
    if (copy != NULL)
        *copy = *f;
    if (copy != NULL && also.cuLaunchHostFunc(stream, get_there, copy) == CUDA_SUCCESS)
        return rc;
    free(copy);
    if (rc == CUDA_SUCCESS && f->is_known)
        (void)also.cuStreamSynchronize(stream);
    return charge_free_end(f, rc);
}

/* Memory of cuMemAlloc is free when the stream gets there; a pool keeps what it has. */
#define FREE(stream, call)                                                                         \
    struct pools_free p;                                                                           \
    struct charge_free f;                                                                          \
    if (streams_is_captured(stream))                                                               \
        return call;                                                                               \
    if (pools_free_begin(&p, pointer))                                                             \
        return pools_free_end(&p, call);                                                           \
    charge_free_begin(&f, LEDGER_POINTER, pointer);                                                \
    return end_charge(&f, call, stream)

CUresult cuMemFreeAsync(CUdeviceptr pointer, CUstream stream)
{
    FREE(stream, real.cuMemFreeAsync(pointer, stream));
}

CUresult cuMemFreeAsync_ptsz(CUdeviceptr pointer, CUstream stream)
{
    CUstream own = stream_of_thread(stream);
    FREE(own, real.cuMemFreeAsync_ptsz(pointer, stream));
}

/* --- Pools --- */

enum { TYPE_MANAGED = 2 };

/* Managed memory counts for the card of the context in which its pool was made. */
static CUresult device_of(const struct pool_props *props, CUdevice *ret)
{
    *ret = props->location.type == CU_MEM_LOCATION_TYPE_DEVICE ? props->location.id : -1;
    return props->type == TYPE_MANAGED ? also.cuCtxGetDevice(ret) : CUDA_SUCCESS;
}

static CUresult note(CUmemoryPool pool, CUresult rc, CUdevice device)
{
    if (rc == CUDA_SUCCESS && !pools_add(pool, device))
        rc = CUDA_ERROR_OUT_OF_MEMORY;
    if (rc != CUDA_SUCCESS)
        (void)real.cuMemPoolDestroy(pool);
    return rc;
}

CUresult cuMemPoolCreate(CUmemoryPool *pool, const struct pool_props *props)
{
    CUdevice device = -1;
    pools_lock();
    CUresult rc = real.cuMemPoolCreate(pool, props);
    if (rc == CUDA_SUCCESS) {
        CUresult told = device_of(props, &device);
        rc = note(*pool, told, device);
    }
    pools_unlock();
    return rc;
}

CUresult cuMemPoolDestroy(CUmemoryPool pool)
{
    pools_lock();
    CUresult rc = real.cuMemPoolDestroy(pool);
    if (rc == CUDA_SUCCESS)
        pools_destroyed(pool);
    pools_unlock();
    return rc;
}

CUresult cuMemPoolImportFromShareableHandle(CUmemoryPool *pool, void *handle, int type,
                                            uint64_t flags)
{
    pools_lock();
    CUresult rc = real.cuMemPoolImportFromShareableHandle(pool, handle, type, flags);
    if (rc == CUDA_SUCCESS)
        rc = note(*pool, rc, /* device= */ -1);
    pools_unlock();
    return rc;
}

CUresult cuMemPoolTrimTo(CUmemoryPool pool, size_t keep)
{
    CUresult rc = real.cuMemPoolTrimTo(pool, keep);
    pools_settle();
    return rc;
}

CUresult cuDeviceGraphMemTrim(CUdevice device)
{
    CUresult rc = real.cuDeviceGraphMemTrim(device);
    pools_settle();
    return rc;
}
