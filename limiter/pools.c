/* SPDX-License-Identifier: Apache-2.0 */
/* CUDA: stream-ordered allocations, and the memory of graphs. */
#include "limiter/pools.h"

#include <pthread.h>

#include "limiter/device.h"
#include "limiter/overhead.h"
#include "limiter/real.h"
#include "limiter/share.h"

enum { MAX_POOLS = 256 };

/* Attributes; each is a uint64_t. */
enum { POOL_RESERVED = 5, POOL_USED = 7, GRAPH_USED = 0, GRAPH_RESERVED = 2 };

struct pool {
    CUmemoryPool handle; /* NULL: the memory of a device's graphs */
    CUdevice device;
    int card;
    bool live;
    uint64_t taken;
};

static pthread_mutex_t mu = PTHREAD_MUTEX_INITIALIZER;
static struct pool pools[MAX_POOLS];
static unsigned int reach;

static void forget_after_fork(void)
{
    (void)pthread_mutex_init(&mu, NULL);
    reach = 0;
}

__attribute__((constructor)) static void watch_forks(void)
{
    (void)pthread_atfork(/* prepare= */ NULL, /* parent= */ NULL, forget_after_fork);
}

static void lock(void)
{
    (void)pthread_mutex_lock(&mu);
}

static void unlock(void)
{
    (void)pthread_mutex_unlock(&mu);
}

/* --- Pools; locked --- */

static struct pool *find(CUmemoryPool handle, CUdevice device)
{
    for (unsigned int i = 0; i < reach; i++) {
        if (pools[i].live && pools[i].handle == handle &&
            (handle != NULL || pools[i].device == device))
            return &pools[i];
    }
    return NULL;
}

/* NULL: there are too many, and their memory is not counted but seen from outside. */
static struct pool *add(CUmemoryPool handle, CUdevice device)
{
    unsigned int i = 0;
    while (i < reach && pools[i].live)
        i++;
    if (i == MAX_POOLS)
        return NULL;
    reach = i >= reach ? i + 1 : reach;
    pools[i] = (struct pool){.handle = handle,
                             .device = device,
                             .card = card_of_device(device),
                             .live = true};
    return &pools[i];
}

static struct pool *find_or_add(CUmemoryPool handle, CUdevice device)
{
    struct pool *p = find(handle, device);
    return p != NULL ? p : add(handle, device);
}

static uint64_t ask(const struct pool *p, bool used)
{
    uint64_t value = 0;
    CUresult rc =
        p->handle != NULL
            ? also.cuMemPoolGetAttribute(p->handle, used ? POOL_USED : POOL_RESERVED, &value)
            : also.cuDeviceGetGraphMemAttribute(p->device, used ? GRAPH_USED : GRAPH_RESERVED,
                                                &value);
    return rc == CUDA_SUCCESS ? value : 0;
}

static void settle(struct pool *p)
{
    if (p->card < 0)
        return;
    uint64_t reserved = ask(p, /* used= */ false);
    if (reserved > p->taken)
        share_take_anyway(p->card, reserved - p->taken);
    else
        share_give_back(p->card, p->taken - reserved);
    p->taken = reserved;
}

static void settle_all(void)
{
    for (unsigned int i = 0; i < reach; i++) {
        if (pools[i].live)
            settle(&pools[i]);
    }
}

static void trim_all(void)
{
    for (unsigned int i = 0; i < reach; i++) {
        if (!pools[i].live || pools[i].card < 0)
            continue;
        if (pools[i].handle != NULL)
            (void)real.cuMemPoolTrimTo(pools[i].handle, 0);
        else
            (void)real.cuDeviceGraphMemTrim(pools[i].device);
        settle(&pools[i]);
    }
}

/* What the pool has no room for, of so many bytes more. */
static uint64_t lacks(const struct pool *p, uint64_t bytes)
{
    uint64_t used = ask(p, /* used= */ true);
    uint64_t spare = p->taken > used ? p->taken - used : 0;
    return bytes > spare ? bytes - spare : 0;
}

/* Takes what the pool will at least reserve more. */
static bool take(struct pool *p, uint64_t bytes)
{
    if (p->card < 0)
        return true;
    settle(p);
    uint64_t more = lacks(p, bytes);
    if (!share_take(p->card, more)) {
        trim_all();
        more = lacks(p, bytes);
        if (!share_take(p->card, more))
            return false;
    }
    p->taken += more;
    return true;
}

void pools_settle(void)
{
    lock();
    settle_all();
    unlock();
}

void pools_trim(void)
{
    lock();
    trim_all();
    unlock();
}

bool pools_take_for_graph(int card, CUdevice device, uint64_t bytes)
{
    lock();
    struct pool *p = card < 0 ? NULL : find_or_add(NULL, device);
    bool ok = p == NULL || take(p, bytes);
    unlock();
    return ok;
}

/* --- The calls --- */

/* Of the device whose pool it is; -1: of none, or imported, which its exporter counts. */
static CUdevice device_of(CUmemoryPool pool)
{
    int n = 0;
    CUmemoryPool found = NULL;
    (void)also.cuDeviceGetCount(&n);
    for (int i = 0; i < n; i++) {
        if (also.cuDeviceGetDefaultMemPool(&found, i) == CUDA_SUCCESS && found == pool)
            return i;
    }
    return -1;
}

static struct pool *known_pool(CUmemoryPool handle)
{
    struct pool *p = find(handle, 0);
    return p != NULL || handle == NULL ? p : add(handle, device_of(handle));
}

/* NULL: as the call will say. */
static struct pool *current_pool(void)
{
    CUdevice device = 0;
    CUmemoryPool handle = NULL;
    if (also.cuCtxGetDevice(&device) != CUDA_SUCCESS ||
        also.cuDeviceGetMemPool(&handle, device) != CUDA_SUCCESS)
        return NULL;
    struct pool *p = find(handle, device);
    return p != NULL ? p : known_pool(handle);
}

/* Locked over the real call, so that what is settled is what it did. */
#define ALLOCATE(which, bytes, call)                                                               \
    if (!share_is_attached())                                                                      \
        return CUDA_ERROR_NOT_INITIALIZED;                                                         \
    lock();                                                                                        \
    struct pool *p = which;                                                                        \
    overhead_follow(p != NULL ? p->card : -1);                                                     \
    CUresult rc = p == NULL || take(p, bytes) ? call : CUDA_ERROR_OUT_OF_MEMORY;                   \
    if (p != NULL)                                                                                 \
        settle(p);                                                                                 \
    unlock();                                                                                      \
    return rc

CUresult cuMemAllocAsync(CUdeviceptr *pointer, size_t bytes, CUstream stream)
{
    ALLOCATE(current_pool(), bytes, real.cuMemAllocAsync(pointer, bytes, stream));
}

CUresult cuMemAllocAsync_ptsz(CUdeviceptr *pointer, size_t bytes, CUstream stream)
{
    ALLOCATE(current_pool(), bytes, real.cuMemAllocAsync_ptsz(pointer, bytes, stream));
}

CUresult cuMemAllocFromPoolAsync(CUdeviceptr *pointer, size_t bytes, CUmemoryPool pool,
                                 CUstream stream)
{
    ALLOCATE(known_pool(pool), bytes, real.cuMemAllocFromPoolAsync(pointer, bytes, pool, stream));
}

CUresult cuMemAllocFromPoolAsync_ptsz(CUdeviceptr *pointer, size_t bytes, CUmemoryPool pool,
                                      CUstream stream)
{
    ALLOCATE(known_pool(pool), bytes,
             real.cuMemAllocFromPoolAsync_ptsz(pointer, bytes, pool, stream));
}

CUresult cuMemPoolCreate(CUmemoryPool *pool, const struct pool_props *props)
{
    lock();
    CUresult rc = real.cuMemPoolCreate(pool, props);
    if (rc == CUDA_SUCCESS)
        (void)add(*pool,
                  props->location.type == CU_MEM_LOCATION_TYPE_DEVICE ? props->location.id : -1);
    unlock();
    return rc;
}

/* Assumed: what is still allocated of it is freed with it. */
CUresult cuMemPoolDestroy(CUmemoryPool pool)
{
    lock();
    CUresult rc = real.cuMemPoolDestroy(pool);
    struct pool *p = rc == CUDA_SUCCESS ? find(pool, 0) : NULL;
    if (p != NULL) {
        if (p->card >= 0)
            share_give_back(p->card, p->taken);
        p->live = false;
    }
    unlock();
    return rc;
}

CUresult cuMemPoolImportFromShareableHandle(CUmemoryPool *pool, void *handle, int type,
                                            uint64_t flags)
{
    lock();
    CUresult rc = real.cuMemPoolImportFromShareableHandle(pool, handle, type, flags);
    if (rc == CUDA_SUCCESS)
        (void)add(*pool, /* device= */ -1);
    unlock();
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
