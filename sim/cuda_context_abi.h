/* SPDX-License-Identifier: Apache-2.0 */
/* The part of the ABI (cuda.h) that is about contexts: their limits, and how they are made in other ways
 * than by cuCtxCreate_v2. */
#pragma once

#include "sim/cuda_abi.h"

enum {
    CU_LIMIT_STACK_SIZE = 0,
    CU_LIMIT_PRINTF_FIFO_SIZE = 1,
    CU_LIMIT_MALLOC_HEAP_SIZE = 2,
    CU_LIMIT_DEV_RUNTIME_SYNC_DEPTH = 3,
    CU_LIMIT_DEV_RUNTIME_PENDING_LAUNCH_COUNT = 4,
    CU_LIMIT_MAX_L2_FETCH_GRANULARITY = 5,
    CU_LIMIT_PERSISTING_L2_CACHE_SIZE = 6,
    CU_LIMIT_SHMEM_SIZE = 7,
    CU_LIMIT_CIG_ENABLED = 8,
    CU_LIMIT_CIG_SHMEM_FALLBACK_ENABLED = 9,
};

typedef struct {
    int type;
    union {
        unsigned int sm_count;
    } param;
} CUexecAffinityParam;

typedef struct {
    CUexecAffinityParam *execAffinityParams;
    int numExecAffinityParams;
    void *cigParams;
} CUctxCreateParams;

CUDA_API CUresult cuCtxSetLimit(int limit, size_t value);
CUDA_API CUresult cuCtxGetLimit(size_t *value, int limit);
CUDA_API CUresult cuCtxGetDevice_v2(CUdevice *device, CUcontext context);
CUDA_API CUresult cuCtxSynchronize_v2(CUcontext context);
CUDA_API CUresult cuCtxCreate_v3(CUcontext *context, CUexecAffinityParam *params, int count,
                                 unsigned int flags, CUdevice device);
CUDA_API CUresult cuCtxCreate_v4(CUcontext *context, CUctxCreateParams *params, unsigned int flags,
                                 CUdevice device);

/* Of earlier versions. */
CUDA_API CUresult cuCtxCreate(CUcontext *context, unsigned int flags, CUdevice device);
CUDA_API CUresult cuCtxDestroy(CUcontext context);
CUDA_API CUresult cuCtxAttach(CUcontext *context, unsigned int flags);
CUDA_API CUresult cuCtxDetach(CUcontext context);
CUDA_API CUresult cuCtxPushCurrent(CUcontext context);
CUDA_API CUresult cuCtxPopCurrent(CUcontext *context);
CUDA_API CUresult cuDevicePrimaryCtxRelease(CUdevice device);
CUDA_API CUresult cuDevicePrimaryCtxReset(CUdevice device);
CUDA_API CUresult cuDevicePrimaryCtxSetFlags(CUdevice device, unsigned int flags);
