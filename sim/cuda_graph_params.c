/* SPDX-License-Identifier: Apache-2.0 */
/* CUDA: the parameters of nodes, and copies of graphs. Contracts are the driver API's own. */
#include <string.h>

#include "sim/cuda_graph_api.h"
#include "sim/cuda_graph_items.h"
#include "sim/cuda_graph_memory.h"

/* Begins a call on a node of that type, with room for what it answers. */
static CUresult enter(struct cuda_call *c, CUgraphNode node, int type, const void *room,
                      struct graph_node **ret)
{
    CUresult rc = graph_call_enter(c);
    if (rc == CUDA_SUCCESS && room == NULL)
        rc = CUDA_ERROR_INVALID_VALUE;
    if (rc == CUDA_SUCCESS)
        rc = graph_find_node(node, ret);
    return rc == CUDA_SUCCESS && (*ret)->type != type ? CUDA_ERROR_INVALID_VALUE : rc;
}

/* --- Kernels --- */

static CUresult get_kernel(unsigned int call, CUgraphNode node, void *params, size_t bytes)
{
    struct cuda_call c = {.id = call};
    struct graph_node *n = NULL;
    CUresult rc = enter(&c, node, CU_GRAPH_NODE_TYPE_KERNEL, params, &n);
    if (rc == CUDA_SUCCESS)
        memcpy(params, items_kernel_params(n->work), bytes);
    return graph_call_leave(&c, rc);
}

CUresult cuGraphKernelNodeGetParams(CUgraphNode node, CUDA_KERNEL_NODE_PARAMS_v1 *params)
{
    return get_kernel(CALL_cuGraphKernelNodeGetParams, node, params, sizeof(*params));
}

CUresult cuGraphKernelNodeGetParams_v2(CUgraphNode node, CUDA_KERNEL_NODE_PARAMS *params)
{
    return get_kernel(CALL_cuGraphKernelNodeGetParams_v2, node, params, sizeof(*params));
}

static CUresult set_kernel(unsigned int call, CUgraphNode node, const void *params, size_t bytes)
{
    struct cuda_call c = {.id = call};
    struct graph_node *n = NULL;
    struct node_parts parts = {0};
    CUDA_KERNEL_NODE_PARAMS p = {0};
    CUresult rc = enter(&c, node, CU_GRAPH_NODE_TYPE_KERNEL, params, &n);
    if (rc == CUDA_SUCCESS) {
        memcpy(&p, params, bytes);
        rc = graph_make_kernel(n->graph, &p, &parts);
    }
    if (rc == CUDA_SUCCESS) {
        node_work_unref(n->work);
        n->work = parts.work;
    }
    return graph_call_leave(&c, rc);
}

CUresult cuGraphKernelNodeSetParams(CUgraphNode node, const CUDA_KERNEL_NODE_PARAMS_v1 *params)
{
    return set_kernel(CALL_cuGraphKernelNodeSetParams, node, params, sizeof(*params));
}

CUresult cuGraphKernelNodeSetParams_v2(CUgraphNode node, const CUDA_KERNEL_NODE_PARAMS *params)
{
    return set_kernel(CALL_cuGraphKernelNodeSetParams_v2, node, params, sizeof(*params));
}

/* --- Others --- */

CUresult cuGraphChildGraphNodeGetGraph(CUgraphNode node, CUgraph *graph)
{
    struct cuda_call c = {.id = CALL_cuGraphChildGraphNodeGetGraph};
    struct graph_node *n = NULL;
    CUresult rc = enter(&c, node, CU_GRAPH_NODE_TYPE_GRAPH, graph, &n);
    if (rc == CUDA_SUCCESS)
        *graph = n->child->handle;
    return graph_call_leave(&c, rc);
}

CUresult cuGraphMemAllocNodeGetParams(CUgraphNode node, CUDA_MEM_ALLOC_NODE_PARAMS *params)
{
    struct cuda_call c = {.id = CALL_cuGraphMemAllocNodeGetParams};
    struct graph_node *n = NULL;
    CUresult rc = enter(&c, node, CU_GRAPH_NODE_TYPE_MEM_ALLOC, params, &n);
    if (rc == CUDA_SUCCESS) {
        const struct range *r = &n->work->memory->range;
        *params = (CUDA_MEM_ALLOC_NODE_PARAMS){.bytesize = r->bytes, .dptr = r->base};
        params->poolProps.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
        params->poolProps.location = (CUmemLocation){CU_MEM_LOCATION_TYPE_DEVICE, r->device};
    }
    return graph_call_leave(&c, rc);
}

CUresult cuGraphMemFreeNodeGetParams(CUgraphNode node, CUdeviceptr *pointer)
{
    struct cuda_call c = {.id = CALL_cuGraphMemFreeNodeGetParams};
    struct graph_node *n = NULL;
    CUresult rc = enter(&c, node, CU_GRAPH_NODE_TYPE_MEM_FREE, pointer, &n);
    if (rc == CUDA_SUCCESS)
        *pointer = n->work->memory->range.base;
    return graph_call_leave(&c, rc);
}

/* --- Copies --- */

static CUresult clone_graph(struct graph *g, CUgraph *ret)
{
    if (graph_has_memory(g))
        return CUDA_ERROR_NOT_SUPPORTED;
    const struct graph *made = graph_clone(g);
    if (made == NULL)
        return CUDA_ERROR_OUT_OF_MEMORY;
    *ret = made->handle;
    return CUDA_SUCCESS;
}

CUresult cuGraphClone(CUgraph *clone, CUgraph graph)
{
    struct cuda_call c = {.id = CALL_cuGraphClone};
    struct graph *g = NULL;
    CUresult rc = graph_call_enter(&c);
    if (rc == CUDA_SUCCESS)
        rc = clone != NULL ? graph_find(graph, &g) : CUDA_ERROR_INVALID_VALUE;
    if (rc == CUDA_SUCCESS)
        rc = clone_graph(g, clone);
    return graph_call_leave(&c, rc);
}

CUresult cuGraphNodeFindInClone(CUgraphNode *node, CUgraphNode original, CUgraph clone)
{
    struct cuda_call c = {.id = CALL_cuGraphNodeFindInClone};
    struct graph *g = NULL;
    CUresult rc = graph_call_enter(&c);
    if (rc == CUDA_SUCCESS)
        rc = node != NULL ? graph_find(clone, &g) : CUDA_ERROR_INVALID_VALUE;
    const struct graph_node *n = rc == CUDA_SUCCESS ? graph_find_copy(g, original) : NULL;
    if (rc == CUDA_SUCCESS && n == NULL)
        rc = CUDA_ERROR_INVALID_VALUE;
    if (rc == CUDA_SUCCESS)
        *node = n->handle;
    return graph_call_leave(&c, rc);
}
