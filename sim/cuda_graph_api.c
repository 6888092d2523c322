/* SPDX-License-Identifier: Apache-2.0 */
/* CUDA: graphs, their nodes, and what depends on what. Contracts are the driver API's own. */
#include "sim/cuda_graph_api.h"

#include <stdlib.h>

#include "sim/cuda_handle.h"

/* --- Calls --- */

CUresult graph_call_enter(struct cuda_call *c)
{
    CUresult rc = cuda_enter(c);
    context_lock();
    return rc;
}

CUresult graph_call_leave(struct cuda_call *c, CUresult rc)
{
    context_unlock();
    return cuda_leave(c, rc);
}

CUresult graph_find(CUgraph handle, struct graph **ret)
{
    *ret = handle_find(HANDLE_GRAPH, handle);
    return *ret != NULL ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult graph_find_node(CUgraphNode handle, struct graph_node **ret)
{
    *ret = handle_find(HANDLE_NODE, handle);
    return *ret != NULL ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult graph_find_set(const struct graph *g, const CUgraphNode *handles, size_t count,
                        struct node_set *ret)
{
    struct graph_node *node = NULL;
    CUresult rc = count == 0 || handles != NULL ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
    for (size_t i = 0; rc == CUDA_SUCCESS && i < count; i++) {
        rc = graph_find_node(handles[i], &node);
        if (rc == CUDA_SUCCESS && node->graph != g)
            rc = CUDA_ERROR_INVALID_VALUE;
        if (rc == CUDA_SUCCESS && !node_set_add(ret, node))
            rc = CUDA_ERROR_OUT_OF_MEMORY;
    }
    return rc;
}

CUresult graph_check_edges(const CUgraphEdgeData *edges, size_t count)
{
    for (size_t i = 0; edges != NULL && i < count; i++) {
        if (edges[i].from_port != 0 || edges[i].to_port != 0 || edges[i].type != 0)
            return CUDA_ERROR_NOT_SUPPORTED;
    }
    return CUDA_SUCCESS;
}

/* --- Graphs --- */

CUresult cuGraphCreate(CUgraph *graph, unsigned int flags)
{
    struct cuda_call c = {.id = CALL_cuGraphCreate};
    CUresult rc = graph_call_enter(&c);
    if (rc == CUDA_SUCCESS && (graph == NULL || flags != 0))
        rc = CUDA_ERROR_INVALID_VALUE;
    const struct graph *g = rc == CUDA_SUCCESS ? graph_new() : NULL;
    if (rc == CUDA_SUCCESS && g == NULL)
        rc = CUDA_ERROR_OUT_OF_MEMORY;
    if (rc == CUDA_SUCCESS)
        *graph = g->handle;
    return graph_call_leave(&c, rc);
}

/* Assumed: one that a capture adds to stays. */
CUresult cuGraphDestroy(CUgraph graph)
{
    struct cuda_call c = {.id = CALL_cuGraphDestroy};
    struct graph *g = NULL;
    CUresult rc = graph_call_enter(&c);
    if (rc == CUDA_SUCCESS)
        rc = graph_find(graph, &g);
    if (rc == CUDA_SUCCESS && g->users > 0)
        rc = CUDA_ERROR_INVALID_VALUE;
    if (rc == CUDA_SUCCESS)
        graph_free(g);
    return graph_call_leave(&c, rc);
}

/* --- Nodes --- */

CUresult cuGraphAddEmptyNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *dependencies,
                             size_t count)
{
    const struct node_place at = {CALL_cuGraphAddEmptyNode, node, graph, dependencies, NULL, count};
    return graph_call_add(&at, CU_GRAPH_NODE_TYPE_EMPTY, NULL, NULL);
}

static struct graph_node *add_made(struct graph *g, int type, struct node_parts *parts,
                                   const struct node_set *from)
{
    struct graph_node *node = graph_add_node(g, type, parts->work, from);
    if (node == NULL || parts->child == NULL)
        return node;
    node->child = parts->child;
    node->child->users++;
    parts->child = NULL;
    return node;
}

static CUresult add_to(struct graph *g, const struct node_place *at, int type, node_maker *make,
                       void *params)
{
    struct node_set from = {0};
    struct node_parts parts = {0};
    const struct graph_node *made = NULL;
    CUresult rc = graph_find_set(g, at->dependencies, at->count, &from);
    if (rc == CUDA_SUCCESS)
        rc = graph_check_edges(at->edges, at->count);
    if (rc == CUDA_SUCCESS && make != NULL)
        rc = make(g, params, &parts);
    if (rc == CUDA_SUCCESS)
        made = add_made(g, type, &parts, &from);
    node_work_unref(parts.work);
    if (parts.child != NULL)
        graph_free(parts.child);
    node_set_clear(&from);
    if (rc == CUDA_SUCCESS && made == NULL)
        rc = CUDA_ERROR_OUT_OF_MEMORY;
    if (rc == CUDA_SUCCESS)
        *at->node = made->handle;
    return rc;
}

CUresult graph_call_add(const struct node_place *at, int type, node_maker *make, void *params)
{
    struct cuda_call c = {.id = at->call};
    struct graph *g = NULL;
    CUresult rc = graph_call_enter(&c);
    if (rc == CUDA_SUCCESS && (at->node == NULL || (make != NULL && params == NULL)))
        rc = CUDA_ERROR_INVALID_VALUE;
    if (rc == CUDA_SUCCESS)
        rc = graph_find(at->graph, &g);
    if (rc == CUDA_SUCCESS)
        rc = add_to(g, at, type, make, params);
    return graph_call_leave(&c, rc);
}

/* Assumed: one of a graph that a capture adds to stays. What allocates and frees memory stays, too. */
CUresult cuGraphDestroyNode(CUgraphNode node)
{
    struct cuda_call c = {.id = CALL_cuGraphDestroyNode};
    struct graph_node *n = NULL;
    CUresult rc = graph_call_enter(&c);
    if (rc == CUDA_SUCCESS)
        rc = graph_find_node(node, &n);
    if (rc == CUDA_SUCCESS && n->graph->users > 0)
        rc = CUDA_ERROR_INVALID_VALUE;
    if (rc == CUDA_SUCCESS && graph_has_memory(n->graph))
        rc = CUDA_ERROR_NOT_SUPPORTED;
    if (rc == CUDA_SUCCESS)
        graph_remove_node(n);
    return graph_call_leave(&c, rc);
}

CUresult cuGraphNodeGetType(CUgraphNode node, int *type)
{
    struct cuda_call c = {.id = CALL_cuGraphNodeGetType};
    struct graph_node *n = NULL;
    CUresult rc = graph_call_enter(&c);
    if (rc == CUDA_SUCCESS)
        rc = type != NULL ? graph_find_node(node, &n) : CUDA_ERROR_INVALID_VALUE;
    if (rc == CUDA_SUCCESS)
        *type = n->type;
    return graph_call_leave(&c, rc);
}

/* --- Lists: how many there are, or as many as there is room for, and nothing behind them --- */

struct list {
    CUgraphNode *nodes;
    size_t room, count;
};

static void list_add(struct list *l, const struct graph_node *node)
{
    if (l->nodes != NULL && l->count < l->room)
        l->nodes[l->count] = node->handle;
    l->count++;
}

static void list_end(const struct list *l, size_t *ret_count)
{
    for (size_t i = l->count; l->nodes != NULL && i < l->room; i++)
        l->nodes[i] = NULL;
    *ret_count = l->nodes != NULL && l->count > l->room ? l->room : l->count;
}

static CUresult list_graph(unsigned int call, CUgraph graph, CUgraphNode *nodes, size_t *count,
                           bool only_roots)
{
    struct cuda_call c = {.id = call};
    struct graph *g = NULL;
    CUresult rc = graph_call_enter(&c);
    if (rc == CUDA_SUCCESS)
        rc = count != NULL ? graph_find(graph, &g) : CUDA_ERROR_INVALID_VALUE;
    if (rc == CUDA_SUCCESS) {
        struct list l = {.nodes = nodes, .room = *count};
        for (const struct graph_node *n = g->nodes; n != NULL; n = n->next) {
            if (!only_roots || n->from.count == 0)
                list_add(&l, n);
        }
        list_end(&l, count);
    }
    return graph_call_leave(&c, rc);
}

CUresult cuGraphGetNodes(CUgraph graph, CUgraphNode *nodes, size_t *count)
{
    return list_graph(CALL_cuGraphGetNodes, graph, nodes, count, /* only_roots= */ false);
}

CUresult cuGraphGetRootNodes(CUgraph graph, CUgraphNode *nodes, size_t *count)
{
    return list_graph(CALL_cuGraphGetRootNodes, graph, nodes, count, /* only_roots= */ true);
}

static void list_neighbours(const struct graph_node *node, bool behind, struct list *ret)
{
    for (size_t i = 0; !behind && i < node->from.count; i++)
        list_add(ret, node->from.nodes[i]);
    for (const struct graph_node *n = node->graph->nodes; behind && n != NULL; n = n->next) {
        if (node_set_has(&n->from, node))
            list_add(ret, n);
    }
}

static void clear_edges(CUgraphEdgeData *edges, size_t count)
{
    for (size_t i = 0; edges != NULL && i < count; i++)
        edges[i] = (CUgraphEdgeData){0};
}

static CUresult list_node(unsigned int call, CUgraphNode node, CUgraphNode *nodes,
                          CUgraphEdgeData *edges, size_t *count, bool behind)
{
    struct cuda_call c = {.id = call};
    struct graph_node *n = NULL;
    CUresult rc = graph_call_enter(&c);
    if (rc == CUDA_SUCCESS && (count == NULL || (edges != NULL && nodes == NULL)))
        rc = CUDA_ERROR_INVALID_VALUE;
    if (rc == CUDA_SUCCESS)
        rc = graph_find_node(node, &n);
    if (rc == CUDA_SUCCESS) {
        struct list l = {.nodes = nodes, .room = *count};
        list_neighbours(n, behind, &l);
        clear_edges(edges, l.room);
        list_end(&l, count);
    }
    return graph_call_leave(&c, rc);
}

CUresult cuGraphNodeGetDependencies(CUgraphNode node, CUgraphNode *from, size_t *count)
{
    return list_node(CALL_cuGraphNodeGetDependencies, node, from, NULL, count, /* behind= */ false);
}

CUresult cuGraphNodeGetDependencies_v2(CUgraphNode node, CUgraphNode *from, CUgraphEdgeData *edges,
                                       size_t *count)
{
    return list_node(CALL_cuGraphNodeGetDependencies_v2, node, from, edges, count,
                     /* behind= */ false);
}

CUresult cuGraphNodeGetDependentNodes(CUgraphNode node, CUgraphNode *to, size_t *count)
{
    return list_node(CALL_cuGraphNodeGetDependentNodes, node, to, NULL, count, /* behind= */ true);
}

CUresult cuGraphNodeGetDependentNodes_v2(CUgraphNode node, CUgraphNode *to, CUgraphEdgeData *edges,
                                         size_t *count)
{
    return list_node(CALL_cuGraphNodeGetDependentNodes_v2, node, to, edges, count,
                     /* behind= */ true);
}
