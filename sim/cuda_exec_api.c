/* SPDX-License-Identifier: Apache-2.0 */
/* CUDA: executable graphs. Contracts are the driver API's own. */
#include "sim/cuda_capture.h"
#include "sim/cuda_exec.h"
#include "sim/cuda_graph_api.h"
#include "sim/cuda_graph_items.h"
#include "sim/cuda_handle.h"
#include "sim/cuda_work.h"

#define FLAGS UINT64_C(15)

static CUresult find(CUgraphExec handle, struct exec **ret)
{
    *ret = handle_find(HANDLE_EXEC, handle);
    return *ret != NULL ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

/* --- Making them --- */

/* Nothing waits for it in the stream. */
static CUresult upload_in(const struct exec *e, const struct stream *s)
{
    CUresult rc = capture_check_legacy(s);
    if (rc == CUDA_SUCCESS && s->capture != NULL)
        rc = capture_refuse(s);
    return rc == CUDA_SUCCESS ? exec_upload(e) : rc;
}

static CUresult upload_by(struct cuda_context *context, const struct exec *e, CUstream stream)
{
    struct stream *s = NULL;
    CUresult rc = work_find_stream(context, stream, &s);
    return rc == CUDA_SUCCESS ? upload_in(e, s) : rc;
}

/* Assumed: graphs are not launched by the card itself. */
static CUresult instantiate(struct cuda_context *context, CUgraph graph,
                            CUDA_GRAPH_INSTANTIATE_PARAMS *p, CUstream stream, CUgraphExec *ret)
{
    struct graph *g = NULL;
    struct exec *e = NULL;
    void *node = NULL;
    if (ret == NULL || (p->flags & ~FLAGS) != 0)
        return CUDA_ERROR_INVALID_VALUE;
    if ((p->flags & CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH) != 0)
        return CUDA_ERROR_NOT_SUPPORTED;
    CUresult rc = graph_find(graph, &g);
    if (rc == CUDA_SUCCESS)
        rc = exec_new(g, p->flags, &e, &node);
    p->hErrNode_out = node;
    if (node != NULL)
        p->result_out = CUDA_GRAPH_INSTANTIATE_INVALID_STRUCTURE;
    if (rc != CUDA_SUCCESS)
        return rc;
    if ((p->flags & CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD) != 0)
        rc = upload_by(context, e, stream);
    if (rc == CUDA_SUCCESS)
        *ret = e->handle;
    else
        exec_end(e);
    return rc;
}

static CUresult instantiate_in(unsigned int call, CUgraphExec *exec, CUgraph graph,
                               CUDA_GRAPH_INSTANTIATE_PARAMS *params, CUstream stream)
{
    struct cuda_call c = {.id = call};
    struct cuda_context *context = NULL;
    CUresult rc = context_enter(&c, &context);
    if (rc == CUDA_SUCCESS && params == NULL)
        rc = CUDA_ERROR_INVALID_VALUE;
    if (rc == CUDA_SUCCESS) {
        params->result_out = CUDA_GRAPH_INSTANTIATE_ERROR;
        rc = instantiate(context, graph, params, stream, exec);
    }
    if (rc == CUDA_SUCCESS)
        params->result_out = CUDA_GRAPH_INSTANTIATE_SUCCESS;
    return context_leave(&c, context, rc);
}

/* The first forms, which had room for a text that nobody writes here. */
static CUresult instantiate_old(unsigned int call, CUgraphExec *exec, CUgraph graph,
                                CUgraphNode *node, char *text, size_t bytes)
{
    CUDA_GRAPH_INSTANTIATE_PARAMS p = {0};
    CUresult rc = instantiate_in(call, exec, graph, &p, NULL);
    if (node != NULL)
        *node = p.hErrNode_out;
    if (text != NULL && bytes > 0)
        text[0] = '\0';
    return rc;
}

CUresult cuGraphInstantiate(CUgraphExec *exec, CUgraph graph, CUgraphNode *node, char *text,
                            size_t bytes)
{
    return instantiate_old(CALL_cuGraphInstantiate, exec, graph, node, text, bytes);
}

CUresult cuGraphInstantiate_v2(CUgraphExec *exec, CUgraph graph, CUgraphNode *node, char *text,
                               size_t bytes)
{
    return instantiate_old(CALL_cuGraphInstantiate_v2, exec, graph, node, text, bytes);
}

/* An upload has to say its stream. */
CUresult cuGraphInstantiateWithFlags(CUgraphExec *exec, CUgraph graph, unsigned long long flags)
{
    CUDA_GRAPH_INSTANTIATE_PARAMS p = {.flags = flags};
    bool uploads = (flags & CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD) != 0;
    return instantiate_in(CALL_cuGraphInstantiateWithFlags, exec, graph, uploads ? NULL : &p, NULL);
}

CUresult cuGraphInstantiateWithParams(CUgraphExec *exec, CUgraph graph,
                                      CUDA_GRAPH_INSTANTIATE_PARAMS *params)
{
    CUstream stream = params != NULL ? params->hUploadStream : NULL;
    return instantiate_in(CALL_cuGraphInstantiateWithParams, exec, graph, params, stream);
}

CUresult cuGraphInstantiateWithParams_ptsz(CUgraphExec *exec, CUgraph graph,
                                           CUDA_GRAPH_INSTANTIATE_PARAMS *params)
{
    CUstream stream = params != NULL ? params->hUploadStream : NULL;
    return instantiate_in(CALL_cuGraphInstantiateWithParams_ptsz, exec, graph, params,
                          work_own_stream(stream));
}

CUresult cuGraphExecDestroy(CUgraphExec exec)
{
    struct cuda_call c = {.id = CALL_cuGraphExecDestroy};
    struct exec *e = NULL;
    CUresult rc = graph_call_enter(&c);
    if (rc == CUDA_SUCCESS)
        rc = find(exec, &e);
    if (rc == CUDA_SUCCESS)
        exec_end(e);
    return graph_call_leave(&c, rc);
}

CUresult cuGraphExecGetFlags(CUgraphExec exec, uint64_t *flags)
{
    struct cuda_call c = {.id = CALL_cuGraphExecGetFlags};
    struct exec *e = NULL;
    CUresult rc = graph_call_enter(&c);
    if (rc == CUDA_SUCCESS)
        rc = flags != NULL ? find(exec, &e) : CUDA_ERROR_INVALID_VALUE;
    if (rc == CUDA_SUCCESS)
        *flags = e->flags;
    return graph_call_leave(&c, rc);
}

/* --- Launching them --- */

static CUresult upload(unsigned int call, CUgraphExec exec, CUstream stream)
{
    struct cuda_call c = {.id = call};
    struct cuda_context *context = NULL;
    struct stream *s = NULL;
    struct exec *e = NULL;
    CUresult rc = work_enter(&c, stream, &context, &s);
    if (rc == CUDA_SUCCESS)
        rc = find(exec, &e);
    if (rc == CUDA_SUCCESS)
        rc = upload_in(e, s);
    return context_leave(&c, context, rc);
}

CUresult cuGraphUpload(CUgraphExec exec, CUstream stream)
{
    return upload(CALL_cuGraphUpload, exec, stream);
}

CUresult cuGraphUpload_ptsz(CUgraphExec exec, CUstream stream)
{
    return upload(CALL_cuGraphUpload_ptsz, exec, work_own_stream(stream));
}

static CUresult launch(unsigned int call, CUgraphExec exec, CUstream stream)
{
    struct cuda_call c = {.id = call};
    struct cuda_context *context = NULL;
    struct stream *s = NULL;
    struct exec *e = NULL;
    CUresult rc = work_enter(&c, stream, &context, &s);
    if (rc == CUDA_SUCCESS)
        rc = find(exec, &e);
    if (rc == CUDA_SUCCESS)
        rc = exec_launch(e, s);
    return context_leave(&c, context, rc);
}

CUresult cuGraphLaunch(CUgraphExec exec, CUstream stream)
{
    return launch(CALL_cuGraphLaunch, exec, stream);
}

CUresult cuGraphLaunch_ptsz(CUgraphExec exec, CUstream stream)
{
    return launch(CALL_cuGraphLaunch_ptsz, exec, work_own_stream(stream));
}

/* --- Changing them --- */

static CUresult update(unsigned int call, CUgraphExec exec, CUgraph graph,
                       CUgraphExecUpdateResultInfo *ret)
{
    struct cuda_call c = {.id = call};
    struct exec *e = NULL;
    struct graph *g = NULL;
    CUresult rc = graph_call_enter(&c);
    *ret = (CUgraphExecUpdateResultInfo){.result = CU_GRAPH_EXEC_UPDATE_ERROR};
    if (rc == CUDA_SUCCESS)
        rc = find(exec, &e);
    if (rc == CUDA_SUCCESS)
        rc = graph_find(graph, &g);
    if (rc == CUDA_SUCCESS)
        rc = exec_update(e, g, ret);
    return graph_call_leave(&c, rc);
}

CUresult cuGraphExecUpdate(CUgraphExec exec, CUgraph graph, CUgraphNode *error_node, int *result)
{
    CUgraphExecUpdateResultInfo info;
    CUresult rc = update(CALL_cuGraphExecUpdate, exec, graph, &info);
    if (error_node != NULL)
        *error_node = info.errorNode;
    if (result != NULL)
        *result = info.result;
    return rc;
}

CUresult cuGraphExecUpdate_v2(CUgraphExec exec, CUgraph graph, CUgraphExecUpdateResultInfo *info)
{
    CUgraphExecUpdateResultInfo own;
    return update(CALL_cuGraphExecUpdate_v2, exec, graph, info != NULL ? info : &own);
}

/* The node is the one in the graph of which it was made; its context stays. */
static CUresult set_kernel(const struct exec *e, CUgraphNode node,
                           const CUDA_KERNEL_NODE_PARAMS *params)
{
    struct node_work *work = NULL;
    struct graph_node *n = graph_find_copy(e->graph, node);
    if (n == NULL || n->type != CU_GRAPH_NODE_TYPE_KERNEL)
        return CUDA_ERROR_INVALID_VALUE;
    CUresult rc = items_of_kernel(context_top(), params, &work);
    if (rc == CUDA_SUCCESS && work->context != n->work->context)
        rc = CUDA_ERROR_INVALID_VALUE;
    if (rc == CUDA_SUCCESS) {
        node_work_unref(n->work);
        n->work = node_work_ref(work);
    }
    node_work_unref(work);
    return rc;
}

static CUresult set_kernel_in(unsigned int call, CUgraphExec exec, CUgraphNode node,
                              const CUDA_KERNEL_NODE_PARAMS *params)
{
    struct cuda_call c = {.id = call};
    struct exec *e = NULL;
    CUresult rc = graph_call_enter(&c);
    if (rc == CUDA_SUCCESS)
        rc = params != NULL ? find(exec, &e) : CUDA_ERROR_INVALID_VALUE;
    if (rc == CUDA_SUCCESS)
        rc = set_kernel(e, node, params);
    return graph_call_leave(&c, rc);
}

CUresult cuGraphExecKernelNodeSetParams(CUgraphExec exec, CUgraphNode node,
                                        const CUDA_KERNEL_NODE_PARAMS_v1 *params)
{
    CUDA_KERNEL_NODE_PARAMS p;
    if (params != NULL)
        p = graph_kernel_params(params);
    return set_kernel_in(CALL_cuGraphExecKernelNodeSetParams, exec, node,
                         params != NULL ? &p : NULL);
}

CUresult cuGraphExecKernelNodeSetParams_v2(CUgraphExec exec, CUgraphNode node,
                                           const CUDA_KERNEL_NODE_PARAMS *params)
{
    return set_kernel_in(CALL_cuGraphExecKernelNodeSetParams_v2, exec, node, params);
}
