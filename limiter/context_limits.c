/* SPDX-License-Identifier: Apache-2.0 */
/* CUDA: limits of a context, some of which are memory of the card. */
#include <pthread.h>

#include "limiter/charge.h"
#include "limiter/device.h"
#include "limiter/pieces.h"
#include "limiter/real.h"

enum { LIMIT_STACK = 0, LIMIT_PRINTF = 1, LIMIT_HEAP = 2 };
enum { ATTRIBUTE_PROCESSORS = 16, ATTRIBUTE_THREADS = 39 };

/* What contexts have by themselves is in what a context takes. Source: CUDA C++ Programming Guide,
 * and the defaults that cuCtxGetLimit tells. */
#define STACK_DEFAULT  UINT64_C(1024)
#define PRINTF_DEFAULT (UINT64_C(1) << 20U)
#define HEAP_DEFAULT   (UINT64_C(8) << 20U)

/* Held over the real call: the next one's difference is to what this one left. */
static pthread_mutex_t mu = PTHREAD_MUTEX_INITIALIZER;

static void forget_after_fork(void)
{
    (void)pthread_mutex_init(&mu, NULL);
}

__attribute__((constructor)) static void watch_forks(void)
{
    (void)pthread_atfork(/* prepare= */ NULL, /* parent= */ NULL, forget_after_fork);
}

static uint64_t attribute(int which)
{
    CUdevice device = 0;
    int value = 0;
    if (also.cuCtxGetDevice(&device) != CUDA_SUCCESS ||
        also.cuDeviceGetAttribute(&value, which, device) != CUDA_SUCCESS || value < 0)
        return 0;
    return (uint64_t)value;
}

static uint64_t above(uint64_t value, uint64_t usual)
{
    return value > usual ? value - usual : 0;
}

/* Each thread that the card can have at a time has a stack. */
static uint64_t stacks(uint64_t each)
{
    uint64_t bytes = 0, threads = attribute(ATTRIBUTE_PROCESSORS) * attribute(ATTRIBUTE_THREADS);
    return __builtin_mul_overflow(above(each, STACK_DEFAULT), threads, &bytes) ? UINT64_MAX : bytes;
}

static uint64_t beyond_usual(int limit, size_t value)
{
    switch (limit) {
    case LIMIT_STACK:
        return stacks(value);
    case LIMIT_PRINTF:
        return above(value, PRINTF_DEFAULT);
    case LIMIT_HEAP:
        return above(value, HEAP_DEFAULT);
    default:
        return 0;
    }
}

/* Whole granules, so that differences of two values are some, too. */
static uint64_t bytes_of(int limit, size_t value)
{
    uint64_t bytes = beyond_usual(limit, value), more = (PIECES_GRANULE - bytes) % PIECES_GRANULE;
    return bytes <= UINT64_MAX - more ? bytes + more : UINT64_MAX;
}

/* What this limit of the context takes, if anything. */
static struct ledger_entry take_entry(const struct here *here, int limit)
{
    const uint64_t context = here->is_unknown ? 0 : (uint64_t)(uintptr_t)here->context;
    struct ledger_entry e = {.key = context ^ ((uint64_t)(unsigned int)limit << 60U),
                             .owner = context,
                             .kind = LEDGER_LIMIT,
                             .card = (int8_t)here->card,
                             .holds = 1};
    (void)ledger_take(LEDGER_LIMIT, e.key, &e);
    return e;
}

static void give_back(struct ledger_entry e, uint64_t bytes)
{
    e.bytes = bytes;
    charge_give_back(&e);
}

static CUresult grow(const struct here *here, struct ledger_entry *e, uint64_t to, int limit,
                     size_t value)
{
    struct charge more;
    uint64_t bytes = to - e->bytes;
    CUresult rc = charge_begin_on(&more, LEDGER_LIMIT, here->card, bytes);
    if (rc != CUDA_SUCCESS)
        return rc;
    rc = real.cuCtxSetLimit(limit, value);
    if (rc == CUDA_SUCCESS)
        e->bytes = to;
    else
        give_back(*e, bytes);
    return rc;
}

static CUresult shrink(struct ledger_entry *e, uint64_t to, int limit, size_t value)
{
    CUresult rc = real.cuCtxSetLimit(limit, value);
    if (rc == CUDA_SUCCESS) {
        give_back(*e, e->bytes - to);
        e->bytes = to;
    }
    return rc;
}

/* Room is taken for what it takes more than before, and no more. */
static CUresult set(const struct here *here, int limit, size_t value)
{
    struct ledger_entry e = take_entry(here, limit);
    uint64_t to = bytes_of(limit, value);
    CUresult rc = to > e.bytes ? grow(here, &e, to, limit, value) : shrink(&e, to, limit, value);
    if (e.bytes != 0)
        ledger_put(&e);
    return rc;
}

CUresult cuCtxSetLimit(int limit, size_t value)
{
    struct here here;
    CUresult rc = here_now(&here);
    if (rc != CUDA_SUCCESS)
        return rc;
    if (here.card < 0)
        return real.cuCtxSetLimit(limit, value);
    (void)pthread_mutex_lock(&mu);
    rc = set(&here, limit, value);
    (void)pthread_mutex_unlock(&mu);
    return rc;
}
