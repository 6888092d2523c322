/* SPDX-License-Identifier: Apache-2.0 */
/* The part of the ABI (cuda.h) that is about graphs. */
#pragma once

#include "sim/cuda_array_abi.h"
#include "sim/cuda_memory_abi.h"

typedef struct cuda_graph *CUgraph;
typedef struct cuda_graph_node *CUgraphNode;
typedef struct cuda_graph_exec *CUgraphExec;

enum {
    CU_GRAPH_NODE_TYPE_KERNEL = 0,
    CU_GRAPH_NODE_TYPE_MEMCPY = 1,
    CU_GRAPH_NODE_TYPE_MEMSET = 2,
    CU_GRAPH_NODE_TYPE_HOST = 3,
    CU_GRAPH_NODE_TYPE_GRAPH = 4,
    CU_GRAPH_NODE_TYPE_EMPTY = 5,
    CU_GRAPH_NODE_TYPE_WAIT_EVENT = 6,
    CU_GRAPH_NODE_TYPE_EVENT_RECORD = 7,
    CU_GRAPH_NODE_TYPE_MEM_ALLOC = 10,
    CU_GRAPH_NODE_TYPE_MEM_FREE = 11,
};

/* Of edges there are none here but plain ones, which are all zero. */
typedef struct {
    unsigned char from_port, to_port, type;
    unsigned char reserved[5];
} CUgraphEdgeData;

/* graphs and their nodes */
CUDA_API CUresult cuGraphCreate(CUgraph *graph, unsigned int flags);
CUDA_API CUresult cuGraphDestroy(CUgraph graph);
CUDA_API CUresult cuGraphAddEmptyNode(CUgraphNode *node, CUgraph graph,
                                      const CUgraphNode *dependencies, size_t count);
CUDA_API CUresult cuGraphDestroyNode(CUgraphNode node);
CUDA_API CUresult cuGraphGetNodes(CUgraph graph, CUgraphNode *nodes, size_t *count);
CUDA_API CUresult cuGraphGetRootNodes(CUgraph graph, CUgraphNode *nodes, size_t *count);
CUDA_API CUresult cuGraphNodeGetType(CUgraphNode node, int *type);

/* their edges */
CUDA_API CUresult cuGraphAddDependencies(CUgraph graph, const CUgraphNode *from,
                                         const CUgraphNode *to, size_t count);
CUDA_API CUresult cuGraphAddDependencies_v2(CUgraph graph, const CUgraphNode *from,
                                            const CUgraphNode *to, const CUgraphEdgeData *edges,
                                            size_t count);
CUDA_API CUresult cuGraphRemoveDependencies(CUgraph graph, const CUgraphNode *from,
                                            const CUgraphNode *to, size_t count);
CUDA_API CUresult cuGraphRemoveDependencies_v2(CUgraph graph, const CUgraphNode *from,
                                               const CUgraphNode *to, const CUgraphEdgeData *edges,
                                               size_t count);
CUDA_API CUresult cuGraphGetEdges(CUgraph graph, CUgraphNode *from, CUgraphNode *to, size_t *count);
CUDA_API CUresult cuGraphGetEdges_v2(CUgraph graph, CUgraphNode *from, CUgraphNode *to,
                                     CUgraphEdgeData *edges, size_t *count);
CUDA_API CUresult cuGraphNodeGetDependencies(CUgraphNode node, CUgraphNode *from, size_t *count);
CUDA_API CUresult cuGraphNodeGetDependencies_v2(CUgraphNode node, CUgraphNode *from,
                                                CUgraphEdgeData *edges, size_t *count);
CUDA_API CUresult cuGraphNodeGetDependentNodes(CUgraphNode node, CUgraphNode *to, size_t *count);
CUDA_API CUresult cuGraphNodeGetDependentNodes_v2(CUgraphNode node, CUgraphNode *to,
                                                  CUgraphEdgeData *edges, size_t *count);

/* --- What nodes do --- */

typedef struct {
    CUfunction func;
    unsigned int gridDimX, gridDimY, gridDimZ;
    unsigned int blockDimX, blockDimY, blockDimZ;
    unsigned int sharedMemBytes;
    void **kernelParams;
    void **extra;
} CUDA_KERNEL_NODE_PARAMS_v1;

typedef struct {
    CUfunction func;
    unsigned int gridDimX, gridDimY, gridDimZ;
    unsigned int blockDimX, blockDimY, blockDimZ;
    unsigned int sharedMemBytes;
    void **kernelParams;
    void **extra;
    CUkernel kern;
    CUcontext ctx;
} CUDA_KERNEL_NODE_PARAMS;

typedef struct {
    CUdeviceptr dst;
    size_t pitch;
    unsigned int value;
    unsigned int elementSize;
    size_t width;
    size_t height;
} CUDA_MEMSET_NODE_PARAMS_v1;

typedef struct {
    CUDA_MEMSET_NODE_PARAMS_v1 set;
    CUcontext ctx;
} CUDA_MEMSET_NODE_PARAMS;

typedef struct {
    int flags;
    int reserved;
    CUcontext copyCtx;
    CUDA_MEMCPY3D copyParams;
} CUDA_MEMCPY_NODE_PARAMS;

typedef struct {
    CUhostFn fn;
    void *userData;
} CUDA_HOST_NODE_PARAMS;

typedef struct {
    CUmemPoolProps poolProps;
    const CUmemAccessDesc *accessDescs;
    size_t accessDescCount;
    size_t bytesize;
    CUdeviceptr dptr;
} CUDA_MEM_ALLOC_NODE_PARAMS;

typedef struct {
    int type;
    int reserved0[3];
    union {
        long long reserved1[29];
        CUDA_KERNEL_NODE_PARAMS kernel;
        CUDA_MEMCPY_NODE_PARAMS memcpy;
        CUDA_MEMSET_NODE_PARAMS memset;
        CUDA_HOST_NODE_PARAMS host;
        CUgraph graph;
        CUDA_MEM_ALLOC_NODE_PARAMS alloc;
        CUdeviceptr free;
        CUevent event;
    } of;
    long long reserved2;
} CUgraphNodeParams;

CUDA_API CUresult cuGraphAddKernelNode(CUgraphNode *node, CUgraph graph,
                                       const CUgraphNode *dependencies, size_t count,
                                       const CUDA_KERNEL_NODE_PARAMS_v1 *params);
CUDA_API CUresult cuGraphAddKernelNode_v2(CUgraphNode *node, CUgraph graph,
                                          const CUgraphNode *dependencies, size_t count,
                                          const CUDA_KERNEL_NODE_PARAMS *params);
CUDA_API CUresult cuGraphAddMemcpyNode(CUgraphNode *node, CUgraph graph,
                                       const CUgraphNode *dependencies, size_t count,
                                       const CUDA_MEMCPY3D *params, CUcontext context);
CUDA_API CUresult cuGraphAddMemsetNode(CUgraphNode *node, CUgraph graph,
                                       const CUgraphNode *dependencies, size_t count,
                                       const CUDA_MEMSET_NODE_PARAMS_v1 *params, CUcontext context);
CUDA_API CUresult cuGraphAddHostNode(CUgraphNode *node, CUgraph graph,
                                     const CUgraphNode *dependencies, size_t count,
                                     const CUDA_HOST_NODE_PARAMS *params);
CUDA_API CUresult cuGraphAddChildGraphNode(CUgraphNode *node, CUgraph graph,
                                           const CUgraphNode *dependencies, size_t count,
                                           CUgraph child);
CUDA_API CUresult cuGraphAddMemAllocNode(CUgraphNode *node, CUgraph graph,
                                         const CUgraphNode *dependencies, size_t count,
                                         CUDA_MEM_ALLOC_NODE_PARAMS *params);
CUDA_API CUresult cuGraphAddMemFreeNode(CUgraphNode *node, CUgraph graph,
                                        const CUgraphNode *dependencies, size_t count,
                                        CUdeviceptr pointer);
CUDA_API CUresult cuGraphAddEventRecordNode(CUgraphNode *node, CUgraph graph,
                                            const CUgraphNode *dependencies, size_t count,
                                            CUevent event);
CUDA_API CUresult cuGraphAddEventWaitNode(CUgraphNode *node, CUgraph graph,
                                          const CUgraphNode *dependencies, size_t count,
                                          CUevent event);
CUDA_API CUresult cuGraphAddNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *dependencies,
                                 size_t count, CUgraphNodeParams *params);
CUDA_API CUresult cuGraphAddNode_v2(CUgraphNode *node, CUgraph graph,
                                    const CUgraphNode *dependencies, const CUgraphEdgeData *edges,
                                    size_t count, CUgraphNodeParams *params);

CUDA_API CUresult cuGraphKernelNodeGetParams(CUgraphNode node, CUDA_KERNEL_NODE_PARAMS_v1 *params);
CUDA_API CUresult cuGraphKernelNodeGetParams_v2(CUgraphNode node, CUDA_KERNEL_NODE_PARAMS *params);
CUDA_API CUresult cuGraphKernelNodeSetParams(CUgraphNode node,
                                             const CUDA_KERNEL_NODE_PARAMS_v1 *params);
CUDA_API CUresult cuGraphKernelNodeSetParams_v2(CUgraphNode node,
                                                const CUDA_KERNEL_NODE_PARAMS *params);
CUDA_API CUresult cuGraphChildGraphNodeGetGraph(CUgraphNode node, CUgraph *graph);
CUDA_API CUresult cuGraphMemAllocNodeGetParams(CUgraphNode node,
                                               CUDA_MEM_ALLOC_NODE_PARAMS *params);
CUDA_API CUresult cuGraphMemFreeNodeGetParams(CUgraphNode node, CUdeviceptr *pointer);
CUDA_API CUresult cuGraphClone(CUgraph *clone, CUgraph graph);
CUDA_API CUresult cuGraphNodeFindInClone(CUgraphNode *node, CUgraphNode original, CUgraph clone);
