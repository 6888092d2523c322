/* SPDX-License-Identifier: Apache-2.0 */
/* Arrays: memory of a context without an address, which copies reach by elements, rows and planes.
 * Guarded by the contexts' lock. */
#pragma once

#include "sim/cuda_context.h"
#include "sim/cuda_shape.h"

struct mipmapped;

struct array {
    struct context_part part; /* of one that is no level of another */
    void *handle;
    CUDA_ARRAY3D_DESCRIPTOR descriptor;
    struct shape shape;
    struct allocation *memory;   /* NULL: it has none yet, and cannot be copied */
    char *bytes;                 /* of the memory */
    struct mipmapped *mipmapped; /* whose level it is, or NULL */
};

/* The array of a handle, or NULL. */
struct array *array_find(CUarray handle);
