/* SPDX-License-Identifier: Apache-2.0 */
/* CUDA: initialisation, and contexts, which take memory and free what was allocated in them. */
#include <pthread.h>

#include "limiter/charge.h"
#include "limiter/device.h"
#include "limiter/flight.h"
#include "limiter/gate.h"
#include "limiter/live_contexts.h"
#include "limiter/overhead.h"
#include "limiter/pools.h"
#include "limiter/real.h"
#include "limiter/share.h"
#include "limiter/streams.h"

/* Held over the real calls: the handle of a context that has ended may be that of the next. */
static pthread_mutex_t mu = PTHREAD_MUTEX_INITIALIZER;
static struct {
    CUcontext context;
    unsigned int retains;
} primaries[DEVICES_MAX];

static void forget_after_fork(void)
{
    (void)pthread_mutex_init(&mu, NULL);
}

__attribute__((constructor)) static void watch_forks(void)
{
    (void)pthread_atfork(/* prepare= */ NULL, /* parent= */ NULL, forget_after_fork);
}

/* Without its share a process gets no card: it is refused rather than unlimited. */
CUresult cuInit(unsigned int flags)
{
    if (!share_attach())
        return CUDA_ERROR_NO_DEVICE;
    CUresult rc = real.cuInit(flags);
    return rc == CUDA_SUCCESS ? devices_read() : rc;
}

/* --- Contexts; locked --- */

static uint64_t key_of(CUcontext context)
{
    return (uint64_t)(uintptr_t)context;
}

static CUresult note(CUresult rc, int card, CUdevice device, const CUcontext *context)
{
    if (rc != CUDA_SUCCESS) {
        overhead_give_back(card);
        return rc;
    }
    const struct ledger_entry e = {.key = key_of(*context),
                                   .kind = LEDGER_CONTEXT,
                                   .card = (int8_t)card,
                                   .device = (int16_t)device,
                                   .holds = 1};
    ledger_put(&e);
    live_contexts_add(*context, card);
    gate_serve(card);
    return rc;
}

static void end(CUcontext context)
{
    struct ledger_entry e;
    flight_end_context(context);
    streams_end_context(context);
    if (!ledger_take(LEDGER_CONTEXT, key_of(context), &e))
        return;
    charge_end_context(e.key);
    overhead_give_back(e.card);
    pools_settle();
}

/* A driver that cannot be asked is answered for by the contexts that are known here. */
static bool is_active(CUdevice device)
{
    unsigned int flags = 0;
    int active = 0;
    if (also.cuDevicePrimaryCtxGetState(device, &flags, &active) == CUDA_SUCCESS)
        return active != 0;
    return live_contexts_card(primaries[device].context) != LIVE_CONTEXTS_UNKNOWN;
}

static CUresult retain_new(CUcontext *context, CUdevice device, int card)
{
    if (!overhead_take(card))
        return CUDA_ERROR_OUT_OF_MEMORY;
    CUresult rc = note(real.cuDevicePrimaryCtxRetain(context, device), card, device, context);
    if (rc == CUDA_SUCCESS)
        primaries[device].context = *context;
    return rc;
}

static CUresult retain(CUcontext *context, CUdevice device)
{
    if (!devices_are_ready())
        return CUDA_ERROR_NOT_INITIALIZED;
    int card = card_of_device(device);
    if (card < 0)
        return real.cuDevicePrimaryCtxRetain(context, device);
    CUresult rc = primaries[device].context != NULL ? real.cuDevicePrimaryCtxRetain(context, device)
                                                    : retain_new(context, device, card);
    primaries[device].retains += rc == CUDA_SUCCESS;
    return rc;
}

/* A context that may end: nobody asks it meanwhile. */
static CUcontext leave(CUcontext context)
{
    live_contexts_remove(context);
    return context;
}

static CUcontext primary_of(CUdevice device)
{
    return card_of_device(device) >= 0 ? primaries[device].context : NULL;
}

static CUresult left(CUresult rc, CUcontext context, bool ended)
{
    struct ledger_entry e;
    if (rc == CUDA_SUCCESS && ended)
        end(context);
    else if (ledger_hold(LEDGER_CONTEXT, key_of(context), 0, &e) > 0)
        live_contexts_add(context, e.card);
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
    int card = card_of_device(device);                                                             \
    if (!devices_are_ready())                                                                      \
        return unlock(CUDA_ERROR_NOT_INITIALIZED);                                                 \
    if (!overhead_take(card))                                                                      \
        return unlock(CUDA_ERROR_OUT_OF_MEMORY);                                                   \
    return unlock(note(call, card, device, context))

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

/* The calls are made between leave and left. */
#define DESTROY(context, call)                                                                     \
    lock();                                                                                        \
    (void)leave(context);                                                                          \
    return unlock(left(call, context, true))

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

#define LET_GO(device, call)                                                                       \
    CUcontext context = leave(primary_of(device));                                                 \
    CUresult rc = call;                                                                            \
    return unlock(left_primary(rc, context, device))

static CUresult left_primary(CUresult rc, CUcontext context, CUdevice device)
{
    bool ended = !is_active(device);
    if (rc == CUDA_SUCCESS && ended && context != NULL)
        primaries[device].context = NULL;
    return left(rc, context, ended);
}

/* A context that somebody else has retained, too, stays as it is. */
#define RELEASE(device, call)                                                                      \
    lock();                                                                                        \
    if (is_retained_more(device))                                                                  \
        return unlock(released(call, device));                                                     \
    LET_GO(device, released(call, device))

static bool is_retained_more(CUdevice device)
{
    return card_of_device(device) >= 0 && primaries[device].retains > 1;
}

static CUresult released(CUresult rc, CUdevice device)
{
    if (rc == CUDA_SUCCESS && card_of_device(device) >= 0 && primaries[device].retains > 0)
        primaries[device].retains--;
    return rc;
}

CUresult cuDevicePrimaryCtxRelease_v2(CUdevice device)
{
    RELEASE(device, real.cuDevicePrimaryCtxRelease_v2(device));
}

CUresult cuDevicePrimaryCtxRelease(CUdevice device)
{
    RELEASE(device, real.cuDevicePrimaryCtxRelease(device));
}

CUresult cuDevicePrimaryCtxReset_v2(CUdevice device)
{
    lock();
    LET_GO(device, real.cuDevicePrimaryCtxReset_v2(device));
}

CUresult cuDevicePrimaryCtxReset(CUdevice device)
{
    lock();
    LET_GO(device, real.cuDevicePrimaryCtxReset(device));
}

/* Uses of a context, which ends with the last of them. Deprecated since CUDA 4. */
CUresult cuCtxAttach(CUcontext *context, unsigned int flags)
{
    struct ledger_entry e;
    lock();
    CUresult rc = real.cuCtxAttach(context, flags);
    if (rc == CUDA_SUCCESS)
        (void)ledger_hold(LEDGER_CONTEXT, key_of(*context), 1, &e);
    return unlock(rc);
}

static bool is_last_use(CUcontext context)
{
    struct ledger_entry e;
    int uses = ledger_hold(LEDGER_CONTEXT, key_of(context), 0, &e);
    if (uses > 1)
        (void)ledger_hold(LEDGER_CONTEXT, key_of(context), -1, &e);
    return uses == 1;
}

CUresult cuCtxDetach(CUcontext context)
{
    lock();
    (void)leave(context);
    CUresult rc = real.cuCtxDetach(context);
    return unlock(left(rc, context, rc == CUDA_SUCCESS && is_last_use(context)));
}
