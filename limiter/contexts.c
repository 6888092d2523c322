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

static CUcontext primary_of(CUdevice device)
{
    return card_of_device(device) >= 0 ? primaries[device].context : NULL;
}

/* After a call that may have ended a context, which was no live one meanwhile, so that nobody asked
 * it. */
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

/* A context that is to be made. */
struct creation {
    CUdevice device;
    int card;
    bool has_room;
};

/* SUCCESS: the call is to be made. Whatever it returns, end_creation follows. */
static CUresult begin_creation(struct creation *c, CUdevice device)
{
    lock();
    *c = (struct creation){.device = device, .card = card_of_device(device)};
    if (!devices_are_ready())
        return CUDA_ERROR_NOT_INITIALIZED;
    c->has_room = overhead_take(c->card);
    return c->has_room ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

static CUresult end_creation(const struct creation *c, CUresult rc, const CUcontext *context)
{
    return unlock(c->has_room ? note(rc, c->card, c->device, context) : rc);
}

CUresult cuCtxCreate_v2(CUcontext *context, unsigned int flags, CUdevice device)
{
    struct creation c;
    CUresult rc = begin_creation(&c, device);
    if (rc == CUDA_SUCCESS)
        rc = real.cuCtxCreate_v2(context, flags, device);
    return end_creation(&c, rc, context);
}

CUresult cuCtxCreate(CUcontext *context, unsigned int flags, CUdevice device)
{
    struct creation c;
    CUresult rc = begin_creation(&c, device);
    if (rc == CUDA_SUCCESS)
        rc = real.cuCtxCreate(context, flags, device);
    return end_creation(&c, rc, context);
}

CUresult cuCtxCreate_v3(CUcontext *context, void *affinities, int n, unsigned int flags,
                        CUdevice device)
{
    struct creation c;
    CUresult rc = begin_creation(&c, device);
    if (rc == CUDA_SUCCESS)
        rc = real.cuCtxCreate_v3(context, affinities, n, flags, device);
    return end_creation(&c, rc, context);
}

CUresult cuCtxCreate_v4(CUcontext *context, void *params, unsigned int flags, CUdevice device)
{
    struct creation c;
    CUresult rc = begin_creation(&c, device);
    if (rc == CUDA_SUCCESS)
        rc = real.cuCtxCreate_v4(context, params, flags, device);
    return end_creation(&c, rc, context);
}

CUresult cuCtxDestroy_v2(CUcontext context)
{
    lock();
    live_contexts_remove(context);
    return unlock(left(real.cuCtxDestroy_v2(context), context, /* ended= */ true));
}

CUresult cuCtxDestroy(CUcontext context)
{
    lock();
    live_contexts_remove(context);
    return unlock(left(real.cuCtxDestroy(context), context, /* ended= */ true));
}

CUresult cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice device)
{
    lock();
    return unlock(retain(context, device));
}

static CUcontext leave_primary(CUdevice device)
{
    CUcontext context = primary_of(device);
    live_contexts_remove(context);
    return context;
}

static CUresult left_primary(CUresult rc, CUcontext context, CUdevice device)
{
    bool ended = !is_active(device);
    if (rc == CUDA_SUCCESS && ended && context != NULL)
        primaries[device].context = NULL;
    return left(rc, context, ended);
}

/* A use of a device's primary context that is to be let go of. */
struct release {
    CUdevice device;
    bool is_retained_more; /* by somebody else, too: the context stays as it is */
    CUcontext context;
};

static struct release begin_release(CUdevice device)
{
    lock();
    struct release r = {.device = device};
    r.is_retained_more = card_of_device(device) >= 0 && primaries[device].retains > 1;
    if (!r.is_retained_more)
        r.context = leave_primary(device);
    return r;
}

static CUresult end_release(const struct release *r, CUresult rc)
{
    bool is_known = card_of_device(r->device) >= 0 && primaries[r->device].retains > 0;
    if (rc == CUDA_SUCCESS && is_known)
        primaries[r->device].retains--;
    return unlock(r->is_retained_more ? rc : left_primary(rc, r->context, r->device));
}

CUresult cuDevicePrimaryCtxRelease_v2(CUdevice device)
{
    const struct release r = begin_release(device);
    return end_release(&r, real.cuDevicePrimaryCtxRelease_v2(device));
}

CUresult cuDevicePrimaryCtxRelease(CUdevice device)
{
    const struct release r = begin_release(device);
    return end_release(&r, real.cuDevicePrimaryCtxRelease(device));
}

CUresult cuDevicePrimaryCtxReset_v2(CUdevice device)
{
    lock();
    CUcontext context = leave_primary(device);
    return unlock(left_primary(real.cuDevicePrimaryCtxReset_v2(device), context, device));
}

CUresult cuDevicePrimaryCtxReset(CUdevice device)
{
    lock();
    CUcontext context = leave_primary(device);
    return unlock(left_primary(real.cuDevicePrimaryCtxReset(device), context, device));
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
    live_contexts_remove(context);
    CUresult rc = real.cuCtxDetach(context);
    return unlock(left(rc, context, rc == CUDA_SUCCESS && is_last_use(context)));
}
