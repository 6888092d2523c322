/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The part of the CUDA driver API that the simulator has: types, codes and numbers of the ABI, as
 * NVIDIA's cuda.h of CUDA 12.9 defines them. Enums are declared as the integers that they are in
 * the ABI. A name with _v2 is the function that programs are linked to; its name without is that of
 * an older one with 32-bit sizes.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#define CUDA_API __attribute__((visibility("default")))

typedef int CUresult;
enum {
    CUDA_SUCCESS = 0,
    CUDA_ERROR_INVALID_VALUE = 1,
    CUDA_ERROR_OUT_OF_MEMORY = 2,
    CUDA_ERROR_NOT_INITIALIZED = 3,
    CUDA_ERROR_DEINITIALIZED = 4,
    CUDA_ERROR_DEVICE_UNAVAILABLE = 46,
    CUDA_ERROR_NO_DEVICE = 100,
    CUDA_ERROR_INVALID_DEVICE = 101,
    CUDA_ERROR_INVALID_CONTEXT = 201,
    CUDA_ERROR_ECC_UNCORRECTABLE = 214,
    CUDA_ERROR_OPERATING_SYSTEM = 304,
    CUDA_ERROR_INVALID_HANDLE = 400,
    CUDA_ERROR_NOT_FOUND = 500,
    CUDA_ERROR_NOT_READY = 600,
    CUDA_ERROR_ILLEGAL_ADDRESS = 700,
    CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES = 701,
    CUDA_ERROR_PRIMARY_CONTEXT_ACTIVE = 708,
    CUDA_ERROR_CONTEXT_IS_DESTROYED = 709,
    CUDA_ERROR_LAUNCH_FAILED = 719,
    CUDA_ERROR_NOT_SUPPORTED = 801,
    CUDA_ERROR_SYSTEM_NOT_READY = 802,
    CUDA_ERROR_SYSTEM_DRIVER_MISMATCH = 803,
    CUDA_ERROR_UNKNOWN = 999,
};

typedef int CUdevice;
typedef unsigned long long CUdeviceptr;
typedef struct cuda_context *CUcontext;
typedef struct {
    char bytes[16];
} CUuuid;

enum {
    CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK = 1,
    CU_DEVICE_ATTRIBUTE_WARP_SIZE = 10,
    CU_DEVICE_ATTRIBUTE_CLOCK_RATE = 13,
    CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT = 16,
    CU_DEVICE_ATTRIBUTE_INTEGRATED = 18,
    CU_DEVICE_ATTRIBUTE_CAN_MAP_HOST_MEMORY = 19,
    CU_DEVICE_ATTRIBUTE_COMPUTE_MODE = 20,
    CU_DEVICE_ATTRIBUTE_ECC_ENABLED = 32,
    CU_DEVICE_ATTRIBUTE_PCI_BUS_ID = 33,
    CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID = 34,
    CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE = 36,
    CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING = 41,
    CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID = 50,
    CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR = 75,
    CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR = 76,
};

enum {
    CU_COMPUTEMODE_DEFAULT = 0,
    CU_COMPUTEMODE_PROHIBITED = 2,
    CU_COMPUTEMODE_EXCLUSIVE_PROCESS = 3
};

enum { CU_CTX_SCHED_MASK = 0x07, CU_CTX_FLAGS_MASK = 0xFF };

/* The status that cuGetProcAddress_v2 writes beside the pointer. */
enum {
    CU_GET_PROC_ADDRESS_SUCCESS = 0,
    CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND = 1,
    CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT = 2,
};

/* life and errors */
CUDA_API CUresult cuInit(unsigned int flags);
CUDA_API CUresult cuDriverGetVersion(int *version);
CUDA_API CUresult cuGetErrorName(CUresult error, const char **text);
CUDA_API CUresult cuGetErrorString(CUresult error, const char **text);
CUDA_API CUresult cuGetProcAddress(const char *symbol, void **function, int version,
                                   uint64_t flags);
CUDA_API CUresult cuGetProcAddress_v2(const char *symbol, void **function, int version,
                                      uint64_t flags, int *status);
CUDA_API CUresult cuGetExportTable(const void **table, const CUuuid *id);

/* devices */
CUDA_API CUresult cuDeviceGetCount(int *count);
CUDA_API CUresult cuDeviceGet(CUdevice *device, int ordinal);
CUDA_API CUresult cuDeviceGetName(char *name, int len, CUdevice device);
CUDA_API CUresult cuDeviceGetUuid(CUuuid *uuid, CUdevice device);
CUDA_API CUresult cuDeviceGetUuid_v2(CUuuid *uuid, CUdevice device);
CUDA_API CUresult cuDeviceTotalMem_v2(size_t *bytes, CUdevice device);
CUDA_API CUresult cuDeviceGetAttribute(int *value, int attribute, CUdevice device);
CUDA_API CUresult cuDeviceGetPCIBusId(char *id, int len, CUdevice device);
CUDA_API CUresult cuDeviceGetByPCIBusId(CUdevice *device, const char *id);

/* contexts */
CUDA_API CUresult cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice device);
CUDA_API CUresult cuDevicePrimaryCtxRelease_v2(CUdevice device);
CUDA_API CUresult cuDevicePrimaryCtxReset_v2(CUdevice device);
CUDA_API CUresult cuDevicePrimaryCtxGetState(CUdevice device, unsigned int *flags, int *active);
CUDA_API CUresult cuDevicePrimaryCtxSetFlags_v2(CUdevice device, unsigned int flags);
CUDA_API CUresult cuCtxCreate_v2(CUcontext *context, unsigned int flags, CUdevice device);
CUDA_API CUresult cuCtxDestroy_v2(CUcontext context);
CUDA_API CUresult cuCtxPushCurrent_v2(CUcontext context);
CUDA_API CUresult cuCtxPopCurrent_v2(CUcontext *context);
CUDA_API CUresult cuCtxSetCurrent(CUcontext context);
CUDA_API CUresult cuCtxGetCurrent(CUcontext *context);
CUDA_API CUresult cuCtxGetDevice(CUdevice *device);
CUDA_API CUresult cuCtxGetFlags(unsigned int *flags);
CUDA_API CUresult cuCtxGetApiVersion(CUcontext context, unsigned int *version);
CUDA_API CUresult cuCtxSynchronize(void);

/* memory */
CUDA_API CUresult cuMemGetInfo_v2(size_t *free, size_t *total);
CUDA_API CUresult cuMemAlloc_v2(CUdeviceptr *pointer, size_t bytes);
CUDA_API CUresult cuMemAllocPitch_v2(CUdeviceptr *pointer, size_t *pitch, size_t width,
                                     size_t height, unsigned int element_bytes);
CUDA_API CUresult cuMemFree_v2(CUdeviceptr pointer);
CUDA_API CUresult cuMemGetAddressRange_v2(CUdeviceptr *base, size_t *bytes, CUdeviceptr pointer);
CUDA_API CUresult cuMemcpyHtoD_v2(CUdeviceptr to, const void *from, size_t bytes);
CUDA_API CUresult cuMemcpyDtoH_v2(void *to, CUdeviceptr from, size_t bytes);
CUDA_API CUresult cuMemcpyDtoD_v2(CUdeviceptr to, CUdeviceptr from, size_t bytes);
CUDA_API CUresult cuMemsetD8_v2(CUdeviceptr to, unsigned char value, size_t count);
CUDA_API CUresult cuMemsetD32_v2(CUdeviceptr to, unsigned int value, size_t count);
