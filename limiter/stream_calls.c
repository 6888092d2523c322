/* SPDX-License-Identifier: Apache-2.0 */
/* CUDA: streams, and captures of them. */
#include "limiter/real.h"
#include "limiter/streams.h"

/* --- Streams --- */

static CUresult note(CUresult rc, const CUstream *stream)
{
    CUcontext context = NULL;
    if (rc == CUDA_SUCCESS && also.cuCtxGetCurrent(&context) == CUDA_SUCCESS)
        streams_add(context, *stream);
    return rc;
}

CUresult cuStreamCreate(CUstream *stream, unsigned int flags)
{
    return note(real.cuStreamCreate(stream, flags), stream);
}

CUresult cuStreamCreateWithPriority(CUstream *stream, unsigned int flags, int priority)
{
    return note(real.cuStreamCreateWithPriority(stream, flags, priority), stream);
}

#define DESTROY(stream, call)                                                                      \
    CUcontext context = NULL;                                                                      \
    bool was_known = streams_remove(stream, &context);                                             \
    CUresult rc = call;                                                                            \
    if (rc != CUDA_SUCCESS && was_known)                                                           \
        streams_add(context, stream);                                                              \
    return rc

CUresult cuStreamDestroy(CUstream stream)
{
    DESTROY(stream, real.cuStreamDestroy(stream));
}

CUresult cuStreamDestroy_v2(CUstream stream)
{
    DESTROY(stream, real.cuStreamDestroy_v2(stream));
}

/* --- Captures --- */

#define BEGIN(stream, call)                                                                        \
    bool is_new = streams_begin_capture(stream);                                                   \
    CUresult rc = call;                                                                            \
    if (rc != CUDA_SUCCESS && is_new)                                                              \
        streams_end_capture(stream);                                                               \
    return rc

/* Some errors leave it running. */
static CUresult end(CUresult rc, CUstream stream)
{
    int status = 0;
    if (also.cuStreamIsCapturing(stream, &status) != CUDA_SUCCESS || status == 0)
        streams_end_capture(stream);
    return rc;
}

CUresult cuStreamBeginCapture(CUstream stream)
{
    BEGIN(stream, real.cuStreamBeginCapture(stream));
}

CUresult cuStreamBeginCapture_ptsz(CUstream stream)
{
    BEGIN(stream_of_thread(stream), real.cuStreamBeginCapture_ptsz(stream));
}

CUresult cuStreamBeginCapture_v2(CUstream stream, int mode)
{
    BEGIN(stream, real.cuStreamBeginCapture_v2(stream, mode));
}

CUresult cuStreamBeginCapture_v2_ptsz(CUstream stream, int mode)
{
    BEGIN(stream_of_thread(stream), real.cuStreamBeginCapture_v2_ptsz(stream, mode));
}

CUresult cuStreamBeginCaptureToGraph(CUstream stream, CUgraph graph, const CUgraphNode *after,
                                     const void *edges, size_t n, int mode)
{
    BEGIN(stream, real.cuStreamBeginCaptureToGraph(stream, graph, after, edges, n, mode));
}

CUresult cuStreamBeginCaptureToGraph_ptsz(CUstream stream, CUgraph graph, const CUgraphNode *after,
                                          const void *edges, size_t n, int mode)
{
    BEGIN(stream_of_thread(stream),
          real.cuStreamBeginCaptureToGraph_ptsz(stream, graph, after, edges, n, mode));
}

CUresult cuStreamBeginRecaptureToGraph(CUstream stream, int mode, CUgraph graph, void *callback,
                                       void *data)
{
    BEGIN(stream, real.cuStreamBeginRecaptureToGraph(stream, mode, graph, callback, data));
}

CUresult cuStreamBeginRecaptureToGraph_ptsz(CUstream stream, int mode, CUgraph graph,
                                            void *callback, void *data)
{
    BEGIN(stream_of_thread(stream),
          real.cuStreamBeginRecaptureToGraph_ptsz(stream, mode, graph, callback, data));
}

CUresult cuStreamBeginCaptureToCig(CUstream stream, void *params)
{
    BEGIN(stream, real.cuStreamBeginCaptureToCig(stream, params));
}

CUresult cuStreamBeginCaptureToCig_ptsz(CUstream stream, void *params)
{
    BEGIN(stream_of_thread(stream), real.cuStreamBeginCaptureToCig_ptsz(stream, params));
}

CUresult cuStreamEndCapture(CUstream stream, CUgraph *graph)
{
    return end(real.cuStreamEndCapture(stream, graph), stream);
}

CUresult cuStreamEndCapture_ptsz(CUstream stream, CUgraph *graph)
{
    return end(real.cuStreamEndCapture_ptsz(stream, graph), stream_of_thread(stream));
}

CUresult cuStreamEndCaptureToCig(CUstream stream)
{
    return end(real.cuStreamEndCaptureToCig(stream), stream);
}

CUresult cuStreamEndCaptureToCig_ptsz(CUstream stream)
{
    return end(real.cuStreamEndCaptureToCig_ptsz(stream), stream_of_thread(stream));
}
