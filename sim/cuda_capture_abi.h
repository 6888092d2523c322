/* SPDX-License-Identifier: Apache-2.0 */
/* The part of the ABI (cuda.h) that is about streams which are captured into graphs. */
#pragma once

#include "sim/cuda_graph_abi.h"

enum {
    CU_STREAM_CAPTURE_STATUS_NONE = 0,
    CU_STREAM_CAPTURE_STATUS_ACTIVE = 1,
    CU_STREAM_CAPTURE_STATUS_INVALIDATED = 2,
};

enum {
    CU_STREAM_CAPTURE_MODE_GLOBAL = 0,
    CU_STREAM_CAPTURE_MODE_THREAD_LOCAL = 1,
    CU_STREAM_CAPTURE_MODE_RELAXED = 2,
};

enum {
    CU_STREAM_ADD_CAPTURE_DEPENDENCIES = 0,
    CU_STREAM_SET_CAPTURE_DEPENDENCIES = 1,
};

CUDA_API CUresult cuThreadExchangeStreamCaptureMode(int *mode);

CUDA_API CUresult cuStreamBeginCapture(CUstream stream);
CUDA_API CUresult cuStreamBeginCapture_ptsz(CUstream stream);
CUDA_API CUresult cuStreamBeginCapture_v2(CUstream stream, int mode);
CUDA_API CUresult cuStreamBeginCapture_v2_ptsz(CUstream stream, int mode);
CUDA_API CUresult cuStreamBeginCaptureToGraph(CUstream stream, CUgraph graph,
                                              const CUgraphNode *dependencies,
                                              const CUgraphEdgeData *edges, size_t count, int mode);
CUDA_API CUresult cuStreamBeginCaptureToGraph_ptsz(CUstream stream, CUgraph graph,
                                                   const CUgraphNode *dependencies,
                                                   const CUgraphEdgeData *edges, size_t count,
                                                   int mode);
CUDA_API CUresult cuStreamEndCapture(CUstream stream, CUgraph *graph);
CUDA_API CUresult cuStreamEndCapture_ptsz(CUstream stream, CUgraph *graph);

CUDA_API CUresult cuStreamIsCapturing(CUstream stream, int *status);
CUDA_API CUresult cuStreamIsCapturing_ptsz(CUstream stream, int *status);
CUDA_API CUresult cuStreamGetCaptureInfo(CUstream stream, int *status, uint64_t *id);
CUDA_API CUresult cuStreamGetCaptureInfo_ptsz(CUstream stream, int *status, uint64_t *id);
CUDA_API CUresult cuStreamGetCaptureInfo_v2(CUstream stream, int *status, uint64_t *id,
                                            CUgraph *graph, const CUgraphNode **dependencies,
                                            size_t *count);
CUDA_API CUresult cuStreamGetCaptureInfo_v2_ptsz(CUstream stream, int *status, uint64_t *id,
                                                 CUgraph *graph, const CUgraphNode **dependencies,
                                                 size_t *count);
CUDA_API CUresult cuStreamGetCaptureInfo_v3(CUstream stream, int *status, uint64_t *id,
                                            CUgraph *graph, const CUgraphNode **dependencies,
                                            const CUgraphEdgeData **edges, size_t *count);
CUDA_API CUresult cuStreamGetCaptureInfo_v3_ptsz(CUstream stream, int *status, uint64_t *id,
                                                 CUgraph *graph, const CUgraphNode **dependencies,
                                                 const CUgraphEdgeData **edges, size_t *count);
CUDA_API CUresult cuStreamUpdateCaptureDependencies(CUstream stream, CUgraphNode *dependencies,
                                                    size_t count, unsigned int flags);
CUDA_API CUresult cuStreamUpdateCaptureDependencies_ptsz(CUstream stream, CUgraphNode *dependencies,
                                                         size_t count, unsigned int flags);
CUDA_API CUresult cuStreamUpdateCaptureDependencies_v2(CUstream stream, CUgraphNode *dependencies,
                                                       const CUgraphEdgeData *edges, size_t count,
                                                       unsigned int flags);
CUDA_API CUresult cuStreamUpdateCaptureDependencies_v2_ptsz(CUstream stream,
                                                            CUgraphNode *dependencies,
                                                            const CUgraphEdgeData *edges,
                                                            size_t count, unsigned int flags);
