/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The part of CUDA's driver API that the limiter reads: types, codes and layouts of the ABI, as
 * NVIDIA's cuda.h of CUDA 11.0 to 13.x defines them. Enums are declared as the integers that they
 * are in the ABI, handles as what they are passed as. What the limiter only passes on is a pointer
 * to something unknown.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

typedef int CUresult;
enum {
    CUDA_SUCCESS = 0,
    CUDA_ERROR_INVALID_VALUE = 1,
    CUDA_ERROR_OUT_OF_MEMORY = 2,
    CUDA_ERROR_NOT_INITIALIZED = 3,
    CUDA_ERROR_NO_DEVICE = 100,
    CUDA_ERROR_NOT_FOUND = 500,
    CUDA_ERROR_NOT_SUPPORTED = 801,
};

typedef int CUdevice;
typedef uint64_t CUdeviceptr;
typedef uint32_t CUdeviceptr_v1;
typedef struct cuda_context *CUcontext;
typedef struct cuda_stream *CUstream;
typedef struct cuda_array *CUarray;
typedef struct cuda_mipmapped_array *CUmipmappedArray;
typedef struct cuda_pool *CUmemoryPool;
typedef struct cuda_graph *CUgraph;
typedef struct cuda_graph_exec *CUgraphExec;
typedef struct cuda_graph_node *CUgraphNode;
typedef struct cuda_external_memory *CUexternalMemory;
typedef uint64_t CUmemGenericAllocationHandle;
typedef struct {
    uint8_t bytes[16];
} CUuuid;

/* cuGetProcAddress */
enum { CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM = 2 };
