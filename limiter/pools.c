/* SPDX-License-Identifier: Apache-2.0 */
#include "limiter/pools.h"

#include <pthread.h>

#include "limiter/device.h"
#include "limiter/ledger.h"
#include "limiter/live_contexts.h"
#include "limiter/overhead.h"
#include "limiter/real.h"
#include "limiter/share.h"
#include "limiter/streams.h"

enum { MAX_POOLS = 4096 };

/* Assumed, as it is seen with CUDA 11 and later: a pool reserves so much at a time, or what the
 * allocation needs where that is more. */
#define SLAB (UINT64_C(32) << 20U)

/* Attributes; each is a uint64_t. */
enum { POOL_RESERVED = 5, POOL_USED = 7, GRAPH_USED = 0, GRAPH_RESERVED = 2 };

struct pool {
    CUmemoryPool handle; /* NULL: the memory of a device's graphs */
    CUdevice device;
    int card;
    bool live;
    bool is_destroyed; /* what it has stays until all that is allocated of it is freed */
    uint64_t taken;
    uint64_t pending;   /* of these, for launches that are about to be given to the card */
    uint64_t allocated; /* (atomic) */
};

static pthread_mutex_t mu = PTHREAD_MUTEX_INITIALIZER;
static struct pool pools[MAX_POOLS];
static unsigned int reach;
static bool is_trial; /* of the allocation between pools_begin and pools_unlock */

static void forget_after_fork(void)
{
    (void)pthread_mutex_init(&mu, NULL);
    reach = 0;
    is_trial = false;
}

__attribute__((constructor)) static void watch_forks(void)
{
    (void)pthread_atfork(/* prepare= */ NULL, /* parent= */ NULL, forget_after_fork);
}

void pools_lock(void)
{
    (void)pthread_mutex_lock(&mu);
}

void pools_unlock(void)
{
    if (is_trial)
        share_trial_end();
    is_trial = false;
    (void)pthread_mutex_unlock(&mu);
}

/* --- Pools; locked --- */

static struct pool *find(CUmemoryPool handle, CUdevice device)
{
    for (unsigned int i = 0; i < reach; i++) {
        if (pools[i].live && !pools[i].is_destroyed && pools[i].handle == handle &&
            (handle != NULL || pools[i].device == device))
            return &pools[i];
    }
    return NULL;
}

/* NULL: there are too many. */
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

static CUresult ask_real(const struct pool *p, bool used, uint64_t *ret)
{
    if (p->handle != NULL)
        return also.cuMemPoolGetAttribute(p->handle, used ? POOL_USED : POOL_RESERVED, ret);
    return also.cuDeviceGetGraphMemAttribute(p->device, used ? GRAPH_USED : GRAPH_RESERVED, ret);
}

/* Where that cannot be asked: as much as was taken for it. */
static uint64_t ask(const struct pool *p, bool used)
{
    uint64_t value = 0;
    int mode = streams_relax();
    CUresult rc = ask_real(p, used, &value);
    streams_tighten(mode);
    return rc == CUDA_SUCCESS ? value : p->taken;
}

static uint64_t allocated(const struct pool *p)
{
    return __atomic_load_n(&p->allocated, __ATOMIC_ACQUIRE);
}

static bool is_done(CUcontext context, void *arg)
{
    (void)arg;
    return also.cuCtxSetCurrent(context) == CUDA_SUCCESS && streams_are_done(context);
}

/* All work of a card, with what it frees. */
static bool all_is_done(int card)
{
    CUcontext before = NULL;
    int mode = streams_relax();
    (void)also.cuCtxGetCurrent(&before);
    bool done = live_contexts_all(card, is_done, /* arg= */ NULL);
    (void)also.cuCtxSetCurrent(before);
    streams_tighten(mode);
    return done;
}

/* Of one that was destroyed nothing can be asked: it has what it had until everything of it was freed,
 * and the streams have got there. */
static uint64_t reserved(const struct pool *p)
{
    if (!p->is_destroyed)
        return ask(p, /* used= */ false) + p->pending;
    return allocated(p) != 0 || !all_is_done(p->card) ? p->taken : 0;
}

/* False: it has more than there is room for. That counts all the same. */
static bool settle(struct pool *p)
{
    if (p->card < 0)
        return true;
    uint64_t now = reserved(p), before = p->taken;
    bool ok = now <= before || share_take(p->card, now - before);
    if (now < before)
        share_give_back(p->card, before - now);
    else if (!ok)
        share_take_anyway(p->card, now - before);
    p->taken = now;
    p->live = !p->is_destroyed || now != 0;
    return ok;
}

static void settle_all(void)
{
    for (unsigned int i = 0; i < reach; i++) {
        if (pools[i].live)
            (void)settle(&pools[i]);
    }
}

static void trim(struct pool *p)
{
    if (p->card < 0 || p->is_destroyed)
        return;
    if (p->handle != NULL)
        (void)real.cuMemPoolTrimTo(p->handle, 0);
    else
        (void)real.cuDeviceGraphMemTrim(p->device);
}

static void trim_all(void)
{
    int mode = streams_relax();
    for (unsigned int i = 0; i < reach; i++) {
        if (pools[i].live)
            trim(&pools[i]);
    }
    streams_tighten(mode);
    settle_all();
}

/* What the pool has no room for, of so many bytes more. */
static uint64_t lacks(const struct pool *p, uint64_t bytes)
{
    uint64_t used = ask(p, /* used= */ true);
    uint64_t spare = p->taken > used ? p->taken - used : 0;
    return bytes > spare ? bytes - spare : 0;
}

static bool take_room(struct pool *p, uint64_t bytes)
{
    bool ok = share_take(p->card, bytes);
    p->taken += ok ? bytes : 0;
    return ok;
}

/* Takes what the pool may reserve more, if need be of what the pools have to spare. */
static bool take_most(struct pool *p, uint64_t bytes)
{
    (void)settle(p);
    if (take_room(p, bytes))
        return true;
    trim_all();
    return take_room(p, bytes);
}

/* Without room for a slab a small allocation may still fit into what the pool has. Where that is in
 * pieces which are too small, the pool has a slab too many until it is undone: one process of the
 * container at a time tries, and nobody while another one's is there. What is larger has a slab of
 * its own, which was trimmed if it was free. */
static bool begin_trial(struct pool *p, uint64_t bytes)
{
    if (bytes >= SLAB || lacks(p, bytes) != 0 || !share_trial_begin())
        return false;
    is_trial = share_take(p->card, 0);
    if (!is_trial)
        share_trial_end();
    return is_trial;
}

/* For a graph: what the card will at least reserve more. What it reserves besides shows afterwards. */
static bool take(struct pool *p, uint64_t bytes)
{
    (void)settle(p);
    if (take_room(p, lacks(p, bytes)))
        return true;
    trim_all();
    return take_room(p, lacks(p, bytes));
}

/* --- --- */

void pools_settle(void)
{
    pools_lock();
    settle_all();
    pools_unlock();
}

/* What is pending is nobody's spare. */
bool pools_graph_begin(const struct pools_graph *g)
{
    if (g->card < 0)
        return true;
    pools_lock();
    struct pool *p = find_or_add(NULL, g->device);
    bool ok = p != NULL && take(p, p->pending + g->bytes);
    if (ok)
        p->pending += g->bytes;
    pools_unlock();
    return ok;
}

void pools_graph_end(const struct pools_graph *g)
{
    if (g->card < 0)
        return;
    pools_lock();
    struct pool *p = find(NULL, g->device);
    if (p != NULL)
        p->pending -= g->bytes;
    settle_all();
    pools_unlock();
}

/* The device whose own pool it is; -1: of none. An error where that of one cannot be told. */
static CUresult device_of_pool(CUmemoryPool pool, CUdevice *ret)
{
    int n = 0;
    CUmemoryPool found = NULL;
    CUresult rc = also.cuDeviceGetCount(&n);
    *ret = -1;
    for (int i = 0; i < n && *ret < 0; i++) {
        CUresult asked = also.cuDeviceGetDefaultMemPool(&found, i);
        if (asked != CUDA_SUCCESS)
            rc = asked;
        else if (found == pool)
            *ret = i;
    }
    return *ret >= 0 ? CUDA_SUCCESS : rc;
}

CUresult pools_known(CUmemoryPool handle, struct pool **ret)
{
    CUdevice device = -1;
    *ret = handle != NULL ? find(handle, 0) : NULL;
    if (*ret != NULL || handle == NULL)
        return CUDA_SUCCESS;
    CUresult rc = device_of_pool(handle, &device);
    if (rc != CUDA_SUCCESS || card_of_device(device) < 0)
        return rc;
    *ret = add(handle, device);
    return *ret != NULL ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

/* A stream's is that of its device, which need not be the current context's. Of a green context's
 * stream the driver tells none. */
static CUresult device_of_stream(CUstream stream, CUdevice *ret)
{
    CUcontext context = NULL;
    struct ledger_entry e;
    bool is_handle = stream != NULL && stream != STREAM_PER_THREAD;
    CUresult rc = is_handle ? also.cuStreamGetCtx(stream, &context) : CUDA_SUCCESS;
    if (rc != CUDA_SUCCESS && rc != CUDA_ERROR_NOT_SUPPORTED)
        return rc;
    if (context == NULL || ledger_hold(LEDGER_CONTEXT, (uint64_t)(uintptr_t)context, 0, &e) <= 0)
        return also.cuCtxGetDevice(ret);
    *ret = e.device;
    return CUDA_SUCCESS;
}

CUresult pools_of_stream(CUstream stream, struct pool **ret)
{
    CUdevice device = 0;
    CUmemoryPool handle = NULL;
    CUresult rc = device_of_stream(stream, &device);
    if (rc == CUDA_SUCCESS)
        rc = also.cuDeviceGetMemPool(&handle, device);
    return rc == CUDA_SUCCESS ? pools_known(handle, ret) : rc;
}

bool pools_add(CUmemoryPool handle, CUdevice device)
{
    return card_of_device(device) < 0 || add(handle, device) != NULL;
}

void pools_destroyed(CUmemoryPool handle)
{
    struct pool *p = find(handle, 0);
    if (p == NULL)
        return;
    p->is_destroyed = true;
    (void)settle(p);
}

bool pools_begin(struct pool *p, uint64_t bytes)
{
    if (p == NULL)
        return true;
    overhead_follow(p->card);
    return take_most(p, bytes < SLAB ? SLAB : bytes) || begin_trial(p, bytes);
}

bool pools_end(struct pool *p)
{
    return p == NULL || settle(p);
}

/* --- Allocations, by the number of their pool --- */

static void put(uint64_t number, CUdeviceptr pointer, uint64_t bytes)
{
    const struct ledger_entry e = {.key = pointer,
                                   .bytes = bytes,
                                   .owner = number,
                                   .kind = LEDGER_POOLED,
                                   .card = (int8_t)pools[number - 1].card,
                                   .holds = 1};
    ledger_put(&e);
}

void pools_allocated(struct pool *p, CUdeviceptr pointer, uint64_t bytes)
{
    if (p == NULL)
        return;
    (void)__atomic_fetch_add(&p->allocated, bytes, __ATOMIC_RELEASE);
    put((uint64_t)(p - pools) + 1, pointer, bytes);
}

bool pools_free_begin(struct pools_free *f, CUdeviceptr pointer)
{
    struct ledger_entry e = {0};
    bool found = ledger_take(LEDGER_POOLED, pointer, &e);
    *f = (struct pools_free){.pool = e.owner, .pointer = pointer, .bytes = e.bytes};
    return found;
}

CUresult pools_free_end(const struct pools_free *f, CUresult rc)
{
    if (rc == CUDA_SUCCESS)
        (void)__atomic_fetch_sub(&pools[f->pool - 1].allocated, f->bytes, __ATOMIC_RELEASE);
    else
        put(f->pool, f->pointer, f->bytes);
    return rc;
}
