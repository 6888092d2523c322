/* SPDX-License-Identifier: Apache-2.0 */
/* CUDA: the edges of graphs. Contracts are the driver API's own. A circle is refused when the graph is
 * made executable. */
#include "sim/cuda_graph_api.h"

struct edge_list {
    const CUgraphNode *from, *to;
    const CUgraphEdgeData *edges;
    size_t count;
};

/* The ends of an edge between different nodes of a graph. */
static CUresult find_ends(const struct graph *g, const struct edge_list *l, size_t i,
                          struct graph_node **ret_from, struct graph_node **ret_to)
{
    CUresult rc = graph_find_node(l->from[i], ret_from);
    if (rc == CUDA_SUCCESS)
        rc = graph_find_node(l->to[i], ret_to);
    if (rc == CUDA_SUCCESS &&
        ((*ret_from)->graph != g || (*ret_to)->graph != g || *ret_from == *ret_to))
        rc = CUDA_ERROR_INVALID_VALUE;
    return rc;
}

static CUresult change_edge(const struct graph *g, const struct edge_list *l, size_t i, bool add)
{
    struct graph_node *from = NULL;
    struct graph_node *to = NULL;
    CUresult rc = find_ends(g, l, i, &from, &to);
    if (rc != CUDA_SUCCESS)
        return rc;
    if (node_set_has(&to->from, from) == add)
        return CUDA_ERROR_INVALID_VALUE;
    if (!add)
        (void)node_set_remove(&to->from, from);
    else if (!node_set_add(&to->from, from))
        return CUDA_ERROR_OUT_OF_MEMORY;
    return CUDA_SUCCESS;
}

/* All of them or none. What allocates and frees memory keeps its edges. */
static CUresult change_edges(const struct graph *g, const struct edge_list *l, bool add)
{
    size_t done = 0;
    CUresult rc = graph_check_edges(l->edges, l->count);
    if (rc == CUDA_SUCCESS && !add && graph_has_memory(g))
        rc = CUDA_ERROR_NOT_SUPPORTED;
    if (rc == CUDA_SUCCESS && l->count > 0 && (l->from == NULL || l->to == NULL))
        rc = CUDA_ERROR_INVALID_VALUE;
    while (rc == CUDA_SUCCESS && done < l->count) {
        rc = change_edge(g, l, done, add);
        done += rc == CUDA_SUCCESS;
    }
    while (rc != CUDA_SUCCESS && done > 0)
        (void)change_edge(g, l, --done, !add);
    return rc;
}

static CUresult change(unsigned int call, CUgraph graph, const struct edge_list *l, bool add)
{
    struct cuda_call c = {.id = call};
    struct graph *g = NULL;
    CUresult rc = graph_call_enter(&c);
    if (rc == CUDA_SUCCESS)
        rc = graph_find(graph, &g);
    if (rc == CUDA_SUCCESS)
        rc = change_edges(g, l, add);
    return graph_call_leave(&c, rc);
}

CUresult cuGraphAddDependencies(CUgraph graph, const CUgraphNode *from, const CUgraphNode *to,
                                size_t count)
{
    const struct edge_list l = {from, to, NULL, count};
    return change(CALL_cuGraphAddDependencies, graph, &l, /* add= */ true);
}

CUresult cuGraphAddDependencies_v2(CUgraph graph, const CUgraphNode *from, const CUgraphNode *to,
                                   const CUgraphEdgeData *edges, size_t count)
{
    const struct edge_list l = {from, to, edges, count};
    return change(CALL_cuGraphAddDependencies_v2, graph, &l, /* add= */ true);
}

CUresult cuGraphRemoveDependencies(CUgraph graph, const CUgraphNode *from, const CUgraphNode *to,
                                   size_t count)
{
    const struct edge_list l = {from, to, NULL, count};
    return change(CALL_cuGraphRemoveDependencies, graph, &l, /* add= */ false);
}

CUresult cuGraphRemoveDependencies_v2(CUgraph graph, const CUgraphNode *from, const CUgraphNode *to,
                                      const CUgraphEdgeData *edges, size_t count)
{
    const struct edge_list l = {from, to, edges, count};
    return change(CALL_cuGraphRemoveDependencies_v2, graph, &l, /* add= */ false);
}

static void list_edges(const struct graph *g, CUgraphNode *from, CUgraphNode *to,
                       CUgraphEdgeData *edges, size_t *count)
{
    size_t n = 0;
    for (const struct graph_node *node = g->nodes; node != NULL; node = node->next) {
        for (size_t i = 0; i < node->from.count; i++, n++) {
            if (from == NULL || n >= *count)
                continue;
            from[n] = node->from.nodes[i]->handle;
            to[n] = node->handle;
        }
    }
    for (size_t i = 0; edges != NULL && i < *count; i++)
        edges[i] = (CUgraphEdgeData){0};
    for (size_t i = n; from != NULL && i < *count; i++)
        from[i] = to[i] = NULL;
    *count = from != NULL && n > *count ? *count : n;
}

static CUresult get(unsigned int call, CUgraph graph, CUgraphNode *from, CUgraphNode *to,
                    CUgraphEdgeData *edges, size_t *count)
{
    struct cuda_call c = {.id = call};
    struct graph *g = NULL;
    CUresult rc = graph_call_enter(&c);
    if (rc == CUDA_SUCCESS &&
        (count == NULL || (from == NULL) != (to == NULL) || (edges != NULL && from == NULL)))
        rc = CUDA_ERROR_INVALID_VALUE;
    if (rc == CUDA_SUCCESS)
        rc = graph_find(graph, &g);
    if (rc == CUDA_SUCCESS)
        list_edges(g, from, to, edges, count);
    return graph_call_leave(&c, rc);
}

CUresult cuGraphGetEdges(CUgraph graph, CUgraphNode *from, CUgraphNode *to, size_t *count)
{
    return get(CALL_cuGraphGetEdges, graph, from, to, NULL, count);
}

CUresult cuGraphGetEdges_v2(CUgraph graph, CUgraphNode *from, CUgraphNode *to,
                            CUgraphEdgeData *edges, size_t *count)
{
    return get(CALL_cuGraphGetEdges_v2, graph, from, to, edges, count);
}
