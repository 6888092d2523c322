/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A libcuda.so.1 that does nothing and does it at once, so that what stands in front of it can be
 * measured: one device, one context, addresses that count up.
 */
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define API __attribute__((visibility("default")))

static int context;

API int cuInit(unsigned int flags);
API int cuDriverGetVersion(int *version);
API int cuDeviceGetCount(int *count);
API int cuDeviceGet(int *device, int ordinal);
API int cuDeviceGetUuid(void *uuid, int device);
API int cuDeviceGetUuid_v2(void *uuid, int device);
API int cuDeviceTotalMem_v2(size_t *bytes, int device);
API int cuDeviceGetAttribute(int *value, int attribute, int device);
API int cuDevicePrimaryCtxRetain(void **ret, int device);
API int cuDevicePrimaryCtxGetState(int device, unsigned int *flags, int *active);
API int cuCtxSetCurrent(void *ret);
API int cuCtxGetCurrent(void **ret);
API int cuCtxGetDevice(int *device);
API int cuMemGetInfo_v2(size_t *free, size_t *total);
API int cuMemAlloc_v2(uint64_t *pointer, size_t bytes);
API int cuMemFree_v2(uint64_t pointer);
API int cuLaunchKernel(void *f, unsigned int gx, unsigned int gy, unsigned int gz, unsigned int bx,
                       unsigned int by, unsigned int bz, unsigned int shared, void *stream,
                       void **params, void **extra);

int cuInit(unsigned int flags)
{
    return (int)flags;
}

int cuDriverGetVersion(int *version)
{
    *version = 12090;
    return 0;
}

int cuDeviceGetCount(int *count)
{
    *count = 1;
    return 0;
}

int cuDeviceGet(int *device, int ordinal)
{
    *device = ordinal;
    return ordinal == 0 ? 0 : 101;
}

int cuDeviceGetUuid(void *uuid, int device)
{
    memset(uuid, 1, 16);
    return device;
}

int cuDeviceGetUuid_v2(void *uuid, int device)
{
    return cuDeviceGetUuid(uuid, device);
}

int cuDeviceTotalMem_v2(size_t *bytes, int device)
{
    *bytes = (size_t)80 << 30U;
    return device;
}

int cuDeviceGetAttribute(int *value, int attribute, int device)
{
    *value = attribute;
    return device;
}

int cuDevicePrimaryCtxRetain(void **ret, int device)
{
    *ret = &context;
    return device;
}

int cuDevicePrimaryCtxGetState(int device, unsigned int *flags, int *active)
{
    *flags = 0;
    *active = 0;
    return device;
}

int cuCtxSetCurrent(void *ret)
{
    (void)ret;
    return 0;
}

int cuCtxGetCurrent(void **ret)
{
    *ret = &context;
    return 0;
}

int cuCtxGetDevice(int *device)
{
    *device = 0;
    return 0;
}

int cuMemGetInfo_v2(size_t *free, size_t *total)
{
    *free = *total = (size_t)80 << 30U;
    return 0;
}

int cuMemAlloc_v2(uint64_t *pointer, size_t bytes)
{
    static uint64_t next = UINT64_C(0x700000000000);
    *pointer = __atomic_add_fetch(&next, (bytes + 511) / 512 * 512, __ATOMIC_RELAXED);
    return 0;
}

int cuMemFree_v2(uint64_t pointer)
{
    return pointer == 1;
}

int cuLaunchKernel(void *f, unsigned int gx, unsigned int gy, unsigned int gz, unsigned int bx,
                   unsigned int by, unsigned int bz, unsigned int shared, void *stream,
                   void **params, void **extra)
{
    (void)f, (void)gx, (void)gy, (void)gz, (void)bx, (void)by, (void)bz, (void)shared;
    (void)stream, (void)params, (void)extra;
    return 0;
}
