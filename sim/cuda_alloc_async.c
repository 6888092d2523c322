/* SPDX-License-Identifier: Apache-2.0 */
/*
 * CUDA: memory that is allocated and freed in the order of a stream. Contracts are the driver API's
 * own.
 *
 * Memory is taken by the call: nothing in the stream waits for it. What is freed can be had again,
 * by whoever asks, when the stream is there.
 */
#include <stdlib.h>

#include "sim/cuda_capture.h"
#include "sim/cuda_graph_memory.h"
#include "sim/cuda_pool.h"
#include "sim/cuda_work.h"

/* In a captured stream it becomes a node, which holds the memory. */
static CUresult capture_node(struct stream *s, int type, struct graph_memory *m)
{
    struct node_work *work = node_work_new(s->work->context, /* item= */ NULL);
    if (work == NULL) {
        memory_unref(m);
        return capture_refuse_with(s, CUDA_ERROR_OUT_OF_MEMORY);
    }
    work->memory = m;
    CUresult rc = capture_add_node(s, type, work, NULL);
    node_work_unref(work);
    return rc;
}

/* Assumed: of the pool its device alone counts. */
static CUresult capture_allocation(struct stream *s, CUdevice device, size_t bytes,
                                   CUdeviceptr *ret)
{
    struct graph_memory *m = NULL;
    CUresult rc = ret != NULL ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
    if (rc == CUDA_SUCCESS)
        rc = memory_new(device, bytes, s->capture->graph->handle, &m);
    if (rc != CUDA_SUCCESS)
        return capture_refuse_with(s, rc);
    CUdeviceptr at = m->range.base;
    rc = capture_node(s, CU_GRAPH_NODE_TYPE_MEM_ALLOC, m);
    if (rc == CUDA_SUCCESS)
        *ret = at;
    return rc;
}

static CUresult capture_free(struct stream *s, CUdeviceptr pointer)
{
    struct graph_memory *m = memory_find(pointer);
    CUresult rc = CUDA_ERROR_INVALID_VALUE;
    if (m != NULL)
        rc = memory_add_free(m, s->capture->graph->handle);
    if (rc != CUDA_SUCCESS)
        return capture_refuse_with(s, rc);
    return capture_node(s, CU_GRAPH_NODE_TYPE_MEM_FREE, memory_ref(m));
}

/* Assumed: no bytes are refused, as cuMemAlloc refuses them. */
static CUresult allocate(struct pool *p, size_t bytes, struct stream *s, CUdeviceptr *ret)
{
    struct piece *piece = NULL;
    if (s->capture != NULL)
        return capture_allocation(s, s->work->context->device, bytes, ret);
    if (ret == NULL || bytes == 0)
        return CUDA_ERROR_INVALID_VALUE;
    if (p == NULL)
        return CUDA_ERROR_OUT_OF_MEMORY;
    CUresult rc = pool_take(p, bytes, s, &piece);
    if (rc == CUDA_SUCCESS)
        *ret = piece->range.base;
    return rc;
}

static CUresult allocate_in(unsigned int call, size_t bytes, CUstream stream, CUdeviceptr *ret)
{
    struct cuda_call c = {.id = call};
    struct cuda_context *context = NULL;
    struct stream *s = NULL;
    CUresult rc = work_enter(&c, stream, &context, &s);
    if (rc == CUDA_SUCCESS)
        rc = capture_check_legacy(s);
    if (rc == CUDA_SUCCESS)
        rc = allocate(pool_current(s->work->context->device), bytes, s, ret);
    cuda_args(&c, "%zu", bytes);
    return context_leave(&c, context, rc);
}

CUresult cuMemAllocAsync(CUdeviceptr *pointer, size_t bytes, CUstream stream)
{
    return allocate_in(CALL_cuMemAllocAsync, bytes, stream, pointer);
}

CUresult cuMemAllocAsync_ptsz(CUdeviceptr *pointer, size_t bytes, CUstream stream)
{
    return allocate_in(CALL_cuMemAllocAsync_ptsz, bytes, work_own_stream(stream), pointer);
}

static CUresult allocate_from(unsigned int call, size_t bytes, CUmemoryPool pool, CUstream stream,
                              CUdeviceptr *ret)
{
    struct cuda_call c = {.id = call};
    struct cuda_context *context = NULL;
    struct stream *s = NULL;
    CUresult rc = work_enter(&c, stream, &context, &s);
    if (rc == CUDA_SUCCESS)
        rc = capture_check_legacy(s);
    struct pool *p = rc == CUDA_SUCCESS ? pool_find(pool) : NULL;
    if (rc == CUDA_SUCCESS)
        rc = p != NULL ? allocate(p, bytes, s, ret) : CUDA_ERROR_INVALID_VALUE;
    cuda_args(&c, "%zu", bytes);
    return context_leave(&c, context, rc);
}

CUresult cuMemAllocFromPoolAsync(CUdeviceptr *pointer, size_t bytes, CUmemoryPool pool,
                                 CUstream stream)
{
    return allocate_from(CALL_cuMemAllocFromPoolAsync, bytes, pool, stream, pointer);
}

CUresult cuMemAllocFromPoolAsync_ptsz(CUdeviceptr *pointer, size_t bytes, CUmemoryPool pool,
                                      CUstream stream)
{
    return allocate_from(CALL_cuMemAllocFromPoolAsync_ptsz, bytes, pool, work_own_stream(stream),
                         pointer);
}

/* --- Freeing --- */

struct free_item {
    struct work_item item;
    uint64_t ticket;             /* of a pool's piece, ... */
    CUdeviceptr base;            /* ... or where the range of other memory begins, ... */
    uint64_t id;                 /* ... if it is still that one; ... */
    struct graph_memory *memory; /* ... or a graph's */
};

static void free_range(const struct free_item *f)
{
    struct range *r = range_find(f->base);
    if (r == NULL || r->id != f->id)
        return;
    if (r->kind == RANGE_IMPORTED)
        imported_free((struct imported *)r);
    else
        arena_free((struct allocation *)r);
}

/* Performed or not: a stream that ends frees what was to be freed in it. */
static void end_item(struct work_item *item)
{
    const struct free_item *f = (const struct free_item *)item;
    if (f->memory != NULL)
        memory_end_free(f->memory);
    else if (f->ticket != 0)
        pool_redeem(f->ticket);
    else
        free_range(f);
}

static bool can_be_freed(const struct range *r)
{
    return r->free != NULL && (r->kind == RANGE_POOL || r->kind == RANGE_IMPORTED ||
                               r->kind == RANGE_LINEAR || r->kind == RANGE_GRAPH);
}

/* From here on nobody else can free it. */
static void retire(struct range *r, const struct stream *s, struct free_item *ret)
{
    *ret = (struct free_item){.item = {.kind = WORK_INSTANT, .end = end_item}};
    if (r->kind == RANGE_POOL)
        ret->ticket = pool_retire((struct piece *)r, s);
    if (r->kind == RANGE_GRAPH) {
        ret->memory = (struct graph_memory *)r;
        memory_begin_free(ret->memory);
    }
    ret->base = r->base;
    ret->id = r->id;
    r->free = NULL;
}

static CUresult free_in(struct stream *s, CUdeviceptr pointer)
{
    struct range *r = range_find(pointer);
    if (s->capture != NULL)
        return capture_free(s, pointer);
    if (r == NULL || r->base != pointer || !can_be_freed(r))
        return CUDA_ERROR_INVALID_VALUE;
    struct free_item *item = malloc(sizeof(*item));
    if (item == NULL)
        return CUDA_ERROR_OUT_OF_MEMORY;
    retire(r, s, item);
    return work_submit(s, &item->item);
}

static CUresult free_at(unsigned int call, CUdeviceptr pointer, CUstream stream)
{
    struct cuda_call c = {.id = call};
    struct cuda_context *context = NULL;
    struct stream *s = NULL;
    CUresult rc = work_enter(&c, stream, &context, &s);
    if (rc == CUDA_SUCCESS)
        rc = capture_check_legacy(s);
    if (rc == CUDA_SUCCESS)
        rc = free_in(s, pointer);
    return context_leave(&c, context, rc);
}

/* Assumed: beside memory of pools and graphs it frees that of cuMemAlloc and cuMemAllocPitch alone. */
CUresult cuMemFreeAsync(CUdeviceptr pointer, CUstream stream)
{
    return free_at(CALL_cuMemFreeAsync, pointer, stream);
}

CUresult cuMemFreeAsync_ptsz(CUdeviceptr pointer, CUstream stream)
{
    return free_at(CALL_cuMemFreeAsync_ptsz, pointer, work_own_stream(stream));
}
