/* SPDX-License-Identifier: Apache-2.0 */
/* CUDA: linear memory, and what is told of memory. */
#include "limiter/charge.h"
#include "limiter/device.h"
#include "limiter/overhead.h"
#include "limiter/pools.h"
#include "limiter/real.h"
#include "limiter/share.h"

CUresult cuMemAlloc_v2(CUdeviceptr *pointer, size_t bytes)
{
    struct charge c;
    CUresult rc = charge_begin(&c, LEDGER_POINTER, bytes);
    if (rc == CUDA_SUCCESS)
        rc = real.cuMemAlloc_v2(pointer, bytes);
    return charge_end(&c, rc, pointer);
}

CUresult cuMemAllocPitch_v2(CUdeviceptr *pointer, size_t *pitch, size_t width, size_t height,
                            unsigned int element)
{
    struct charge c;
    uint64_t bytes = 0;
    if (__builtin_mul_overflow(charge_pitch(width), height, &bytes))
        return CUDA_ERROR_OUT_OF_MEMORY;
    CUresult rc = charge_begin(&c, LEDGER_POINTER, bytes);
    if (rc == CUDA_SUCCESS)
        rc = real.cuMemAllocPitch_v2(pointer, pitch, width, height, element);
    return charge_end(&c, rc, pointer);
}

/* It frees what a pool has given, too. */
CUresult cuMemFree_v2(CUdeviceptr pointer)
{
    struct charge_free f;
    struct pools_free p;
    charge_free_begin(&f, LEDGER_POINTER, pointer);
    if (!f.is_known && pools_free_begin(&p, pointer))
        return pools_free_end(&p, real.cuMemFree_v2(pointer));
    return charge_free_end(&f, real.cuMemFree_v2(pointer));
}

CUresult cuMemAllocManaged(CUdeviceptr *pointer, size_t bytes, unsigned int flags)
{
    struct charge c;
    CUresult rc = charge_begin(&c, LEDGER_POINTER, bytes);
    if (rc == CUDA_SUCCESS)
        rc = real.cuMemAllocManaged(pointer, bytes, flags);
    return charge_end(&c, rc, pointer);
}

/* --- With words of 32 bits, which the driver still has --- */

static CUresult end_v1(const struct charge *c, CUresult rc, const CUdeviceptr_v1 *pointer)
{
    const uint64_t key = rc == CUDA_SUCCESS ? *pointer : 0;
    return charge_end(c, rc, &key);
}

CUresult cuMemAlloc(CUdeviceptr_v1 *pointer, unsigned int bytes)
{
    struct charge c;
    CUresult rc = charge_begin(&c, LEDGER_POINTER, bytes);
    if (rc == CUDA_SUCCESS)
        rc = real.cuMemAlloc(pointer, bytes);
    return end_v1(&c, rc, pointer);
}

CUresult cuMemAllocPitch(CUdeviceptr_v1 *pointer, unsigned int *pitch, unsigned int width,
                         unsigned int height, unsigned int element)
{
    struct charge c;
    CUresult rc = charge_begin(&c, LEDGER_POINTER, charge_pitch(width) * height);
    if (rc == CUDA_SUCCESS)
        rc = real.cuMemAllocPitch(pointer, pitch, width, height, element);
    return end_v1(&c, rc, pointer);
}

CUresult cuMemFree(CUdeviceptr_v1 pointer)
{
    struct charge_free f;
    charge_free_begin(&f, LEDGER_POINTER, pointer);
    return charge_free_end(&f, real.cuMemFree(pointer));
}

/* --- Answers --- */

static uint64_t limit_of(int card)
{
    return __atomic_load_n(&share_terms(card)->memory_bytes, __ATOMIC_RELAXED);
}

/* The share's, where the card has less left than that. */
static void narrow(int card, size_t *free, size_t *total)
{
    overhead_follow(card);
    pools_settle();
    uint64_t limit = limit_of(card), taken = share_taken(card);
    uint64_t left = taken < limit ? limit - taken : 0;
    if (left < *free)
        *free = left;
    if (limit < *total)
        *total = limit;
}

CUresult cuMemGetInfo_v2(size_t *free, size_t *total)
{
    struct here here;
    CUresult rc = here_now(&here);
    if (rc == CUDA_SUCCESS)
        rc = real.cuMemGetInfo_v2(free, total);
    if (rc == CUDA_SUCCESS && here.card >= 0)
        narrow(here.card, free, total);
    return rc;
}

CUresult cuDeviceTotalMem_v2(size_t *bytes, CUdevice device)
{
    CUresult rc = real.cuDeviceTotalMem_v2(bytes, device);
    int card = share_is_attached() ? card_of_device(device) : -1;
    if (rc == CUDA_SUCCESS && card >= 0 && limit_of(card) < *bytes)
        *bytes = limit_of(card);
    return rc;
}

static unsigned int word(size_t bytes)
{
    return bytes < UINT32_MAX ? (unsigned int)bytes : UINT32_MAX;
}

CUresult cuMemGetInfo(unsigned int *free, unsigned int *total)
{
    size_t wide_free = 0, wide_total = 0;
    CUresult rc = real.cuMemGetInfo(free, total);
    if (rc == CUDA_SUCCESS)
        rc = cuMemGetInfo_v2(&wide_free, &wide_total);
    if (rc == CUDA_SUCCESS) {
        *free = word(wide_free);
        *total = word(wide_total);
    }
    return rc;
}

CUresult cuDeviceTotalMem(unsigned int *bytes, CUdevice device)
{
    size_t wide = 0;
    CUresult rc = real.cuDeviceTotalMem(bytes, device);
    if (rc == CUDA_SUCCESS)
        rc = cuDeviceTotalMem_v2(&wide, device);
    if (rc == CUDA_SUCCESS)
        *bytes = word(wide);
    return rc;
}
