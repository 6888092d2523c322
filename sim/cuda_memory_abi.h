/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The part of the ABI (cuda.h) that is about memory which is not linear memory of one context:
 * managed, pooled and physical memory, and memory of other processes.
 */
#pragma once

#include "sim/cuda_abi.h"

#define CU_DEVICE_CPU     ((CUdevice)-1)
#define CU_DEVICE_INVALID ((CUdevice)-2)

/* --- Managed memory --- */

enum { CU_MEM_ATTACH_GLOBAL = 1, CU_MEM_ATTACH_HOST = 2 };

enum {
    CU_MEM_ADVISE_SET_READ_MOSTLY = 1,
    CU_MEM_ADVISE_UNSET_READ_MOSTLY = 2,
    CU_MEM_ADVISE_SET_PREFERRED_LOCATION = 3,
    CU_MEM_ADVISE_UNSET_PREFERRED_LOCATION = 4,
    CU_MEM_ADVISE_SET_ACCESSED_BY = 5,
    CU_MEM_ADVISE_UNSET_ACCESSED_BY = 6,
};

enum {
    CU_MEM_LOCATION_TYPE_DEVICE = 1,
    CU_MEM_LOCATION_TYPE_HOST = 2,
    CU_MEM_LOCATION_TYPE_HOST_NUMA = 3,
    CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT = 4,
};

typedef struct {
    int type;
    int id;
} CUmemLocation;

CUDA_API CUresult cuMemAllocManaged(CUdeviceptr *pointer, size_t bytes, unsigned int flags);
CUDA_API CUresult cuMemAdvise(CUdeviceptr pointer, size_t bytes, int advice, CUdevice device);
CUDA_API CUresult cuMemAdvise_v2(CUdeviceptr pointer, size_t bytes, int advice,
                                 CUmemLocation location);
CUDA_API CUresult cuMemPrefetchAsync(CUdeviceptr pointer, size_t bytes, CUdevice device,
                                     CUstream stream);
CUDA_API CUresult cuMemPrefetchAsync_ptsz(CUdeviceptr pointer, size_t bytes, CUdevice device,
                                          CUstream stream);
CUDA_API CUresult cuMemPrefetchAsync_v2(CUdeviceptr pointer, size_t bytes, CUmemLocation location,
                                        unsigned int flags, CUstream stream);
CUDA_API CUresult cuMemPrefetchAsync_v2_ptsz(CUdeviceptr pointer, size_t bytes,
                                             CUmemLocation location, unsigned int flags,
                                             CUstream stream);

/* --- Addresses --- */

enum {
    CU_MEM_ACCESS_FLAGS_PROT_NONE = 0,
    CU_MEM_ACCESS_FLAGS_PROT_READ = 1,
    CU_MEM_ACCESS_FLAGS_PROT_READWRITE = 3,
};

enum {
    CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE = 10,
    CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES = 14,
    CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE = 15,
    CU_POINTER_ATTRIBUTE_ACCESS_FLAGS = 16,
    CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE = 17,
    CU_POINTER_ATTRIBUTE_MAPPING_SIZE = 18,
    CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR = 19,
    CU_POINTER_ATTRIBUTE_MEMORY_BLOCK_ID = 20,
    CU_POINTER_ATTRIBUTE_IS_HW_DECOMPRESS_CAPABLE = 21,
};

CUDA_API CUresult cuPointerGetAttributes(unsigned int count, int *attributes, void **values,
                                         CUdeviceptr pointer);
CUDA_API CUresult cuPointerSetAttribute(const void *value, int attribute, CUdeviceptr pointer);

/* --- Pools --- */

typedef struct cuda_pool *CUmemoryPool;

enum {
    CU_MEM_ALLOCATION_TYPE_PINNED = 1,
    CU_MEM_ALLOCATION_TYPE_MANAGED = 2,
};

enum {
    CU_MEM_HANDLE_TYPE_NONE = 0,
    CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR = 1,
    CU_MEM_HANDLE_TYPE_WIN32 = 2,
    CU_MEM_HANDLE_TYPE_WIN32_KMT = 4,
    CU_MEM_HANDLE_TYPE_FABRIC = 8,
};

enum {
    CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES = 1,
    CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC = 2,
    CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES = 3,
    CU_MEMPOOL_ATTR_RELEASE_THRESHOLD = 4,
    CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT = 5,
    CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH = 6,
    CU_MEMPOOL_ATTR_USED_MEM_CURRENT = 7,
    CU_MEMPOOL_ATTR_USED_MEM_HIGH = 8,
    CU_MEMPOOL_ATTR_ALLOCATION_TYPE = 9,
    CU_MEMPOOL_ATTR_EXPORT_HANDLE_TYPES = 10,
    CU_MEMPOOL_ATTR_LOCATION_ID = 11,
    CU_MEMPOOL_ATTR_LOCATION_TYPE = 12,
    CU_MEMPOOL_ATTR_MAX_POOL_SIZE = 13,
};

typedef struct {
    int allocType;
    int handleTypes;
    CUmemLocation location;
    void *win32SecurityAttributes;
    size_t maxSize;
    unsigned short usage;
    unsigned char reserved[54];
} CUmemPoolProps;

typedef struct {
    CUmemLocation location;
    int flags;
} CUmemAccessDesc;

CUDA_API CUresult cuMemAllocAsync(CUdeviceptr *pointer, size_t bytes, CUstream stream);
CUDA_API CUresult cuMemAllocAsync_ptsz(CUdeviceptr *pointer, size_t bytes, CUstream stream);
CUDA_API CUresult cuMemAllocFromPoolAsync(CUdeviceptr *pointer, size_t bytes, CUmemoryPool pool,
                                          CUstream stream);
CUDA_API CUresult cuMemAllocFromPoolAsync_ptsz(CUdeviceptr *pointer, size_t bytes,
                                               CUmemoryPool pool, CUstream stream);
CUDA_API CUresult cuMemFreeAsync(CUdeviceptr pointer, CUstream stream);
CUDA_API CUresult cuMemFreeAsync_ptsz(CUdeviceptr pointer, CUstream stream);
CUDA_API CUresult cuMemPoolCreate(CUmemoryPool *pool, const CUmemPoolProps *props);
CUDA_API CUresult cuMemPoolDestroy(CUmemoryPool pool);
CUDA_API CUresult cuMemPoolTrimTo(CUmemoryPool pool, size_t keep_bytes);
CUDA_API CUresult cuMemPoolSetAttribute(CUmemoryPool pool, int attribute, void *value);
CUDA_API CUresult cuMemPoolGetAttribute(CUmemoryPool pool, int attribute, void *value);
CUDA_API CUresult cuMemPoolSetAccess(CUmemoryPool pool, const CUmemAccessDesc *list, size_t count);
CUDA_API CUresult cuMemPoolGetAccess(int *flags, CUmemoryPool pool, CUmemLocation *location);
CUDA_API CUresult cuDeviceGetDefaultMemPool(CUmemoryPool *pool, CUdevice device);
CUDA_API CUresult cuDeviceGetMemPool(CUmemoryPool *pool, CUdevice device);
CUDA_API CUresult cuDeviceSetMemPool(CUdevice device, CUmemoryPool pool);
CUDA_API CUresult cuMemGetDefaultMemPool(CUmemoryPool *pool, CUmemLocation *location, int type);
CUDA_API CUresult cuMemGetMemPool(CUmemoryPool *pool, CUmemLocation *location, int type);
CUDA_API CUresult cuMemSetMemPool(CUmemLocation *location, int type, CUmemoryPool pool);

/* --- Physical memory, and addresses for it --- */

typedef unsigned long long CUmemGenericAllocationHandle;

enum { CU_MEM_ALLOC_GRANULARITY_MINIMUM = 0, CU_MEM_ALLOC_GRANULARITY_RECOMMENDED = 1 };

typedef struct {
    int type;
    int requestedHandleTypes;
    CUmemLocation location;
    void *win32HandleMetaData;
    struct {
        unsigned char compressionType;
        unsigned char gpuDirectRDMACapable;
        unsigned short usage;
        unsigned char reserved[4];
    } allocFlags;
} CUmemAllocationProp;

CUDA_API CUresult cuMemAddressReserve(CUdeviceptr *pointer, size_t bytes, size_t alignment,
                                      CUdeviceptr hint, unsigned long long flags);
CUDA_API CUresult cuMemAddressFree(CUdeviceptr pointer, size_t bytes);
CUDA_API CUresult cuMemCreate(CUmemGenericAllocationHandle *handle, size_t bytes,
                              const CUmemAllocationProp *prop, unsigned long long flags);
CUDA_API CUresult cuMemRelease(CUmemGenericAllocationHandle handle);
CUDA_API CUresult cuMemRetainAllocationHandle(CUmemGenericAllocationHandle *handle, void *pointer);
CUDA_API CUresult cuMemGetAllocationGranularity(size_t *granularity,
                                                const CUmemAllocationProp *prop, int option);
CUDA_API CUresult cuMemGetAllocationPropertiesFromHandle(CUmemAllocationProp *prop,
                                                         CUmemGenericAllocationHandle handle);
CUDA_API CUresult cuMemMap(CUdeviceptr pointer, size_t bytes, size_t offset,
                           CUmemGenericAllocationHandle handle, unsigned long long flags);
CUDA_API CUresult cuMemUnmap(CUdeviceptr pointer, size_t bytes);
CUDA_API CUresult cuMemSetAccess(CUdeviceptr pointer, size_t bytes, const CUmemAccessDesc *list,
                                 size_t count);
CUDA_API CUresult cuMemGetAccess(unsigned long long *flags, const CUmemLocation *location,
                                 CUdeviceptr pointer);
CUDA_API CUresult cuMemExportToShareableHandle(void *shareable, CUmemGenericAllocationHandle handle,
                                               int type, unsigned long long flags);
CUDA_API CUresult cuMemImportFromShareableHandle(CUmemGenericAllocationHandle *handle,
                                                 void *shareable, int type);

/* --- Memory of other processes --- */

enum { CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS = 1 };

typedef struct {
    char reserved[64];
} CUipcMemHandle;

typedef struct {
    unsigned char reserved[64];
} CUmemPoolPtrExportData;

CUDA_API CUresult cuIpcGetMemHandle(CUipcMemHandle *handle, CUdeviceptr pointer);
CUDA_API CUresult cuIpcOpenMemHandle(CUdeviceptr *pointer, CUipcMemHandle handle,
                                     unsigned int flags);
CUDA_API CUresult cuIpcOpenMemHandle_v2(CUdeviceptr *pointer, CUipcMemHandle handle,
                                        unsigned int flags);
CUDA_API CUresult cuIpcCloseMemHandle(CUdeviceptr pointer);
CUDA_API CUresult cuMemPoolExportToShareableHandle(void *shareable, CUmemoryPool pool, int type,
                                                   unsigned long long flags);
CUDA_API CUresult cuMemPoolImportFromShareableHandle(CUmemoryPool *pool, void *shareable, int type,
                                                     unsigned long long flags);
CUDA_API CUresult cuMemPoolExportPointer(CUmemPoolPtrExportData *data, CUdeviceptr pointer);
CUDA_API CUresult cuMemPoolImportPointer(CUdeviceptr *pointer, CUmemoryPool pool,
                                         CUmemPoolPtrExportData *data);

/* --- External memory --- */

typedef struct cuda_external_memory *CUexternalMemory;

enum {
    CU_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD = 1,
    CU_EXTERNAL_MEMORY_HANDLE_TYPE_DMABUF_FD = 9, /* the last one */
};

enum { CUDA_EXTERNAL_MEMORY_DEDICATED = 1 };

typedef struct {
    int type;
    union {
        int fd;
        struct {
            void *handle;
            const void *name;
        } win32;
        const void *nvSciBufObject;
    } handle;
    unsigned long long size;
    unsigned int flags;
    unsigned int reserved[16];
} CUDA_EXTERNAL_MEMORY_HANDLE_DESC;

typedef struct {
    unsigned long long offset;
    unsigned long long size;
    unsigned int flags;
    unsigned int reserved[16];
} CUDA_EXTERNAL_MEMORY_BUFFER_DESC;

CUDA_API CUresult cuImportExternalMemory(CUexternalMemory *memory,
                                         const CUDA_EXTERNAL_MEMORY_HANDLE_DESC *handle);
CUDA_API CUresult cuExternalMemoryGetMappedBuffer(CUdeviceptr *pointer, CUexternalMemory memory,
                                                  const CUDA_EXTERNAL_MEMORY_BUFFER_DESC *buffer);
CUDA_API CUresult cuDestroyExternalMemory(CUexternalMemory memory);

/* --- Multicast objects --- */

typedef struct {
    unsigned int numDevices;
    size_t size;
    unsigned long long handleTypes;
    unsigned long long flags;
} CUmulticastObjectProp;

enum { CU_MULTICAST_GRANULARITY_MINIMUM = 0, CU_MULTICAST_GRANULARITY_RECOMMENDED = 1 };

CUDA_API CUresult cuMulticastCreate(CUmemGenericAllocationHandle *handle,
                                    const CUmulticastObjectProp *prop);
CUDA_API CUresult cuMulticastAddDevice(CUmemGenericAllocationHandle handle, CUdevice device);
CUDA_API CUresult cuMulticastBindMem(CUmemGenericAllocationHandle handle, size_t offset,
                                     CUmemGenericAllocationHandle memory, size_t memory_offset,
                                     size_t bytes, unsigned long long flags);
CUDA_API CUresult cuMulticastBindMem_v2(CUmemGenericAllocationHandle handle, CUdevice device,
                                        size_t offset, CUmemGenericAllocationHandle memory,
                                        size_t memory_offset, size_t bytes,
                                        unsigned long long flags);
CUDA_API CUresult cuMulticastBindAddr(CUmemGenericAllocationHandle handle, size_t offset,
                                      CUdeviceptr pointer, size_t bytes, unsigned long long flags);
CUDA_API CUresult cuMulticastBindAddr_v2(CUmemGenericAllocationHandle handle, CUdevice device,
                                         size_t offset, CUdeviceptr pointer, size_t bytes,
                                         unsigned long long flags);
CUDA_API CUresult cuMulticastUnbind(CUmemGenericAllocationHandle handle, CUdevice device,
                                    size_t offset, size_t bytes);
CUDA_API CUresult cuMulticastGetGranularity(size_t *granularity, const CUmulticastObjectProp *prop,
                                            int option);
