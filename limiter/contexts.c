/* SPDX-License-Identifier: Apache-2.0 */
/* CUDA: initialisation, and contexts, which take memory and free what was allocated in them. */
#include <pthread.h>

#include "limiter/charge.h"
#include "limiter/device.h"
#include "limiter/overhead.h"
#include "limiter/pools.h"
#include "limiter/real.h"
#include "limiter/share.h"

enum { MAX_DEVICES = 64 };

/* Held over the real calls: the handle of a context that has ended may be that of the next. */
static pthread_mutex_t mu = PTHREAD_MUTEX_INITIALIZER;
static CUcontext primaries[MAX_DEVICES];

static void forget_after_fork(void)
{
    (void)pthread_mutex_init(&mu, NULL);
}

__attribute__((constructor)) static void watch_forks(void)
{
    (void)pthread_atfork(/* prepare= */ NULL, /* parent= */ NULL, forget_after_fork);
}

/* Without its share a process gets no card: it is closed rather than unlimited. */
CUresult cuInit(unsigned int flags)
{
    if (!share_attach())
        return CUDA_ERROR_NO_DEVICE;
    CUresult rc = real.cuInit(flags);
    if (rc == CUDA_SUCCESS)
        devices_read();
    return rc;
}

/* --- Contexts; locked --- */

static uint64_t key_of(CUcontext context)
{
    return (uint64_t)(uintptr_t)context;
}

static CUresult note(CUresult rc, int card, const CUcontext *context)
{
    if (rc != CUDA_SUCCESS) {
        overhead_give_back(card);
        return rc;
    }
    const struct ledger_entry e = {.key = key_of(*context),
                                   .kind = LEDGER_CONTEXT,
                                   .card = (int8_t)card,
                                   .holds = 1};
    ledger_put(&e);
    return rc;
}

static void end(CUcontext context)
{
    struct ledger_entry e;
    if (!ledger_take(LEDGER_CONTEXT, key_of(context), &e))
        return;
    charge_end_context(e.key);
    overhead_give_back(e.card);
    pools_settle();
}

static bool is_active(CUdevice device)
{
    unsigned int flags = 0;
    int active = 0;
    return also.cuDevicePrimaryCtxGetState(device, &flags, &active) == CUDA_SUCCESS && active != 0;
}

static CUresult retain(CUcontext *context, CUdevice device)
{
    int card = card_of_device(device);
    if (card < 0 || is_active(device))
        return real.cuDevicePrimaryCtxRetain(context, device);
    if (!overhead_take(card))
        return CUDA_ERROR_OUT_OF_MEMORY;
    CUresult rc = note(real.cuDevicePrimaryCtxRetain(context, device), card, context);
    if (rc == CUDA_SUCCESS)
        primaries[device] = *context;
    return rc;
}

static CUresult let_go(CUresult rc, CUdevice device)
{
    if (rc == CUDA_SUCCESS && card_of_device(device) >= 0 && !is_active(device))
        end(primaries[device]);
    return rc;
}

/* --- The calls --- */

static void lock(void)
{
    (void)pthread_mutex_lock(&mu);
}

static CUresult unlock(CUresult rc)
{
    (void)pthread_mutex_unlock(&mu);
    return rc;
}

#define CREATE(context, device, call)                                                              \
    lock();                                                                                        \
    int card = share_is_attached() ? card_of_device(device) : -1;                                  \
    if (!overhead_take(card))                                                                      \
        return unlock(CUDA_ERROR_OUT_OF_MEMORY);                                                   \
    return unlock(note(call, card, context))

CUresult cuCtxCreate_v2(CUcontext *context, unsigned int flags, CUdevice device)
{
    CREATE(context, device, real.cuCtxCreate_v2(context, flags, device));
}

CUresult cuCtxCreate(CUcontext *context, unsigned int flags, CUdevice device)
{
    CREATE(context, device, real.cuCtxCreate(context, flags, device));
}

CUresult cuCtxCreate_v3(CUcontext *context, void *affinities, int n, unsigned int flags,
                        CUdevice device)
{
    CREATE(context, device, real.cuCtxCreate_v3(context, affinities, n, flags, device));
}

CUresult cuCtxCreate_v4(CUcontext *context, void *params, unsigned int flags, CUdevice device)
{
    CREATE(context, device, real.cuCtxCreate_v4(context, params, flags, device));
}

#define DESTROY(context, call)                                                                     \
    lock();                                                                                        \
    CUresult rc = call;                                                                            \
    if (rc == CUDA_SUCCESS)                                                                        \
        end(context);                                                                              \
    return unlock(rc)

CUresult cuCtxDestroy_v2(CUcontext context)
{
    DESTROY(context, real.cuCtxDestroy_v2(context));
}

CUresult cuCtxDestroy(CUcontext context)
{
    DESTROY(context, real.cuCtxDestroy(context));
}

CUresult cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice device)
{
    lock();
    return unlock(retain(context, device));
}

CUresult cuDevicePrimaryCtxRelease_v2(CUdevice device)
{
    lock();
    return unlock(let_go(real.cuDevicePrimaryCtxRelease_v2(device), device));
}

CUresult cuDevicePrimaryCtxReset_v2(CUdevice device)
{
    lock();
    return unlock(let_go(real.cuDevicePrimaryCtxReset_v2(device), device));
}

CUresult cuDevicePrimaryCtxRelease(CUdevice device)
{
    lock();
    return unlock(let_go(real.cuDevicePrimaryCtxRelease(device), device));
}

CUresult cuDevicePrimaryCtxReset(CUdevice device)
{
    lock();
    return unlock(let_go(real.cuDevicePrimaryCtxReset(device), device));
}
