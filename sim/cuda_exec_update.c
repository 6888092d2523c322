/* SPDX-License-Identifier: Apache-2.0 */
/* An executable graph that is to do what another graph of the same form does. Nodes are counterparts by the
 * order in which they were made. */
#include "sim/cuda_exec.h"

static CUresult refuse(const struct graph_node *node, int result, CUgraphExecUpdateResultInfo *ret)
{
    ret->result = result;
    ret->errorNode = node != NULL ? node->handle : NULL;
    return CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE;
}

static CUresult compare(struct graph *own, const struct graph *g, CUgraphExecUpdateResultInfo *ret);

static CUresult compare_edges(const struct graph_node *own, const struct graph_node *node,
                              CUgraphExecUpdateResultInfo *ret)
{
    bool same = own->from.count == node->from.count;
    for (size_t i = 0; same && i < own->from.count; i++)
        same = node_set_has(&node->from, own->from.nodes[i]->later);
    return same ? CUDA_SUCCESS : refuse(node, CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED, ret);
}

static CUresult compare_node(const struct graph_node *own, const struct graph_node *node,
                             CUgraphExecUpdateResultInfo *ret)
{
    if (own->type != node->type)
        return refuse(node, CU_GRAPH_EXEC_UPDATE_ERROR_NODE_TYPE_CHANGED, ret);
    bool has_other_context = node->work != NULL && own->work->context != node->work->context;
    if (has_other_context || (node->work != NULL && node->work->memory != NULL))
        return refuse(node, CU_GRAPH_EXEC_UPDATE_ERROR_NOT_SUPPORTED, ret);
    CUresult rc = compare_edges(own, node, ret);
    return rc == CUDA_SUCCESS && own->child != NULL ? compare(own->child, node->child, ret) : rc;
}

static CUresult compare(struct graph *own, const struct graph *g, CUgraphExecUpdateResultInfo *ret)
{
    CUresult rc = CUDA_SUCCESS;
    struct graph_node *counterpart = g->nodes;
    if (own->count != g->count)
        return refuse(NULL, CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED, ret);
    for (struct graph_node *n = own->nodes; n != NULL; n = n->next) {
        n->later = counterpart;
        counterpart = counterpart->next;
    }
    for (const struct graph_node *n = own->nodes; rc == CUDA_SUCCESS && n != NULL; n = n->next)
        rc = compare_node(n, n->later, ret);
    return rc;
}

/* They were compared. */
static void update(struct graph *own)
{
    for (struct graph_node *n = own->nodes; n != NULL; n = n->next) {
        struct node_work *before = n->work;
        n->work = node_work_ref(n->later->work);
        node_work_unref(before);
        if (n->child != NULL)
            update(n->child);
    }
}

CUresult exec_update(struct exec *e, struct graph *g, CUgraphExecUpdateResultInfo *ret)
{
    *ret = (CUgraphExecUpdateResultInfo){0};
    CUresult rc = compare(e->graph, g, ret);
    if (rc == CUDA_SUCCESS)
        update(e->graph);
    return rc;
}
