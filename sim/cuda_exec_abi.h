/* SPDX-License-Identifier: Apache-2.0 */
/* The part of the ABI (cuda.h) that is about executable graphs, and the memory of graphs. */
#pragma once

#include "sim/cuda_graph_abi.h"

enum {
    CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH = 1,
    CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD = 2,
    CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH = 4,
    CUDA_GRAPH_INSTANTIATE_FLAG_USE_NODE_PRIORITY = 8,
};

enum {
    CUDA_GRAPH_INSTANTIATE_SUCCESS = 0,
    CUDA_GRAPH_INSTANTIATE_ERROR = 1,
    CUDA_GRAPH_INSTANTIATE_INVALID_STRUCTURE = 2,
};

typedef struct {
    uint64_t flags;
    CUstream hUploadStream;
    CUgraphNode hErrNode_out;
    int result_out;
} CUDA_GRAPH_INSTANTIATE_PARAMS;

enum {
    CU_GRAPH_EXEC_UPDATE_SUCCESS = 0,
    CU_GRAPH_EXEC_UPDATE_ERROR = 1,
    CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED = 2,
    CU_GRAPH_EXEC_UPDATE_ERROR_NODE_TYPE_CHANGED = 3,
    CU_GRAPH_EXEC_UPDATE_ERROR_NOT_SUPPORTED = 6,
};

typedef struct {
    int result;
    CUgraphNode errorNode;
    CUgraphNode errorFromNode;
} CUgraphExecUpdateResultInfo;

CUDA_API CUresult cuGraphInstantiate(CUgraphExec *exec, CUgraph graph, CUgraphNode *node,
                                     char *text, size_t bytes);
CUDA_API CUresult cuGraphInstantiate_v2(CUgraphExec *exec, CUgraph graph, CUgraphNode *node,
                                        char *text, size_t bytes);
CUDA_API CUresult cuGraphInstantiateWithFlags(CUgraphExec *exec, CUgraph graph,
                                              unsigned long long flags);
CUDA_API CUresult cuGraphInstantiateWithParams(CUgraphExec *exec, CUgraph graph,
                                               CUDA_GRAPH_INSTANTIATE_PARAMS *params);
CUDA_API CUresult cuGraphInstantiateWithParams_ptsz(CUgraphExec *exec, CUgraph graph,
                                                    CUDA_GRAPH_INSTANTIATE_PARAMS *params);
CUDA_API CUresult cuGraphExecDestroy(CUgraphExec exec);
CUDA_API CUresult cuGraphExecGetFlags(CUgraphExec exec, uint64_t *flags);
CUDA_API CUresult cuGraphUpload(CUgraphExec exec, CUstream stream);
CUDA_API CUresult cuGraphUpload_ptsz(CUgraphExec exec, CUstream stream);
CUDA_API CUresult cuGraphLaunch(CUgraphExec exec, CUstream stream);
CUDA_API CUresult cuGraphLaunch_ptsz(CUgraphExec exec, CUstream stream);
CUDA_API CUresult cuGraphExecUpdate(CUgraphExec exec, CUgraph graph, CUgraphNode *error_node,
                                    int *result);
CUDA_API CUresult cuGraphExecUpdate_v2(CUgraphExec exec, CUgraph graph,
                                       CUgraphExecUpdateResultInfo *info);
CUDA_API CUresult cuGraphExecKernelNodeSetParams(CUgraphExec exec, CUgraphNode node,
                                                 const CUDA_KERNEL_NODE_PARAMS_v1 *params);
CUDA_API CUresult cuGraphExecKernelNodeSetParams_v2(CUgraphExec exec, CUgraphNode node,
                                                    const CUDA_KERNEL_NODE_PARAMS *params);

/* --- Memory of graphs --- */

enum {
    CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT = 0,
    CU_GRAPH_MEM_ATTR_USED_MEM_HIGH = 1,
    CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT = 2,
    CU_GRAPH_MEM_ATTR_RESERVED_MEM_HIGH = 3,
};

CUDA_API CUresult cuDeviceGetGraphMemAttribute(CUdevice device, int attribute, void *value);
CUDA_API CUresult cuDeviceSetGraphMemAttribute(CUdevice device, int attribute, void *value);
CUDA_API CUresult cuDeviceGraphMemTrim(CUdevice device);
