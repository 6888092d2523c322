/* SPDX-License-Identifier: Apache-2.0 */
/* CUDA: limits of a context, some of which are memory of the card. */
#include "limiter/charge.h"
#include "limiter/device.h"
#include "limiter/real.h"

enum { LIMIT_STACK = 0, LIMIT_PRINTF = 1, LIMIT_HEAP = 2 };
enum { ATTRIBUTE_PROCESSORS = 16, ATTRIBUTE_THREADS = 39 };

/* What contexts have by themselves is in what a context takes. Source: CUDA C++ Programming Guide,
 * and the defaults that cuCtxGetLimit tells. */
#define STACK_DEFAULT  UINT64_C(1024)
#define PRINTF_DEFAULT (UINT64_C(1) << 20U)
#define HEAP_DEFAULT   (UINT64_C(8) << 20U)

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

static uint64_t bytes_of(int limit, size_t value)
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

CUresult cuCtxSetLimit(int limit, size_t value)
{
    struct charge c;
    struct ledger_entry before;
    CUresult rc = charge_begin(&c, LEDGER_LIMIT, bytes_of(limit, value));
    const uint64_t key = c.context ^ ((uint64_t)(unsigned int)limit << 60U);
    if (rc == CUDA_SUCCESS)
        rc = real.cuCtxSetLimit(limit, value);
    if (rc == CUDA_SUCCESS && ledger_take(LEDGER_LIMIT, key, &before))
        charge_give_back(&before);
    return charge_end(&c, rc, &key);
}
