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
    CUDA_ERROR_NOT_READY = 600,
    CUDA_ERROR_NOT_SUPPORTED = 801,
    CUDA_ERROR_STREAM_CAPTURE_IMPLICIT = 906,
};

typedef int CUdevice;
typedef uint64_t CUdeviceptr;
typedef uint32_t CUdeviceptr_v1;
typedef struct cuda_context *CUcontext;
typedef struct cuda_stream *CUstream;
typedef struct cuda_event *CUevent;
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

/* --- Layouts, as far as the limiter reads them --- */

enum { CU_MEM_LOCATION_TYPE_DEVICE = 1, CU_STREAM_CAPTURE_MODE_RELAXED = 2 };

struct cuda_location {
    int type, id;
};

/* CUmemPoolProps */
struct pool_props {
    int type, handle_types;
    struct cuda_location location;
    void *security;
    size_t max_bytes;
    uint8_t reserved[56];
};

/* CUmemAllocationProp */
struct physical_props {
    int type, handle_types;
    struct cuda_location location;
};

/* CUDA_ARRAY_DESCRIPTOR_v2, and its older form with words of 32 bits */
struct array_descriptor {
    size_t width, height;
    int format;
    unsigned int channels;
};
struct array_descriptor_v1 {
    unsigned int width, height;
    int format;
    unsigned int channels;
};

/* CUDA_ARRAY3D_DESCRIPTOR_v2, and its older form */
struct array3d_descriptor {
    size_t width, height, depth;
    int format;
    unsigned int channels, flags;
};
struct array3d_descriptor_v1 {
    unsigned int width, height, depth;
    int format;
    unsigned int channels, flags;
};

/* CUDA_EXTERNAL_MEMORY_HANDLE_DESC */
struct external_memory {
    int type;
    void *handle[2];
    uint64_t bytes;
};

/* CUlaunchConfig */
struct launch_config {
    unsigned int grid[3], block[3], shared_bytes;
    CUstream stream;
};

/* CUDA_MEM_ALLOC_NODE_PARAMS */
struct alloc_node {
    struct pool_props pool;
    const void *access;
    size_t n_access, bytes;
    CUdeviceptr pointer;
};
