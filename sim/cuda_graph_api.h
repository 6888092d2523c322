/* SPDX-License-Identifier: Apache-2.0 */
/* What the functions of the API that are about graphs have in common. */
#pragma once

#include "sim/cuda_context.h"
#include "sim/cuda_graph.h"

/* Begins a call that needs no context, and locks the contexts; to be ended in any case. */
CUresult graph_call_enter(struct cuda_call *c);
CUresult graph_call_leave(struct cuda_call *c, CUresult rc);

/* The graph or the node of a handle: INVALID_VALUE. */
CUresult graph_find(CUgraph handle, struct graph **ret);
CUresult graph_find_node(CUgraphNode handle, struct graph_node **ret);

/* Adds nodes of a graph to a set, which the caller clears in any case. */
CUresult graph_find_set(const struct graph *g, const CUgraphNode *handles, size_t count,
                        struct node_set *ret);

/* NOT_SUPPORTED for edges that are not plain ones. */
CUresult graph_check_edges(const CUgraphEdgeData *edges, size_t count);

/* Where a call adds a node. */
struct node_place {
    unsigned int call;
    CUgraphNode *node;
    CUgraph graph;
    const CUgraphNode *dependencies;
    const CUgraphEdgeData *edges; /* or NULL */
    size_t count;
};

/* What a node is made of; each may be NULL. */
struct node_parts {
    struct node_work *work;
    struct graph *child;
};

/* Makes that of a node's parameters, where it may write what the program is told. */
typedef CUresult node_maker(const struct graph *g, void *params, struct node_parts *ret);

/* The whole call. Without a maker the node does nothing. */
CUresult graph_call_add(const struct node_place *at, int type, node_maker *make, void *params);

/* What the first form of the parameters is in the later one. */
CUDA_KERNEL_NODE_PARAMS graph_kernel_params(const CUDA_KERNEL_NODE_PARAMS_v1 *p);

CUresult graph_make_kernel(const struct graph *g, void *params, struct node_parts *ret);
