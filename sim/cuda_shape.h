/* SPDX-License-Identifier: Apache-2.0 */
/* The sizes of arrays. Pure. */
#pragma once

#include "sim/cuda.h"

/* Assumed: rows are padded to 64 bytes, and planes of several rows to 8 rows, as cards tile them. */
#define SHAPE_ROW_ALIGNMENT   64U
#define SHAPE_PLANE_ALIGNMENT 8U

struct shape {
    size_t element_bytes; /* of an element, or of a compressed block of them */
    size_t row_bytes, rows, planes;
    size_t pitch;       /* from one row to the next, ... */
    size_t plane_bytes; /* ... and from one plane to the next */
    size_t bytes;
};

/* SUCCESS for an array that can be; INVALID_VALUE, or NOT_SUPPORTED for planes of video. */
CUresult shape_of(const CUDA_ARRAY3D_DESCRIPTOR *d, struct shape *ret);

/* The next smaller level of a mipmapped array. */
CUDA_ARRAY3D_DESCRIPTOR shape_next_level(const CUDA_ARRAY3D_DESCRIPTOR *d);

/* How many levels an array has at most. */
unsigned int shape_max_levels(const CUDA_ARRAY3D_DESCRIPTOR *d);
