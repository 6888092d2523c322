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

enum { NODE_GRAPH = 4, NODE_ALLOCATION = 10, MAX_DEPTH = 64 };

/* A flag of cuGraphInstantiateWithParams alone. */
#define UPLOAD UINT64_C(2)

/* Bytes that one launch allocates on each device. Nodes that do not stand at the same time count,
 * too. */
struct needs {
    uint64_t bytes[DEVICES_MAX];
    int reach; /* devices from here on have nothing */
};

static CUresult add_graph(CUgraph graph, unsigned int depth, struct needs *ret);

static void add_bytes(struct needs *n, CUdevice device, uint64_t bytes)
{
    if (device < 0 || device >= DEVICES_MAX)
        return;
    if (__builtin_add_overflow(n->bytes[device], bytes, &n->bytes[device]))
        n->bytes[device] = UINT64_MAX;
    n->reach = device >= n->reach ? device + 1 : n->reach;
}

static CUresult add_allocation(CUgraphNode node, struct needs *ret)
{
    struct alloc_node a = {0};
    CUresult rc = also.cuGraphMemAllocNodeGetParams(node, &a);
    if (rc == CUDA_SUCCESS && a.pool.location.type == CU_MEM_LOCATION_TYPE_DEVICE)
        add_bytes(ret, a.pool.location.id, a.bytes);
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
    if (depth > MAX_DEPTH) {
        for (CUdevice i = 0; i < devices_count(); i++)
            add_bytes(ret, i, UINT64_MAX); /* nobody has looked so deep */
        return CUDA_SUCCESS;
    }
    CUresult rc = also.cuGraphGetNodes(graph, NULL, &n);
    return rc == CUDA_SUCCESS && n != 0 ? add_nodes(graph, n, depth, ret) : rc;
}

/* --- What is noted of an executable graph: for each device an entry of the ledger. Nothing is taken
 * for it. --- */

static uint64_t key_of(CUgraphExec exec, CUdevice device)
{
    return (uint64_t)(uintptr_t)exec ^ (uint64_t)device << 56U;
}

static void put(const struct needs *needs, CUgraphExec exec)
{
    for (int i = 0; i < needs->reach; i++) {
        const struct ledger_entry e = {.key = key_of(exec, i),
                                       .bytes = needs->bytes[i],
                                       .kind = LEDGER_GRAPH,
                                       .card = (int8_t)card_of_device(i),
                                       .device = (int16_t)i,
                                       .holds = 1};
        if (needs->bytes[i] != 0)
            ledger_put(&e);
    }
}

/* A graph of which the driver does not tell what it allocates may not be launched. */
static CUresult note(CUgraph graph, CUgraphExec exec)
{
    struct needs needs = {0};
    CUresult rc = add_graph(graph, 0, &needs);
    if (rc == CUDA_SUCCESS)
        put(&needs, exec);
    else
        (void)real.cuGraphExecDestroy(exec);
    return rc;
}

static struct needs noted(CUgraphExec exec)
{
    struct needs needs = {0};
    struct ledger_entry e;
    for (int i = 0; i < devices_count(); i++) {
        if (ledger_hold(LEDGER_GRAPH, key_of(exec, i), 0, &e) > 0)
            add_bytes(&needs, i, e.bytes);
    }
    return needs;
}

static void forget(CUgraphExec exec)
{
    struct ledger_entry e;
    for (int i = 0; i < devices_count(); i++)
        (void)ledger_take(LEDGER_GRAPH, key_of(exec, i), &e);
}

/* --- Taking --- */

static struct pools_graph part_of(const struct needs *n, CUdevice device)
{
    return (struct pools_graph){.device = device,
                                .card = n->bytes[device] != 0 ? card_of_device(device) : -1,
                                .bytes = n->bytes[device]};
}

static void end(const struct needs *n, int reach)
{
    for (int i = 0; i < reach; i++) {
        const struct pools_graph part = part_of(n, i);
        pools_graph_end(&part);
    }
}

static bool begin(const struct needs *n)
{
    for (int i = 0; i < n->reach; i++) {
        const struct pools_graph part = part_of(n, i);
        if (pools_graph_begin(&part))
            continue;
        end(n, i);
        return false;
    }
    return true;
}

/* --- The calls --- */

/* A graph that is uploaded when it is made executable takes its memory then. SUCCESS: the call is to
 * be made. Whatever it returns, end_instance follows. */
static CUresult begin_instance(struct needs *needs, CUgraph graph, uint64_t flags)
{
    *needs = (struct needs){0};
    CUresult rc = (flags & UPLOAD) != 0 ? add_graph(graph, 0, needs) : CUDA_SUCCESS;
    if (rc == CUDA_SUCCESS && !begin(needs))
        rc = CUDA_ERROR_OUT_OF_MEMORY;
    if (rc != CUDA_SUCCESS)
        needs->reach = 0;
    return rc;
}

/* Nodes that another thread has added during the call are found by note. */
static CUresult end_instance(const struct needs *needs, CUresult rc, CUgraph graph,
                             const CUgraphExec *exec)
{
    if (rc == CUDA_SUCCESS)
        rc = note(graph, *exec);
    end(needs, needs->reach);
    return rc;
}

CUresult cuGraphInstantiate(CUgraphExec *exec, CUgraph graph, CUgraphNode *node, char *text,
                            size_t bytes)
{
    struct needs needs;
    CUresult rc = begin_instance(&needs, graph, /* flags= */ 0);
    if (rc == CUDA_SUCCESS)
        rc = real.cuGraphInstantiate(exec, graph, node, text, bytes);
    return end_instance(&needs, rc, graph, exec);
}

CUresult cuGraphInstantiate_v2(CUgraphExec *exec, CUgraph graph, CUgraphNode *node, char *text,
                               size_t bytes)
{
    struct needs needs;
    CUresult rc = begin_instance(&needs, graph, /* flags= */ 0);
    if (rc == CUDA_SUCCESS)
        rc = real.cuGraphInstantiate_v2(exec, graph, node, text, bytes);
    return end_instance(&needs, rc, graph, exec);
}

CUresult cuGraphInstantiateWithFlags(CUgraphExec *exec, CUgraph graph, uint64_t flags)
{
    struct needs needs;
    CUresult rc = begin_instance(&needs, graph, /* flags= */ 0);
    if (rc == CUDA_SUCCESS)
        rc = real.cuGraphInstantiateWithFlags(exec, graph, flags);
    return end_instance(&needs, rc, graph, exec);
}

/* CUDA_GRAPH_INSTANTIATE_PARAMS begins with the flags. */
static uint64_t flags_of(const void *params)
{
    return params != NULL ? *(const uint64_t *)params : 0;
}

CUresult cuGraphInstantiateWithParams(CUgraphExec *exec, CUgraph graph, void *params)
{
    struct needs needs;
    CUresult rc = begin_instance(&needs, graph, flags_of(params));
    if (rc == CUDA_SUCCESS)
        rc = real.cuGraphInstantiateWithParams(exec, graph, params);
    return end_instance(&needs, rc, graph, exec);
}

CUresult cuGraphInstantiateWithParams_ptsz(CUgraphExec *exec, CUgraph graph, void *params)
{
    struct needs needs;
    CUresult rc = begin_instance(&needs, graph, flags_of(params));
    if (rc == CUDA_SUCCESS)
        rc = real.cuGraphInstantiateWithParams_ptsz(exec, graph, params);
    return end_instance(&needs, rc, graph, exec);
}

CUresult cuGraphExecDestroy(CUgraphExec exec)
{
    const struct needs needs = noted(exec);
    forget(exec);
    CUresult rc = real.cuGraphExecDestroy(exec);
    if (rc != CUDA_SUCCESS)
        put(&needs, exec);
    return rc;
}

/* A launch or an upload. */
struct run {
    struct gate_pass pass;
    struct needs needs; /* that have been taken */
};

/* In a stream that is captured it becomes a part of another graph. SUCCESS: the call is to be made.
 * Whatever it returns, end_run follows. */
static CUresult begin_run(struct run *r, CUgraphExec exec, CUstream stream)
{
    *r = (struct run){.pass = {.card = -1}};
    if (streams_is_captured(stream))
        return CUDA_SUCCESS;
    r->needs = noted(exec);
    if (!gate_is_open())
        gate_enter(&r->pass, stream);
    if (begin(&r->needs))
        return CUDA_SUCCESS;
    r->needs.reach = 0;
    return CUDA_ERROR_OUT_OF_MEMORY;
}

static CUresult end_run(const struct run *r, CUresult rc)
{
    rc = gate_leave(&r->pass, rc);
    end(&r->needs, r->needs.reach);
    return rc;
}

CUresult cuGraphLaunch(CUgraphExec exec, CUstream stream)
{
    struct run r;
    CUresult rc = begin_run(&r, exec, stream);
    return end_run(&r, rc == CUDA_SUCCESS ? real.cuGraphLaunch(exec, stream) : rc);
}

CUresult cuGraphLaunch_ptsz(CUgraphExec exec, CUstream stream)
{
    struct run r;
    CUresult rc = begin_run(&r, exec, stream_of_thread(stream));
    return end_run(&r, rc == CUDA_SUCCESS ? real.cuGraphLaunch_ptsz(exec, stream) : rc);
}

CUresult cuGraphUpload(CUgraphExec exec, CUstream stream)
{
    struct run r;
    CUresult rc = begin_run(&r, exec, stream);
    return end_run(&r, rc == CUDA_SUCCESS ? real.cuGraphUpload(exec, stream) : rc);
}

CUresult cuGraphUpload_ptsz(CUgraphExec exec, CUstream stream)
{
    struct run r;
    CUresult rc = begin_run(&r, exec, stream_of_thread(stream));
    return end_run(&r, rc == CUDA_SUCCESS ? real.cuGraphUpload_ptsz(exec, stream) : rc);
}
