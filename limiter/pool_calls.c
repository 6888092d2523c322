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

static CUresult note_allocation(struct pool *p, CUresult rc, const CUdeviceptr *pointer,
                                size_t bytes, CUstream stream)
{
    bool ok = pools_end(p);
    if (rc != CUDA_SUCCESS)
        return rc;
    if (!ok)
        return undo(p, *pointer, stream);
    pools_allocated(p, *pointer, bytes);
    return rc;
}

/* An allocation in a stream's order, before its call and after it. */
struct allocation {
    CUstream stream;
    bool names_pool; /* by this handle; else it is the stream's */
    CUmemoryPool handle;
    struct pool *pool;
    bool is_locked; /* pools.h; not while the stream is captured */
};

static CUresult find_pool(struct allocation *a)
{
    return a->names_pool ? pools_known(a->handle, &a->pool) : pools_of_stream(a->stream, &a->pool);
}

/* SUCCESS: the call is to be made. Whatever it returns, end_allocation follows. */
static CUresult begin_allocation(struct allocation *a, size_t bytes)
{
    if (!devices_are_ready())
        return CUDA_ERROR_NOT_INITIALIZED;
    if (streams_is_captured(a->stream))
        return CUDA_SUCCESS;
    pools_lock();
    a->is_locked = true;
    CUresult rc = find_pool(a);
    return rc == CUDA_SUCCESS && !pools_begin(a->pool, bytes) ? CUDA_ERROR_OUT_OF_MEMORY : rc;
}

/* What is captured takes memory when its graph is launched, but where another thread has ended the
 * capture before the call. */
static CUresult end_allocation(struct allocation *a, CUresult rc, const CUdeviceptr *pointer,
                               size_t bytes)
{
    if (!a->is_locked) {
        if (rc != CUDA_SUCCESS || streams_is_captured(a->stream))
            return rc;
        pools_lock();
        (void)find_pool(a);
    }
    rc = note_allocation(a->pool, rc, pointer, bytes, a->stream);
    pools_unlock();
    return rc;
}

CUresult cuMemAllocAsync(CUdeviceptr *pointer, size_t bytes, CUstream stream)
{
    struct allocation a = {.stream = stream};
    CUresult rc = begin_allocation(&a, bytes);
    if (rc == CUDA_SUCCESS)
        rc = real.cuMemAllocAsync(pointer, bytes, stream);
    return end_allocation(&a, rc, pointer, bytes);
}

CUresult cuMemAllocAsync_ptsz(CUdeviceptr *pointer, size_t bytes, CUstream stream)
{
    struct allocation a = {.stream = stream_of_thread(stream)};
    CUresult rc = begin_allocation(&a, bytes);
    if (rc == CUDA_SUCCESS)
        rc = real.cuMemAllocAsync_ptsz(pointer, bytes, stream);
    return end_allocation(&a, rc, pointer, bytes);
}

CUresult cuMemAllocFromPoolAsync(CUdeviceptr *pointer, size_t bytes, CUmemoryPool pool,
                                 CUstream stream)
{
    struct allocation a = {.stream = stream, .names_pool = true, .handle = pool};
    CUresult rc = begin_allocation(&a, bytes);
    if (rc == CUDA_SUCCESS)
        rc = real.cuMemAllocFromPoolAsync(pointer, bytes, pool, stream);
    return end_allocation(&a, rc, pointer, bytes);
}

CUresult cuMemAllocFromPoolAsync_ptsz(CUdeviceptr *pointer, size_t bytes, CUmemoryPool pool,
                                      CUstream stream)
{
    struct allocation a = {.stream = stream_of_thread(stream), .names_pool = true, .handle = pool};
    CUresult rc = begin_allocation(&a, bytes);
    if (rc == CUDA_SUCCESS)
        rc = real.cuMemAllocFromPoolAsync_ptsz(pointer, bytes, pool, stream);
    return end_allocation(&a, rc, pointer, bytes);
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

/* A release in a stream's order, before its call and after it. */
struct release {
    CUstream stream;
    bool is_captured, is_pooled;
    struct pools_free pooled;
    struct charge_free charged;
};

static void begin_release(struct release *r, CUdeviceptr pointer, CUstream stream)
{
    *r = (struct release){.stream = stream, .is_captured = streams_is_captured(stream)};
    if (r->is_captured)
        return;
    r->is_pooled = pools_free_begin(&r->pooled, pointer);
    if (!r->is_pooled)
        charge_free_begin(&r->charged, LEDGER_POINTER, pointer);
}

/* Memory of cuMemAlloc is free when the stream gets there; a pool keeps what it has. */
static CUresult end_release(const struct release *r, CUresult rc)
{
    if (r->is_captured)
        return rc;
    return r->is_pooled ? pools_free_end(&r->pooled, rc) : end_charge(&r->charged, rc, r->stream);
}

CUresult cuMemFreeAsync(CUdeviceptr pointer, CUstream stream)
{
    struct release r;
    begin_release(&r, pointer, stream);
    return end_release(&r, real.cuMemFreeAsync(pointer, stream));
}

CUresult cuMemFreeAsync_ptsz(CUdeviceptr pointer, CUstream stream)
{
    struct release r;
    begin_release(&r, pointer, stream_of_thread(stream));
    return end_release(&r, real.cuMemFreeAsync_ptsz(pointer, stream));
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
