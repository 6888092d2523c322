/* SPDX-License-Identifier: Apache-2.0 */
/* The part of the ABI (cuda.h) that is about graphs. */
#pragma once

#include "sim/cuda_abi.h"

typedef struct cuda_graph *CUgraph;
typedef struct cuda_graph_node *CUgraphNode;

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
