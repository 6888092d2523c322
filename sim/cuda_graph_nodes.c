/* SPDX-License-Identifier: Apache-2.0 */
/* CUDA: what nodes of graphs do. Contracts are the driver API's own. */
#include <stdlib.h>
#include <string.h>

#include "sim/cuda_graph_api.h"
#include "sim/cuda_graph_items.h"
#include "sim/cuda_graph_memory.h"
#include "sim/cuda_handle.h"

/* --- Making them --- */

/* NULL: the current one. */
static CUresult find_context(CUcontext asked, struct cuda_context **ret)
{
    *ret = asked != NULL ? asked : context_top();
    return context_check(*ret);
}

/* The item is the callee's from now on. */
static CUresult put_item(CUresult rc, struct cuda_context *context, struct work_item *item,
                         struct node_parts *ret)
{
    if (rc != CUDA_SUCCESS)
        return rc;
    ret->work = node_work_new(context, item);
    return ret->work != NULL ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult graph_make_kernel(const struct graph *g, void *params, struct node_parts *ret)
{
    (void)g;
    return items_of_kernel(context_top(), params, &ret->work);
}

CUDA_KERNEL_NODE_PARAMS graph_kernel_params(const CUDA_KERNEL_NODE_PARAMS_v1 *p)
{
    CUDA_KERNEL_NODE_PARAMS params = {0};
    memcpy(&params, p, sizeof(*p));
    return params;
}

/* NOLINTNEXTLINE(readability-non-const-parameter): node_maker's. */
static CUresult make_copy(const struct graph *g, void *params, struct node_parts *ret)
{
    const CUDA_MEMCPY_NODE_PARAMS *p = params;
    struct cuda_context *context = NULL;
    struct work_item *item = NULL;
    CUresult rc = find_context(p->copyCtx, &context);
    (void)g;
    if (rc == CUDA_SUCCESS)
        rc = items_of_copy(&p->copyParams, &item);
    return put_item(rc, context, item, ret);
}

/* NOLINTNEXTLINE(readability-non-const-parameter): node_maker's. */
static CUresult make_setting(const struct graph *g, void *params, struct node_parts *ret)
{
    const CUDA_MEMSET_NODE_PARAMS *p = params;
    struct cuda_context *context = NULL;
    struct work_item *item = NULL;
    CUresult rc = find_context(p->ctx, &context);
    (void)g;
    if (rc == CUDA_SUCCESS)
        rc = items_of_setting(&p->set, &item);
    return put_item(rc, context, item, ret);
}

/* NOLINTNEXTLINE(readability-non-const-parameter): node_maker's. */
static CUresult make_function(const struct graph *g, void *params, struct node_parts *ret)
{
    struct cuda_context *context = NULL;
    struct work_item *item = NULL;
    CUresult rc = find_context(NULL, &context);
    (void)g;
    if (rc == CUDA_SUCCESS)
        rc = items_of_function(context, params, &item);
    return put_item(rc, NULL, item, ret);
}

/* Assumed: a graph that a capture adds to is nobody's child yet. */
/* NOLINTNEXTLINE(readability-non-const-parameter): node_maker's. */
static CUresult make_child(const struct graph *g, void *params, struct node_parts *ret)
{
    struct graph *child = NULL;
    CUresult rc = graph_find(*(CUgraph *)params, &child);
    if (rc != CUDA_SUCCESS)
        return rc;
    if (child == g || child->users > 0)
        return CUDA_ERROR_INVALID_VALUE;
    if (graph_has_memory(child))
        return CUDA_ERROR_NOT_SUPPORTED;
    ret->child = graph_clone(child);
    return ret->child != NULL ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

/* The memory, of which the reference is the callee's from now on. */
static CUresult put_memory(struct graph_memory *m, struct node_parts *ret)
{
    CUresult rc = put_item(CUDA_SUCCESS, NULL, NULL, ret);
    if (rc == CUDA_SUCCESS)
        ret->work->memory = m;
    else
        memory_unref(m);
    return rc;
}

/* Assumed: who may reach it is not looked at. */
static CUresult make_allocation(const struct graph *g, void *params, struct node_parts *ret)
{
    CUDA_MEM_ALLOC_NODE_PARAMS *p = params;
    const CUmemPoolProps *props = &p->poolProps;
    struct graph_memory *m = NULL;
    if (props->allocType != CU_MEM_ALLOCATION_TYPE_PINNED || props->handleTypes != 0 ||
        props->location.type != CU_MEM_LOCATION_TYPE_DEVICE)
        return CUDA_ERROR_INVALID_VALUE;
    if (props->location.id < 0 || props->location.id >= cuda_device_count())
        return CUDA_ERROR_INVALID_DEVICE;
    if (p->accessDescCount > 0 && p->accessDescs == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    CUresult rc = memory_new(props->location.id, p->bytesize, g->handle, &m);
    if (rc != CUDA_SUCCESS)
        return rc;
    p->dptr = m->range.base;
    return put_memory(m, ret);
}

/* NOLINTNEXTLINE(readability-non-const-parameter): node_maker's. */
static CUresult make_free(const struct graph *g, void *params, struct node_parts *ret)
{
    struct graph_memory *m = memory_find(*(const CUdeviceptr *)params);
    CUresult rc = m != NULL ? memory_add_free(m, g->handle) : CUDA_ERROR_INVALID_VALUE;
    return rc == CUDA_SUCCESS ? put_memory(memory_ref(m), ret) : rc;
}

/* NOLINTNEXTLINE(readability-non-const-parameter): node_maker's. */
static CUresult make_event(const struct graph *g, void *params, struct node_parts *ret)
{
    CUevent event = *(CUevent *)params;
    CUresult rc =
        handle_find(HANDLE_EVENT, event) != NULL ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
    (void)g;
    if (rc == CUDA_SUCCESS)
        rc = put_item(rc, NULL, NULL, ret);
    if (rc == CUDA_SUCCESS)
        ret->work->event = event;
    return rc;
}

/* --- Adding them --- */

CUresult cuGraphAddKernelNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *dependencies,
                              size_t count, const CUDA_KERNEL_NODE_PARAMS_v1 *params)
{
    const struct node_place at =
        {CALL_cuGraphAddKernelNode, node, graph, dependencies, NULL, count};
    CUDA_KERNEL_NODE_PARAMS p = {0};
    if (params != NULL)
        p = graph_kernel_params(params);
    return graph_call_add(&at, CU_GRAPH_NODE_TYPE_KERNEL, graph_make_kernel,
                          params != NULL ? &p : NULL);
}

CUresult cuGraphAddKernelNode_v2(CUgraphNode *node, CUgraph graph, const CUgraphNode *dependencies,
                                 size_t count, const CUDA_KERNEL_NODE_PARAMS *params)
{
    const struct node_place at =
        {CALL_cuGraphAddKernelNode_v2, node, graph, dependencies, NULL, count};
    CUDA_KERNEL_NODE_PARAMS p = {0};
    if (params != NULL)
        p = *params;
    return graph_call_add(&at, CU_GRAPH_NODE_TYPE_KERNEL, graph_make_kernel,
                          params != NULL ? &p : NULL);
}

CUresult cuGraphAddMemcpyNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *dependencies,
                              size_t count, const CUDA_MEMCPY3D *params, CUcontext context)
{
    const struct node_place at =
        {CALL_cuGraphAddMemcpyNode, node, graph, dependencies, NULL, count};
    CUDA_MEMCPY_NODE_PARAMS p = {.copyCtx = context};
    if (params != NULL)
        p.copyParams = *params;
    return graph_call_add(&at, CU_GRAPH_NODE_TYPE_MEMCPY, make_copy, params != NULL ? &p : NULL);
}

CUresult cuGraphAddMemsetNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *dependencies,
                              size_t count, const CUDA_MEMSET_NODE_PARAMS_v1 *params,
                              CUcontext context)
{
    const struct node_place at =
        {CALL_cuGraphAddMemsetNode, node, graph, dependencies, NULL, count};
    CUDA_MEMSET_NODE_PARAMS p = {.ctx = context};
    if (params != NULL)
        p.set = *params;
    return graph_call_add(&at, CU_GRAPH_NODE_TYPE_MEMSET, make_setting, params != NULL ? &p : NULL);
}

CUresult cuGraphAddHostNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *dependencies,
                            size_t count, const CUDA_HOST_NODE_PARAMS *params)
{
    const struct node_place at = {CALL_cuGraphAddHostNode, node, graph, dependencies, NULL, count};
    CUDA_HOST_NODE_PARAMS p = {0};
    if (params != NULL)
        p = *params;
    return graph_call_add(&at, CU_GRAPH_NODE_TYPE_HOST, make_function, params != NULL ? &p : NULL);
}

CUresult cuGraphAddChildGraphNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *dependencies,
                                  size_t count, CUgraph child)
{
    const struct node_place at =
        {CALL_cuGraphAddChildGraphNode, node, graph, dependencies, NULL, count};
    return graph_call_add(&at, CU_GRAPH_NODE_TYPE_GRAPH, make_child, &child);
}

CUresult cuGraphAddMemAllocNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *dependencies,
                                size_t count, CUDA_MEM_ALLOC_NODE_PARAMS *params)
{
    const struct node_place at =
        {CALL_cuGraphAddMemAllocNode, node, graph, dependencies, NULL, count};
    return graph_call_add(&at, CU_GRAPH_NODE_TYPE_MEM_ALLOC, make_allocation, params);
}

CUresult cuGraphAddMemFreeNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *dependencies,
                               size_t count, CUdeviceptr pointer)
{
    const struct node_place at =
        {CALL_cuGraphAddMemFreeNode, node, graph, dependencies, NULL, count};
    return graph_call_add(&at, CU_GRAPH_NODE_TYPE_MEM_FREE, make_free, &pointer);
}

CUresult cuGraphAddEventRecordNode(CUgraphNode *node, CUgraph graph,
                                   const CUgraphNode *dependencies, size_t count, CUevent event)
{
    const struct node_place at =
        {CALL_cuGraphAddEventRecordNode, node, graph, dependencies, NULL, count};
    return graph_call_add(&at, CU_GRAPH_NODE_TYPE_EVENT_RECORD, make_event, &event);
}

CUresult cuGraphAddEventWaitNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *dependencies,
                                 size_t count, CUevent event)
{
    const struct node_place at =
        {CALL_cuGraphAddEventWaitNode, node, graph, dependencies, NULL, count};
    return graph_call_add(&at, CU_GRAPH_NODE_TYPE_WAIT_EVENT, make_event, &event);
}

static CUresult refuse(const struct graph *g, void *params, struct node_parts *ret)
{
    (void)g;
    (void)params;
    (void)ret;
    return CUDA_ERROR_NOT_SUPPORTED;
}

static CUresult add(const struct node_place *at, CUgraphNodeParams *p)
{
    if (p == NULL)
        return graph_call_add(at, 0, refuse, NULL);
    switch (p->type) {
    case CU_GRAPH_NODE_TYPE_KERNEL:
        return graph_call_add(at, p->type, graph_make_kernel, &p->of.kernel);
    case CU_GRAPH_NODE_TYPE_MEMCPY:
        return graph_call_add(at, p->type, make_copy, &p->of.memcpy);
    case CU_GRAPH_NODE_TYPE_MEMSET:
        return graph_call_add(at, p->type, make_setting, &p->of.memset);
    case CU_GRAPH_NODE_TYPE_HOST:
        return graph_call_add(at, p->type, make_function, &p->of.host);
    case CU_GRAPH_NODE_TYPE_GRAPH:
        return graph_call_add(at, p->type, make_child, &p->of.graph);
    case CU_GRAPH_NODE_TYPE_EMPTY:
        return graph_call_add(at, p->type, NULL, NULL);
    case CU_GRAPH_NODE_TYPE_WAIT_EVENT:
    case CU_GRAPH_NODE_TYPE_EVENT_RECORD:
        return graph_call_add(at, p->type, make_event, &p->of.event);
    case CU_GRAPH_NODE_TYPE_MEM_ALLOC:
        return graph_call_add(at, p->type, make_allocation, &p->of.alloc);
    case CU_GRAPH_NODE_TYPE_MEM_FREE:
        return graph_call_add(at, p->type, make_free, &p->of.free);
    default:
        return graph_call_add(at, p->type, refuse, p);
    }
}

CUresult cuGraphAddNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *dependencies,
                        size_t count, CUgraphNodeParams *params)
{
    const struct node_place at = {CALL_cuGraphAddNode, node, graph, dependencies, NULL, count};
    return add(&at, params);
}

CUresult cuGraphAddNode_v2(CUgraphNode *node, CUgraph graph, const CUgraphNode *dependencies,
                           const CUgraphEdgeData *edges, size_t count, CUgraphNodeParams *params)
{
    const struct node_place at = {CALL_cuGraphAddNode_v2, node, graph, dependencies, edges, count};
    return add(&at, params);
}
