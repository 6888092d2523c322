/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A real CUDA of one card that needs no C library and has no thread-local variables: for containers
 * whose C library is older than the simulated CUDA needs, and for static programs, whose libraries
 * glibc gives no such variables. It gives memory without end, at addresses that nobody writes to.
 */
#include "limiter/cuda_abi.h"

#define SMALL_API __attribute__((visibility("default")))

SMALL_API CUresult cuInit(unsigned int flags);
SMALL_API CUresult cuDeviceGetCount(int *count);
SMALL_API CUresult cuDeviceGet(CUdevice *device, int ordinal);
SMALL_API CUresult cuDeviceGetUuid(CUuuid *uuid, CUdevice device);
SMALL_API CUresult cuDeviceTotalMem_v2(size_t *bytes, CUdevice device);
SMALL_API CUresult cuDevicePrimaryCtxRetain(void **context, CUdevice device);
SMALL_API CUresult cuDevicePrimaryCtxGetState(CUdevice device, unsigned int *flags, int *active);
SMALL_API CUresult cuCtxSetCurrent(void *context);
SMALL_API CUresult cuCtxGetCurrent(void **context);
SMALL_API CUresult cuCtxGetDevice(CUdevice *device);
SMALL_API CUresult cuMemAlloc_v2(CUdeviceptr *pointer, size_t bytes);

static char primary;
static int is_active;
static CUdeviceptr next = 1UL << 40;

CUresult cuInit(unsigned int flags)
{
    return flags == 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuDeviceGetCount(int *count)
{
    *count = 1;
    return CUDA_SUCCESS;
}

CUresult cuDeviceGet(CUdevice *device, int ordinal)
{
    *device = ordinal;
    return CUDA_SUCCESS;
}

CUresult cuDeviceGetUuid(CUuuid *uuid, CUdevice device)
{
    (void)device;
    for (int i = 0; i < 16; i++)
        uuid->bytes[i] = 0x11;
    return CUDA_SUCCESS;
}

CUresult cuDeviceTotalMem_v2(size_t *bytes, CUdevice device)
{
    (void)device;
    *bytes = 80UL << 30;
    return CUDA_SUCCESS;
}

CUresult cuDevicePrimaryCtxRetain(void **context, CUdevice device)
{
    (void)device;
    is_active = 1;
    *context = &primary;
    return CUDA_SUCCESS;
}

CUresult cuDevicePrimaryCtxGetState(CUdevice device, unsigned int *flags, int *active)
{
    (void)device;
    *flags = 0;
    *active = is_active;
    return CUDA_SUCCESS;
}

CUresult cuCtxSetCurrent(void *context)
{
    (void)context;
    return CUDA_SUCCESS;
}

CUresult cuCtxGetCurrent(void **context)
{
    *context = &primary;
    return CUDA_SUCCESS;
}

CUresult cuCtxGetDevice(CUdevice *device)
{
    *device = 0;
    return CUDA_SUCCESS;
}

CUresult cuMemAlloc_v2(CUdeviceptr *pointer, size_t bytes)
{
    *pointer = next;
    next += bytes;
    return CUDA_SUCCESS;
}
