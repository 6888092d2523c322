/* SPDX-License-Identifier: Apache-2.0 */
/*
 * CUDA: copies of rows and planes, between memory and arrays. Contracts are the driver API's own.
 *
 * They are items of a stream, as all copies are (cuda_copy.c).
 */
#include <stdlib.h>
#include <string.h>

#include "sim/cuda_array.h"
#include "sim/cuda_capture.h"
#include "sim/cuda_graph_items.h"
#include "sim/cuda_reach.h"
#include "sim/cuda_work.h"

/* One end of a copy: lines of bytes that lie `pitch` apart, and planes of `rows` lines. */
struct end {
    enum { END_HOST = 1, END_DEVICE, END_ARRAY, END_UNIFIED } kind;
    CUarray array;
    uint64_t base;
    size_t x, y, z;
    size_t pitch, rows;
    bool is_pageable;
};

struct box {
    struct work_item item;
    struct end to, from;
    size_t width, height, depth;
};

/* --- What a program asks for --- */

static void set_end(struct end *e, int type, const void *host, CUdeviceptr device, CUarray array)
{
    e->kind = type;
    e->array = array;
    e->base = type == CU_MEMORYTYPE_HOST ? (uintptr_t)host : device;
}

static void of_3d(const CUDA_MEMCPY3D *c, struct box *ret)
{
    *ret = (struct box){.width = c->WidthInBytes, .height = c->Height, .depth = c->Depth};
    ret->from = (struct end){.x = c->srcXInBytes,
                             .y = c->srcY,
                             .z = c->srcZ,
                             .pitch = c->srcPitch,
                             .rows = c->srcHeight};
    ret->to = (struct end){.x = c->dstXInBytes,
                           .y = c->dstY,
                           .z = c->dstZ,
                           .pitch = c->dstPitch,
                           .rows = c->dstHeight};
    set_end(&ret->from, c->srcMemoryType, c->srcHost, c->srcDevice, c->srcArray);
    set_end(&ret->to, c->dstMemoryType, c->dstHost, c->dstDevice, c->dstArray);
}

static void of_2d(const CUDA_MEMCPY2D *c, struct box *ret)
{
    *ret = (struct box){.width = c->WidthInBytes, .height = c->Height, .depth = 1};
    ret->from = (struct end){.x = c->srcXInBytes, .y = c->srcY, .pitch = c->srcPitch};
    ret->to = (struct end){.x = c->dstXInBytes, .y = c->dstY, .pitch = c->dstPitch};
    set_end(&ret->from, c->srcMemoryType, c->srcHost, c->srcDevice, c->srcArray);
    set_end(&ret->to, c->dstMemoryType, c->dstHost, c->dstDevice, c->dstArray);
}

/* --- Where that is --- */

/* The offset of a place in lines and planes; false: there is no such number. */
static bool offset_of(const struct end *e, size_t x, size_t y, size_t z, size_t *ret)
{
    size_t line = 0;
    size_t at = 0;
    return !__builtin_mul_overflow(z, e->rows, &line) && !__builtin_add_overflow(line, y, &line) &&
           !__builtin_mul_overflow(line, e->pitch, &at) && !__builtin_add_overflow(at, x, ret);
}

/* From the first byte of a copy to the last one: the address, and how many. */
static bool find_span(const struct end *e, const struct box *b, uint64_t *ret_address,
                      size_t *ret_bytes)
{
    size_t first = 0;
    size_t last = 0;
    size_t x = 0;
    size_t y = 0;
    size_t z = 0;
    if (__builtin_add_overflow(e->x, b->width, &x) ||
        __builtin_add_overflow(e->y, b->height - 1, &y) ||
        __builtin_add_overflow(e->z, b->depth - 1, &z))
        return false;
    if (!offset_of(e, e->x, e->y, e->z, &first) || !offset_of(e, x, y, z, &last))
        return false;
    *ret_bytes = last - first;
    return last >= first && !__builtin_add_overflow(e->base, first, ret_address);
}

/* Lines are long enough, and planes high enough, where there are several. */
static bool has_pitch(const struct end *e, const struct box *b)
{
    bool lines = b->height > 1 || b->depth > 1 || e->y > 0 || e->z > 0;
    bool planes = b->depth > 1 || e->z > 0;
    if (e->pitch > INT32_MAX)
        return false;
    if (lines && (e->pitch < b->width || e->pitch - b->width < e->x))
        return false;
    return !planes || (e->rows >= b->height && e->rows - b->height >= e->y);
}

static enum side side_of(const struct end *e)
{
    if (e->kind == END_HOST)
        return SIDE_HOST;
    return e->kind == END_DEVICE ? SIDE_DEVICE : SIDE_EITHER;
}

static bool is_in_memory(struct end *e, const struct box *b, bool writes)
{
    uint64_t address = 0;
    size_t bytes = 0;
    return has_pitch(e, b) && find_span(e, b, &address, &bytes) &&
           reach_find(address, bytes, side_of(e), writes, &e->is_pageable);
}

static bool fits(size_t at, size_t count, size_t room)
{
    return at <= room && count <= room - at;
}

static bool is_in_array(const struct end *e, const struct box *b)
{
    const struct array *a = array_find(e->array);
    if (a == NULL || a->bytes == NULL)
        return false;
    const struct shape *s = &a->shape;
    return e->x % s->element_bytes == 0 && b->width % s->element_bytes == 0 &&
           fits(e->x, b->width, s->row_bytes) && fits(e->y, b->height, s->rows) &&
           fits(e->z, b->depth, s->planes);
}

static bool is_there(struct end *e, const struct box *b, bool writes)
{
    if (e->kind < END_HOST || e->kind > END_UNIFIED)
        return false;
    return e->kind == END_ARRAY ? is_in_array(e, b) : is_in_memory(e, b, writes);
}

/* --- Doing it --- */

static char *line_of(const struct end *e, size_t y, size_t z)
{
    if (e->kind != END_ARRAY)
        return (char *)(uintptr_t)(e->base + ((e->z + z) * e->rows + e->y + y) * e->pitch + e->x);
    const struct array *a = array_find(e->array);
    return a->bytes + (e->z + z) * a->shape.plane_bytes + (e->y + y) * a->shape.pitch + e->x;
}

/* What it is about may have been freed since. */
static CUresult perform(struct work_item *item, int64_t *at_ns)
{
    struct box *b = (struct box *)item;
    struct end to = b->to;
    struct end from = b->from;
    if (!is_there(&to, b, /* writes= */ true) || !is_there(&from, b, /* writes= */ false))
        return CUDA_ERROR_ILLEGAL_ADDRESS;
    for (size_t z = 0; z < b->depth; z++) {
        for (size_t y = 0; y < b->height; y++)
            memmove(line_of(&b->to, y, z), line_of(&b->from, y, z), b->width);
    }
    *at_ns = timeslices_now();
    return CUDA_SUCCESS;
}

static bool is_on_device(const struct end *e)
{
    return e->kind == END_ARRAY || range_find(e->base) != NULL;
}

static struct box *new_box(const struct box *as)
{
    struct box *b = malloc(sizeof(*b));
    if (b == NULL)
        return NULL;
    *b = *as;
    b->item = (struct work_item){.kind = WORK_INSTANT,
                                 .perform = perform,
                                 .bytes = sizeof(*b),
                                 .node_type = CU_GRAPH_NODE_TYPE_MEMCPY};
    return b;
}

static CUresult submit(struct stream *s, const struct box *as, bool is_async)
{
    struct box *b = new_box(as);
    if (b == NULL)
        return CUDA_ERROR_OUT_OF_MEMORY;
    bool within = is_on_device(&as->to) && is_on_device(&as->from);
    bool waits = is_async ? as->to.is_pageable || as->from.is_pageable : !within;
    bool is_done = s->capture == NULL;
    CUresult rc = work_submit(s, &b->item);
    return rc == CUDA_SUCCESS && waits && is_done ? work_wait_stream(s) : rc;
}

static CUresult copy_in(struct stream *s, struct box *b, bool is_async)
{
    if (b->width == 0 || b->height == 0 || b->depth == 0)
        return CUDA_SUCCESS;
    if (!is_there(&b->to, b, /* writes= */ true) || !is_there(&b->from, b, /* writes= */ false))
        return CUDA_ERROR_INVALID_VALUE;
    return submit(s, b, is_async);
}

/* A node copies something. */
CUresult items_of_copy(const CUDA_MEMCPY3D *params, struct work_item **ret)
{
    struct box b;
    of_3d(params, &b);
    if (params->srcLOD != 0 || params->dstLOD != 0 || b.width == 0 || b.height == 0 || b.depth == 0)
        return CUDA_ERROR_INVALID_VALUE;
    if (!is_there(&b.to, &b, /* writes= */ true) || !is_there(&b.from, &b, /* writes= */ false))
        return CUDA_ERROR_INVALID_VALUE;
    struct box *made = new_box(&b);
    *ret = made != NULL ? &made->item : NULL;
    return made != NULL ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

/* With NULL the program asked for nothing that there is. */
static CUresult copy(unsigned int call, struct box *b, CUstream stream, bool is_async)
{
    struct cuda_call c = {.id = call};
    struct cuda_context *context = NULL;
    struct stream *s = NULL;
    CUresult rc = work_enter(&c, stream, &context, &s);
    if (rc == CUDA_SUCCESS && !is_async)
        rc = capture_check_wait(s);
    if (rc == CUDA_SUCCESS)
        rc = b != NULL ? copy_in(s, b, is_async) : CUDA_ERROR_INVALID_VALUE;
    return context_leave(&c, context, rc);
}

static CUresult copy_2d(unsigned int call, const CUDA_MEMCPY2D *asked, CUstream stream,
                        bool is_async)
{
    struct box b;
    if (asked != NULL)
        of_2d(asked, &b);
    return copy(call, asked != NULL ? &b : NULL, stream, is_async);
}

static CUresult copy_3d(unsigned int call, const CUDA_MEMCPY3D *asked, CUstream stream,
                        bool is_async)
{
    struct box b;
    bool good = asked != NULL && asked->srcLOD == 0 && asked->dstLOD == 0;
    if (good)
        of_3d(asked, &b);
    return copy(call, good ? &b : NULL, stream, is_async);
}

CUresult cuMemcpy2D_v2(const CUDA_MEMCPY2D *asked)
{
    return copy_2d(CALL_cuMemcpy2D_v2, asked, NULL, /* is_async= */ false);
}

CUresult cuMemcpy2D_v2_ptds(const CUDA_MEMCPY2D *asked)
{
    return copy_2d(CALL_cuMemcpy2D_v2_ptds, asked, CU_STREAM_PER_THREAD, /* is_async= */ false);
}

CUresult cuMemcpy2DUnaligned_v2(const CUDA_MEMCPY2D *asked)
{
    return copy_2d(CALL_cuMemcpy2DUnaligned_v2, asked, NULL, /* is_async= */ false);
}

CUresult cuMemcpy2DUnaligned_v2_ptds(const CUDA_MEMCPY2D *asked)
{
    return copy_2d(CALL_cuMemcpy2DUnaligned_v2_ptds, asked, CU_STREAM_PER_THREAD,
                   /* is_async= */ false);
}

CUresult cuMemcpy2DAsync_v2(const CUDA_MEMCPY2D *asked, CUstream stream)
{
    return copy_2d(CALL_cuMemcpy2DAsync_v2, asked, stream, /* is_async= */ true);
}

CUresult cuMemcpy2DAsync_v2_ptsz(const CUDA_MEMCPY2D *asked, CUstream stream)
{
    return copy_2d(CALL_cuMemcpy2DAsync_v2_ptsz, asked, work_own_stream(stream),
                   /* is_async= */ true);
}

CUresult cuMemcpy3D_v2(const CUDA_MEMCPY3D *asked)
{
    return copy_3d(CALL_cuMemcpy3D_v2, asked, NULL, /* is_async= */ false);
}

CUresult cuMemcpy3D_v2_ptds(const CUDA_MEMCPY3D *asked)
{
    return copy_3d(CALL_cuMemcpy3D_v2_ptds, asked, CU_STREAM_PER_THREAD, /* is_async= */ false);
}

CUresult cuMemcpy3DAsync_v2(const CUDA_MEMCPY3D *asked, CUstream stream)
{
    return copy_3d(CALL_cuMemcpy3DAsync_v2, asked, stream, /* is_async= */ true);
}

CUresult cuMemcpy3DAsync_v2_ptsz(const CUDA_MEMCPY3D *asked, CUstream stream)
{
    return copy_3d(CALL_cuMemcpy3DAsync_v2_ptsz, asked, work_own_stream(stream),
                   /* is_async= */ true);
}
