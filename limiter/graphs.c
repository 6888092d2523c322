/* SPDX-License-Identifier: Apache-2.0 */
/*
 * CUDA: graphs, whose allocation nodes take memory when they are launched or uploaded.
 *
 * Allocation nodes are looked for once, when the graph is made executable: nobody can change them
 * afterwards.
 */
#include <stdlib.h>

#include "limiter/charge.h"
#include "limiter/device.h"
#include "limiter/gate.h"
#include "limiter/pools.h"
#include "limiter/real.h"
#include "limiter/streams.h"

enum { NODE_GRAPH = 4, NODE_ALLOCATION = 10, MAX_DEPTH = 8 };

/* A flag of cuGraphInstantiateWithParams alone. */
#define UPLOAD UINT64_C(2)

/* What one launch allocates, and where. A graph allocates on one device as a rule; of one with more
 * the sum counts on the first. */
struct needs {
    uint64_t bytes;
    CUdevice device;
};

static CUresult add_graph(CUgraph graph, unsigned int depth, struct needs *ret);

static CUresult add_allocation(CUgraphNode node, struct needs *ret)
{
    struct alloc_node a = {0};
    CUresult rc = also.cuGraphMemAllocNodeGetParams(node, &a);
    if (rc != CUDA_SUCCESS || a.pool.location.type != CU_MEM_LOCATION_TYPE_DEVICE)
        return rc;
    if (ret->bytes == 0)
        ret->device = a.pool.location.id;
    if (__builtin_add_overflow(ret->bytes, a.bytes, &ret->bytes))
        ret->bytes = UINT64_MAX;
    return rc;
}

static CUresult add_child(CUgraphNode node, unsigned int depth, struct needs *ret)
{
    CUgraph child = NULL;
    CUresult rc = also.cuGraphChildGraphNodeGetGraph(node, &child);
    return rc == CUDA_SUCCESS ? add_graph(child, depth, ret) : rc;
}

static CUresult add_node(CUgraphNode node, unsigned int depth, struct needs *ret)
{
    int type = 0;
    CUresult rc = also.cuGraphNodeGetType(node, &type);
    if (rc == CUDA_SUCCESS && type == NODE_ALLOCATION)
        return add_allocation(node, ret);
    return rc == CUDA_SUCCESS && type == NODE_GRAPH ? add_child(node, depth + 1, ret) : rc;
}

static CUresult add_nodes(CUgraph graph, size_t n, unsigned int depth, struct needs *ret)
{
    CUgraphNode *nodes = calloc(n, sizeof(CUgraphNode));
    CUresult rc = nodes != NULL ? also.cuGraphGetNodes(graph, nodes, &n) : CUDA_ERROR_OUT_OF_MEMORY;
    for (size_t i = 0; rc == CUDA_SUCCESS && i < n; i++)
        rc = add_node(nodes[i], depth, ret);
    free(nodes);
    return rc;
}

static CUresult add_graph(CUgraph graph, unsigned int depth, struct needs *ret)
{
    size_t n = 0;
    if (depth > MAX_DEPTH)
        return CUDA_SUCCESS;
    CUresult rc = also.cuGraphGetNodes(graph, NULL, &n);
    return rc == CUDA_SUCCESS && n != 0 ? add_nodes(graph, n, depth, ret) : rc;
}

static uint64_t key_of(CUgraphExec exec)
{
    return (uint64_t)(uintptr_t)exec;
}

/* The ledger's entry of an executable graph has what a launch needs; nothing is taken for it. */
static void note(const struct needs *needs, CUgraphExec exec)
{
    if (needs->bytes == 0)
        return;
    const struct ledger_entry e = {.key = key_of(exec),
                                   .bytes = needs->bytes,
                                   .kind = LEDGER_GRAPH,
                                   .card = (int8_t)card_of_device(needs->device),
                                   .device = (int16_t)needs->device,
                                   .holds = 1};
    ledger_put(&e);
}

/* One that is uploaded at once takes its memory now. */
#define INSTANTIATE(exec, graph, flags, call)                                                      \
    struct needs needs = {0};                                                                      \
    CUresult rc = add_graph(graph, 0, &needs);                                                     \
    if (rc != CUDA_SUCCESS)                                                                        \
        return rc;                                                                                 \
    bool uploads = ((flags)&UPLOAD) != 0 && needs.bytes != 0;                                      \
    if (uploads && !pools_take_for_graph(card_of_device(needs.device), needs.device, needs.bytes)) \
        return CUDA_ERROR_OUT_OF_MEMORY;                                                           \
    rc = call;                                                                                     \
    if (rc == CUDA_SUCCESS)                                                                        \
        note(&needs, *(exec));                                                                     \
    return settle(rc, uploads)

static CUresult settle(CUresult rc, bool allocates)
{
    if (allocates)
        pools_settle();
    return rc;
}

CUresult cuGraphInstantiate(CUgraphExec *exec, CUgraph graph, CUgraphNode *node, char *text,
                            size_t bytes)
{
    INSTANTIATE(exec, graph, 0U, real.cuGraphInstantiate(exec, graph, node, text, bytes));
}

CUresult cuGraphInstantiate_v2(CUgraphExec *exec, CUgraph graph, CUgraphNode *node, char *text,
                               size_t bytes)
{
    INSTANTIATE(exec, graph, 0U, real.cuGraphInstantiate_v2(exec, graph, node, text, bytes));
}

CUresult cuGraphInstantiateWithFlags(CUgraphExec *exec, CUgraph graph, uint64_t flags)
{
    INSTANTIATE(exec, graph, 0U, real.cuGraphInstantiateWithFlags(exec, graph, flags));
}

/* CUDA_GRAPH_INSTANTIATE_PARAMS begins with the flags. */
static uint64_t flags_of(const void *params)
{
    return params != NULL ? *(const uint64_t *)params : 0;
}

CUresult cuGraphInstantiateWithParams(CUgraphExec *exec, CUgraph graph, void *params)
{
    INSTANTIATE(exec, graph, flags_of(params),
                real.cuGraphInstantiateWithParams(exec, graph, params));
}

CUresult cuGraphInstantiateWithParams_ptsz(CUgraphExec *exec, CUgraph graph, void *params)
{
    INSTANTIATE(exec, graph, flags_of(params),
                real.cuGraphInstantiateWithParams_ptsz(exec, graph, params));
}

CUresult cuGraphExecDestroy(CUgraphExec exec)
{
    struct ledger_entry e;
    (void)ledger_take(LEDGER_GRAPH, key_of(exec), &e);
    return real.cuGraphExecDestroy(exec);
}

/* --- Launches --- */

static bool take(CUgraphExec exec, bool *ret_allocates)
{
    struct ledger_entry e;
    *ret_allocates = ledger_hold(LEDGER_GRAPH, key_of(exec), 0, &e) > 0;
    return !*ret_allocates || pools_take_for_graph(e.card, e.device, e.bytes);
}

/* In a stream that is captured it becomes a part of another graph. */
#define RUN(exec, stream, call)                                                                    \
    struct gate_pass pass = {.card = -1};                                                          \
    bool allocates = false;                                                                        \
    if (streams_is_captured(stream))                                                               \
        return call;                                                                               \
    if (!gate_is_open())                                                                           \
        gate_enter(&pass, stream);                                                                 \
    CUresult rc = take(exec, &allocates) ? call : CUDA_ERROR_OUT_OF_MEMORY;                        \
    return settle(gate_leave(&pass, rc), allocates)

CUresult cuGraphLaunch(CUgraphExec exec, CUstream stream)
{
    RUN(exec, stream, real.cuGraphLaunch(exec, stream));
}

CUresult cuGraphLaunch_ptsz(CUgraphExec exec, CUstream stream)
{
    CUstream own = stream_of_thread(stream);
    RUN(exec, own, real.cuGraphLaunch_ptsz(exec, stream));
}

CUresult cuGraphUpload(CUgraphExec exec, CUstream stream)
{
    RUN(exec, stream, real.cuGraphUpload(exec, stream));
}

CUresult cuGraphUpload_ptsz(CUgraphExec exec, CUstream stream)
{
    CUstream own = stream_of_thread(stream);
    RUN(exec, own, real.cuGraphUpload_ptsz(exec, stream));
}
