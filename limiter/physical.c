/* SPDX-License-Identifier: Apache-2.0 */
/*
 * CUDA: physical memory apart from addresses. It is free when it has been released as often as it
 * was made or retained, and is mapped nowhere.
 *
 * Not counted: what another process of the container made and this one imported, which that one
 * counts; and what is released while an exported descriptor keeps it. Both are seen from outside.
 */
#include <pthread.h>

#include "limiter/charge.h"
#include "limiter/device.h"
#include "limiter/real.h"

/* Held over the real calls of maps: an address that was unmapped may be mapped at once by another
 * thread. */
static pthread_mutex_t mu = PTHREAD_MUTEX_INITIALIZER;

static void forget_after_fork(void)
{
    (void)pthread_mutex_init(&mu, NULL);
}

__attribute__((constructor)) static void watch_forks(void)
{
    (void)pthread_atfork(/* prepare= */ NULL, /* parent= */ NULL, forget_after_fork);
}

static void hold(CUmemGenericAllocationHandle handle, int more)
{
    struct ledger_entry e;
    if (ledger_hold(LEDGER_PHYSICAL, handle, more, &e) == 0)
        charge_give_back(&e);
}

static int card_of(const struct physical_props *props)
{
    return props != NULL && props->location.type == CU_MEM_LOCATION_TYPE_DEVICE
               ? card_of_device(props->location.id)
               : -1;
}

CUresult cuMemCreate(CUmemGenericAllocationHandle *handle, size_t bytes,
                     const struct physical_props *props, uint64_t flags)
{
    struct charge c;
    if (!devices_are_ready())
        return CUDA_ERROR_NOT_INITIALIZED;
    CUresult rc = charge_begin_on(&c, LEDGER_PHYSICAL, card_of(props), bytes);
    if (rc == CUDA_SUCCESS)
        rc = real.cuMemCreate(handle, bytes, props, flags);
    return charge_end(&c, rc, handle);
}

CUresult cuMemRelease(CUmemGenericAllocationHandle handle)
{
    (void)pthread_mutex_lock(&mu);
    CUresult rc = real.cuMemRelease(handle);
    if (rc == CUDA_SUCCESS)
        hold(handle, -1);
    (void)pthread_mutex_unlock(&mu);
    return rc;
}

/* Of the same memory: the handle that it was made with, or another one. Assumed: the same. */
CUresult cuMemRetainAllocationHandle(CUmemGenericAllocationHandle *handle, void *address)
{
    (void)pthread_mutex_lock(&mu);
    CUresult rc = real.cuMemRetainAllocationHandle(handle, address);
    if (rc == CUDA_SUCCESS)
        hold(*handle, 1);
    (void)pthread_mutex_unlock(&mu);
    return rc;
}

/* One's own memory may be imported, too. */
CUresult cuMemImportFromShareableHandle(CUmemGenericAllocationHandle *handle, void *from, int type)
{
    (void)pthread_mutex_lock(&mu);
    CUresult rc = real.cuMemImportFromShareableHandle(handle, from, type);
    if (rc == CUDA_SUCCESS)
        hold(*handle, 1);
    (void)pthread_mutex_unlock(&mu);
    return rc;
}

/* --- Maps; locked --- */

static void note_map(CUdeviceptr at, size_t bytes, CUmemGenericAllocationHandle handle)
{
    const struct ledger_entry e = {.key = at,
                                   .bytes = bytes,
                                   .owner = handle,
                                   .kind = LEDGER_MAPPING,
                                   .card = -1,
                                   .holds = 1};
    hold(handle, 1);
    ledger_put(&e);
}

/* What is unmapped is whole mappings, one behind the other. */
static void forget_maps(CUdeviceptr at, size_t bytes)
{
    struct ledger_entry e;
    while (bytes != 0 && ledger_take(LEDGER_MAPPING, at, &e)) {
        hold(e.owner, -1);
        at += e.bytes;
        bytes -= e.bytes < bytes ? e.bytes : bytes;
    }
}

CUresult cuMemMap(CUdeviceptr at, size_t bytes, size_t offset, CUmemGenericAllocationHandle handle,
                  uint64_t flags)
{
    (void)pthread_mutex_lock(&mu);
    CUresult rc = real.cuMemMap(at, bytes, offset, handle, flags);
    if (rc == CUDA_SUCCESS)
        note_map(at, bytes, handle);
    (void)pthread_mutex_unlock(&mu);
    return rc;
}

CUresult cuMemUnmap(CUdeviceptr at, size_t bytes)
{
    (void)pthread_mutex_lock(&mu);
    CUresult rc = real.cuMemUnmap(at, bytes);
    if (rc == CUDA_SUCCESS)
        forget_maps(at, bytes);
    (void)pthread_mutex_unlock(&mu);
    return rc;
}
