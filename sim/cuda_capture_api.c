/* SPDX-License-Identifier: Apache-2.0 */
/* CUDA: streams that are captured. Contracts are the driver API's own. */
#include <stdlib.h>

#include "sim/cuda_capture.h"
#include "sim/cuda_graph_api.h"
#include "sim/cuda_work.h"

static bool is_mode(int mode)
{
    return mode >= CU_STREAM_CAPTURE_MODE_GLOBAL && mode <= CU_STREAM_CAPTURE_MODE_RELAXED;
}

CUresult cuThreadExchangeStreamCaptureMode(int *mode)
{
    struct cuda_call c = {.id = CALL_cuThreadExchangeStreamCaptureMode};
    CUresult rc = cuda_enter(&c);
    if (rc == CUDA_SUCCESS && (mode == NULL || !is_mode(*mode)))
        rc = CUDA_ERROR_INVALID_VALUE;
    if (rc == CUDA_SUCCESS)
        *mode = capture_mode_exchange(*mode);
    return cuda_leave(&c, rc);
}

/* --- Beginning --- */

struct beginning {
    int mode;
    bool has_graph;
    CUgraph graph;
    const CUgraphNode *dependencies;
    const CUgraphEdgeData *edges;
    size_t count;
};

static CUresult find_graph(const struct beginning *b, struct graph **ret, struct node_set *ret_from)
{
    CUresult rc = graph_find(b->graph, ret);
    if (rc == CUDA_SUCCESS)
        rc = graph_find_set(*ret, b->dependencies, b->count, ret_from);
    return rc == CUDA_SUCCESS ? graph_check_edges(b->edges, b->count) : rc;
}

/* Assumed: the order of these checks. */
static CUresult begin_in(struct stream *s, const struct beginning *b)
{
    struct graph *g = NULL;
    struct node_set from = {0};
    if (!is_mode(b->mode))
        return CUDA_ERROR_INVALID_VALUE;
    if (s == &s->work->legacy)
        return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    if (s->capture != NULL)
        return CUDA_ERROR_ILLEGAL_STATE;
    CUresult rc = b->has_graph ? find_graph(b, &g, &from) : CUDA_SUCCESS;
    if (rc == CUDA_SUCCESS)
        rc = capture_begin(s, b->mode, g, &from);
    node_set_clear(&from);
    return rc;
}

static CUresult begin(unsigned int call, CUstream stream, const struct beginning *b)
{
    struct cuda_call c = {.id = call};
    struct cuda_context *context = NULL;
    struct stream *s = NULL;
    CUresult rc = work_enter(&c, stream, &context, &s);
    if (rc == CUDA_SUCCESS)
        rc = begin_in(s, b);
    return context_leave(&c, context, rc);
}

/* The first form knew one mode. */
CUresult cuStreamBeginCapture(CUstream stream)
{
    const struct beginning b = {.mode = CU_STREAM_CAPTURE_MODE_GLOBAL};
    return begin(CALL_cuStreamBeginCapture, stream, &b);
}

CUresult cuStreamBeginCapture_ptsz(CUstream stream)
{
    const struct beginning b = {.mode = CU_STREAM_CAPTURE_MODE_GLOBAL};
    return begin(CALL_cuStreamBeginCapture_ptsz, work_own_stream(stream), &b);
}

CUresult cuStreamBeginCapture_v2(CUstream stream, int mode)
{
    const struct beginning b = {.mode = mode};
    return begin(CALL_cuStreamBeginCapture_v2, stream, &b);
}

CUresult cuStreamBeginCapture_v2_ptsz(CUstream stream, int mode)
{
    const struct beginning b = {.mode = mode};
    return begin(CALL_cuStreamBeginCapture_v2_ptsz, work_own_stream(stream), &b);
}

CUresult cuStreamBeginCaptureToGraph(CUstream stream, CUgraph graph,
                                     const CUgraphNode *dependencies, const CUgraphEdgeData *edges,
                                     size_t count, int mode)
{
    const struct beginning b = {mode, true, graph, dependencies, edges, count};
    return begin(CALL_cuStreamBeginCaptureToGraph, stream, &b);
}

CUresult cuStreamBeginCaptureToGraph_ptsz(CUstream stream, CUgraph graph,
                                          const CUgraphNode *dependencies,
                                          const CUgraphEdgeData *edges, size_t count, int mode)
{
    const struct beginning b = {mode, true, graph, dependencies, edges, count};
    return begin(CALL_cuStreamBeginCaptureToGraph_ptsz, work_own_stream(stream), &b);
}

/* --- Ending --- */

static CUresult end(unsigned int call, CUstream stream, CUgraph *graph)
{
    struct cuda_call c = {.id = call};
    struct cuda_context *context = NULL;
    struct stream *s = NULL;
    struct graph *found = NULL;
    CUresult rc = work_enter(&c, stream, &context, &s);
    if (rc == CUDA_SUCCESS && graph == NULL)
        rc = CUDA_ERROR_INVALID_VALUE;
    if (rc == CUDA_SUCCESS) {
        rc = capture_end(s, &found);
        *graph = found != NULL ? found->handle : NULL;
    }
    return context_leave(&c, context, rc);
}

CUresult cuStreamEndCapture(CUstream stream, CUgraph *graph)
{
    return end(CALL_cuStreamEndCapture, stream, graph);
}

CUresult cuStreamEndCapture_ptsz(CUstream stream, CUgraph *graph)
{
    return end(CALL_cuStreamEndCapture_ptsz, work_own_stream(stream), graph);
}

/* --- Asking --- */

static int status_of(const struct stream *s)
{
    if (s->capture == NULL)
        return CU_STREAM_CAPTURE_STATUS_NONE;
    return s->capture->mode.is_valid ? CU_STREAM_CAPTURE_STATUS_ACTIVE
                                     : CU_STREAM_CAPTURE_STATUS_INVALIDATED;
}

/* Where a call wants what it asked for; all but the status may be NULL. */
struct answer {
    int *status;
    uint64_t *id;
    CUgraph *graph;
    const CUgraphNode **dependencies;
    const CUgraphEdgeData **edges;
    size_t *count;
};

static struct answer answer_to(int *status, uint64_t *id, CUgraph *graph,
                               const CUgraphNode **dependencies, const CUgraphEdgeData **edges,
                               size_t *count)
{
    struct answer a;
    a.status = status;
    a.id = id;
    a.graph = graph;
    a.dependencies = dependencies;
    a.edges = edges;
    a.count = count;
    return a;
}

/* It stays until the program asks for that stream again, or the capture ends. */
static CUresult list_tail(struct stream *s, const struct answer *a)
{
    CUgraphNode *nodes = reallocarray(s->listed, s->tail.count + 1, sizeof(CUgraphNode));
    if (nodes == NULL)
        return CUDA_ERROR_OUT_OF_MEMORY;
    for (size_t i = 0; i < s->tail.count; i++)
        nodes[i] = s->tail.nodes[i]->handle;
    s->listed = nodes;
    *a->dependencies = nodes;
    return CUDA_SUCCESS;
}

/* No edge has data here. */
static CUresult answer_active(struct stream *s, const struct answer *a)
{
    if (a->id != NULL)
        *a->id = s->capture->id;
    if (a->graph != NULL)
        *a->graph = s->capture->graph->handle;
    if (a->edges != NULL)
        *a->edges = NULL;
    if (a->count != NULL)
        *a->count = s->tail.count;
    return a->dependencies != NULL ? list_tail(s, a) : CUDA_SUCCESS;
}

/* Who asks about the legacy stream invalidates nothing. */
static CUresult ask(unsigned int call, CUstream stream, const struct answer *a)
{
    struct cuda_call c = {.id = call};
    struct cuda_context *context = NULL;
    struct stream *s = NULL;
    CUresult rc = work_enter(&c, stream, &context, &s);
    if (rc == CUDA_SUCCESS && a->status == NULL)
        rc = CUDA_ERROR_INVALID_VALUE;
    if (rc == CUDA_SUCCESS && capture_bars_legacy(s))
        rc = CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
    if (rc == CUDA_SUCCESS) {
        *a->status = status_of(s);
        if (*a->status == CU_STREAM_CAPTURE_STATUS_ACTIVE)
            rc = answer_active(s, a);
    }
    return context_leave(&c, context, rc);
}

CUresult cuStreamIsCapturing(CUstream stream, int *status)
{
    const struct answer a = answer_to(status, NULL, NULL, NULL, NULL, NULL);
    return ask(CALL_cuStreamIsCapturing, stream, &a);
}

CUresult cuStreamIsCapturing_ptsz(CUstream stream, int *status)
{
    const struct answer a = answer_to(status, NULL, NULL, NULL, NULL, NULL);
    return ask(CALL_cuStreamIsCapturing_ptsz, work_own_stream(stream), &a);
}

CUresult cuStreamGetCaptureInfo(CUstream stream, int *status, uint64_t *id)
{
    const struct answer a = answer_to(status, id, NULL, NULL, NULL, NULL);
    return ask(CALL_cuStreamGetCaptureInfo, stream, &a);
}

CUresult cuStreamGetCaptureInfo_ptsz(CUstream stream, int *status, uint64_t *id)
{
    const struct answer a = answer_to(status, id, NULL, NULL, NULL, NULL);
    return ask(CALL_cuStreamGetCaptureInfo_ptsz, work_own_stream(stream), &a);
}

CUresult cuStreamGetCaptureInfo_v2(CUstream stream, int *status, uint64_t *id, CUgraph *graph,
                                   const CUgraphNode **dependencies, size_t *count)
{
    const struct answer a = answer_to(status, id, graph, dependencies, NULL, count);
    return ask(CALL_cuStreamGetCaptureInfo_v2, stream, &a);
}

CUresult cuStreamGetCaptureInfo_v2_ptsz(CUstream stream, int *status, uint64_t *id, CUgraph *graph,
                                        const CUgraphNode **dependencies, size_t *count)
{
    const struct answer a = answer_to(status, id, graph, dependencies, NULL, count);
    return ask(CALL_cuStreamGetCaptureInfo_v2_ptsz, work_own_stream(stream), &a);
}

CUresult cuStreamGetCaptureInfo_v3(CUstream stream, int *status, uint64_t *id, CUgraph *graph,
                                   const CUgraphNode **dependencies, const CUgraphEdgeData **edges,
                                   size_t *count)
{
    const struct answer a = answer_to(status, id, graph, dependencies, edges, count);
    return ask(CALL_cuStreamGetCaptureInfo_v3, stream, &a);
}

CUresult cuStreamGetCaptureInfo_v3_ptsz(CUstream stream, int *status, uint64_t *id, CUgraph *graph,
                                        const CUgraphNode **dependencies,
                                        const CUgraphEdgeData **edges, size_t *count)
{
    const struct answer a = answer_to(status, id, graph, dependencies, edges, count);
    return ask(CALL_cuStreamGetCaptureInfo_v3_ptsz, work_own_stream(stream), &a);
}

/* --- What the next node depends on --- */

struct update {
    const CUgraphNode *dependencies;
    const CUgraphEdgeData *edges;
    size_t count;
    unsigned int flags;
};

static CUresult update_in(struct stream *s, const struct update *u)
{
    struct node_set set = {0};
    if (u->flags > CU_STREAM_SET_CAPTURE_DEPENDENCIES)
        return CUDA_ERROR_INVALID_VALUE;
    if (s->capture == NULL)
        return CUDA_ERROR_ILLEGAL_STATE;
    if (!s->capture->mode.is_valid)
        return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    CUresult rc = graph_find_set(s->capture->graph, u->dependencies, u->count, &set);
    if (rc == CUDA_SUCCESS)
        rc = graph_check_edges(u->edges, u->count);
    if (rc == CUDA_SUCCESS && u->flags == CU_STREAM_SET_CAPTURE_DEPENDENCIES)
        s->tail.count = 0;
    if (rc == CUDA_SUCCESS && !node_set_add_all(&s->tail, &set))
        rc = capture_refuse_with(s, CUDA_ERROR_OUT_OF_MEMORY);
    node_set_clear(&set);
    return rc;
}

static CUresult update(unsigned int call, CUstream stream, const struct update *u)
{
    struct cuda_call c = {.id = call};
    struct cuda_context *context = NULL;
    struct stream *s = NULL;
    CUresult rc = work_enter(&c, stream, &context, &s);
    if (rc == CUDA_SUCCESS)
        rc = update_in(s, u);
    return context_leave(&c, context, rc);
}

CUresult cuStreamUpdateCaptureDependencies(CUstream stream, CUgraphNode *dependencies, size_t count,
                                           unsigned int flags)
{
    const struct update u = {dependencies, NULL, count, flags};
    return update(CALL_cuStreamUpdateCaptureDependencies, stream, &u);
}

CUresult cuStreamUpdateCaptureDependencies_ptsz(CUstream stream, CUgraphNode *dependencies,
                                                size_t count, unsigned int flags)
{
    const struct update u = {dependencies, NULL, count, flags};
    return update(CALL_cuStreamUpdateCaptureDependencies_ptsz, work_own_stream(stream), &u);
}

CUresult cuStreamUpdateCaptureDependencies_v2(CUstream stream, CUgraphNode *dependencies,
                                              const CUgraphEdgeData *edges, size_t count,
                                              unsigned int flags)
{
    const struct update u = {dependencies, edges, count, flags};
    return update(CALL_cuStreamUpdateCaptureDependencies_v2, stream, &u);
}

CUresult cuStreamUpdateCaptureDependencies_v2_ptsz(CUstream stream, CUgraphNode *dependencies,
                                                   const CUgraphEdgeData *edges, size_t count,
                                                   unsigned int flags)
{
    const struct update u = {dependencies, edges, count, flags};
    return update(CALL_cuStreamUpdateCaptureDependencies_v2_ptsz, work_own_stream(stream), &u);
}
