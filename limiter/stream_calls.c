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

/* A stream that is to be destroyed, as it was known before. */
struct destroyed {
    CUstream stream;
    CUcontext context;
    bool was_known;
};

static struct destroyed take_out(CUstream stream)
{
    struct destroyed d = {.stream = stream};
    d.was_known = streams_remove(stream, &d.context);
    return d;
}

static CUresult left(const struct destroyed *d, CUresult rc)
{
    if (rc != CUDA_SUCCESS && d->was_known)
        streams_add(d->context, d->stream);
    return rc;
}

CUresult cuStreamDestroy(CUstream stream)
{
    const struct destroyed d = take_out(stream);
    return left(&d, real.cuStreamDestroy(stream));
}

CUresult cuStreamDestroy_v2(CUstream stream)
{
    const struct destroyed d = take_out(stream);
    return left(&d, real.cuStreamDestroy_v2(stream));
}

/* --- Captures --- */

/* is_new: it was not captured before the call, which has begun the capture, or failed. */
static CUresult begun(CUresult rc, CUstream stream, bool is_new)
{
    if (rc != CUDA_SUCCESS && is_new)
        streams_end_capture(stream);
    return rc;
}

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
    bool is_new = streams_begin_capture(stream);
    return begun(real.cuStreamBeginCapture(stream), stream, is_new);
}

CUresult cuStreamBeginCapture_ptsz(CUstream stream)
{
    CUstream own = stream_of_thread(stream);
    bool is_new = streams_begin_capture(own);
    return begun(real.cuStreamBeginCapture_ptsz(stream), own, is_new);
}

CUresult cuStreamBeginCapture_v2(CUstream stream, int mode)
{
    bool is_new = streams_begin_capture(stream);
    return begun(real.cuStreamBeginCapture_v2(stream, mode), stream, is_new);
}

CUresult cuStreamBeginCapture_v2_ptsz(CUstream stream, int mode)
{
    CUstream own = stream_of_thread(stream);
    bool is_new = streams_begin_capture(own);
    return begun(real.cuStreamBeginCapture_v2_ptsz(stream, mode), own, is_new);
}

CUresult cuStreamBeginCaptureToGraph(CUstream stream, CUgraph graph, const CUgraphNode *after,
                                     const void *edges, size_t n, int mode)
{
    bool is_new = streams_begin_capture(stream);
    return begun(real.cuStreamBeginCaptureToGraph(stream, graph, after, edges, n, mode), stream,
                 is_new);
}

CUresult cuStreamBeginCaptureToGraph_ptsz(CUstream stream, CUgraph graph, const CUgraphNode *after,
                                          const void *edges, size_t n, int mode)
{
    CUstream own = stream_of_thread(stream);
    bool is_new = streams_begin_capture(own);
    return begun(real.cuStreamBeginCaptureToGraph_ptsz(stream, graph, after, edges, n, mode), own,
                 is_new);
}

CUresult cuStreamBeginRecaptureToGraph(CUstream stream, int mode, CUgraph graph, void *callback,
                                       void *data)
{
    bool is_new = streams_begin_capture(stream);
    return begun(real.cuStreamBeginRecaptureToGraph(stream, mode, graph, callback, data), stream,
                 is_new);
}

CUresult cuStreamBeginRecaptureToGraph_ptsz(CUstream stream, int mode, CUgraph graph,
                                            void *callback, void *data)
{
    CUstream own = stream_of_thread(stream);
    bool is_new = streams_begin_capture(own);
    return begun(real.cuStreamBeginRecaptureToGraph_ptsz(stream, mode, graph, callback, data), own,
                 is_new);
}

CUresult cuStreamBeginCaptureToCig(CUstream stream, void *params)
{
    bool is_new = streams_begin_capture(stream);
    return begun(real.cuStreamBeginCaptureToCig(stream, params), stream, is_new);
}

CUresult cuStreamBeginCaptureToCig_ptsz(CUstream stream, void *params)
{
    CUstream own = stream_of_thread(stream);
    bool is_new = streams_begin_capture(own);
    return begun(real.cuStreamBeginCaptureToCig_ptsz(stream, params), own, is_new);
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
