/* SPDX-License-Identifier: Apache-2.0 */
/*
 * CUDA: memory of graphics libraries, by a descriptor. Contracts are the driver API's own.
 *
 * Assumed: any file in memory is such memory, on the card of the current context, and takes room there
 * from its import on: no graphics library is here that would have taken it. What CUDA itself exported
 * is taken already.
 */
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "sim/cuda_address.h"
#include "sim/cuda_export.h"
#include "sim/cuda_handle.h"
#include "sim/cuda_work.h"

struct external {
    struct context_part part;
    void *handle;
    struct cuda_context *context;
    struct chunk *chunk;
    uint64_t bytes;
};

/* A range of RANGE_BUFFER. */
struct buffer {
    struct range range;
    struct context_part part;
    struct chunk *chunk;
    char *base; /* of the chunk */
};

/* --- The memory --- */

static void end(struct external *e)
{
    handle_end(e->handle);
    chunk_let_go(e->chunk);
    free(e);
}

static void end_part(struct context_part *part)
{
    end((struct external *)part);
}

/* What CUDA did not export, as a part of whole granules. */
static CUresult take(struct cuda_context *context, struct store_file *f, uint64_t bytes,
                     struct chunk **ret)
{
    if (!store_file_lengthen(f, arena_round_up(bytes, CHUNK_GRANULE)))
        return CUDA_ERROR_INVALID_VALUE;
    return chunk_new_at(cuda_device_at(context->device),
                        store_at(f, 0, arena_round_up(bytes, CHUNK_GRANULE)), ret);
}

static CUresult find_chunk(struct cuda_context *context, int fd, uint64_t bytes, struct chunk **ret)
{
    CUmemAllocationProp prop;
    CUresult rc = export_open(fd, &prop, ret);
    if (rc != CUDA_ERROR_INVALID_HANDLE)
        return rc;
    struct store_file *f = store_file_of_other(fd, bytes);
    if (f == NULL)
        return CUDA_ERROR_INVALID_HANDLE;
    rc = take(context, f, bytes, ret);
    store_file_unref(f);
    return rc;
}

static CUresult make(struct cuda_context *context, int fd, uint64_t bytes, CUexternalMemory *ret)
{
    struct external *e = calloc(1, sizeof(*e));
    if (e == NULL)
        return CUDA_ERROR_OUT_OF_MEMORY;
    CUresult rc = find_chunk(context, fd, bytes, &e->chunk);
    if (rc != CUDA_SUCCESS) {
        free(e);
        return rc;
    }
    e->part.end = end_part;
    e->context = context;
    e->bytes = bytes;
    e->handle = handle_new(HANDLE_EXTERNAL, e);
    if (e->handle == NULL || bytes > e->chunk->bytes) {
        rc = e->handle == NULL ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_ERROR_INVALID_VALUE;
        end(e);
        return rc;
    }
    context_add_part(context, &e->part);
    *ret = e->handle;
    return CUDA_SUCCESS;
}

static CUresult check(const CUDA_EXTERNAL_MEMORY_HANDLE_DESC *d)
{
    if (d->size == 0 || d->size > INT64_MAX ||
        (d->flags & ~(unsigned int)CUDA_EXTERNAL_MEMORY_DEDICATED) != 0)
        return CUDA_ERROR_INVALID_VALUE;
    if (d->type < CU_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD ||
        d->type > CU_EXTERNAL_MEMORY_HANDLE_TYPE_DMABUF_FD)
        return CUDA_ERROR_INVALID_VALUE;
    return d->type == CU_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD ? CUDA_SUCCESS
                                                               : CUDA_ERROR_NOT_SUPPORTED;
}

/* The descriptor is the driver's from now on, if it was good. */
CUresult cuImportExternalMemory(CUexternalMemory *memory,
                                const CUDA_EXTERNAL_MEMORY_HANDLE_DESC *handle)
{
    struct cuda_call c = {.id = CALL_cuImportExternalMemory};
    struct cuda_context *context = NULL;
    CUresult rc = context_enter(&c, &context);
    if (rc == CUDA_SUCCESS && (memory == NULL || handle == NULL))
        rc = CUDA_ERROR_INVALID_VALUE;
    if (rc == CUDA_SUCCESS)
        rc = check(handle);
    if (rc == CUDA_SUCCESS)
        rc = make(context, handle->handle.fd, handle->size, memory);
    if (rc == CUDA_SUCCESS)
        (void)close(handle->handle.fd);
    return context_leave(&c, context, rc);
}

CUresult cuDestroyExternalMemory(CUexternalMemory memory)
{
    struct cuda_call c = {.id = CALL_cuDestroyExternalMemory};
    CUresult rc = cuda_enter(&c);
    context_lock();
    struct external *e = rc == CUDA_SUCCESS ? handle_find(HANDLE_EXTERNAL, memory) : NULL;
    if (rc == CUDA_SUCCESS && e == NULL)
        rc = CUDA_ERROR_INVALID_HANDLE;
    if (rc == CUDA_SUCCESS) {
        context_remove_part(&e->part);
        end(e);
    }
    context_unlock();
    return cuda_leave(&c, rc);
}

/* --- Buffers: they stay when the memory's handle ends --- */

static void end_buffer(struct buffer *b)
{
    range_remove(&b->range);
    address_release(b->base, b->chunk->bytes);
    chunk_let_go(b->chunk);
    free(b);
}

static void end_buffer_part(struct context_part *part)
{
    end_buffer((struct buffer *)(void *)((char *)part - offsetof(struct buffer, part)));
}

static void free_range(struct range *r)
{
    struct buffer *b = (struct buffer *)r;
    context_remove_part(&b->part);
    end_buffer(b);
}

static CUresult map(const struct external *e, uint64_t offset, uint64_t bytes, CUdeviceptr *ret)
{
    struct buffer *b = calloc(1, sizeof(*b));
    char *base = b != NULL ? chunk_map(e->chunk, /* low= */ false) : NULL;
    if (base == NULL) {
        free(b);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    *b = (struct buffer){.range = {.base = (uintptr_t)base + offset,
                                   .bytes = bytes,
                                   .kind = RANGE_BUFFER,
                                   .device = e->context->device,
                                   .context = e->context,
                                   .free = free_range},
                         .part.end = end_buffer_part,
                         .chunk = e->chunk,
                         .base = base};
    chunk_hold(b->chunk);
    context_add_part(e->context, &b->part);
    if (!range_add(&b->range)) {
        free_range(&b->range);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    *ret = b->range.base;
    return CUDA_SUCCESS;
}

CUresult cuExternalMemoryGetMappedBuffer(CUdeviceptr *pointer, CUexternalMemory memory,
                                         const CUDA_EXTERNAL_MEMORY_BUFFER_DESC *buffer)
{
    struct cuda_call c = {.id = CALL_cuExternalMemoryGetMappedBuffer};
    CUresult rc = cuda_enter(&c);
    context_lock();
    const struct external *e = rc == CUDA_SUCCESS ? handle_find(HANDLE_EXTERNAL, memory) : NULL;
    if (rc == CUDA_SUCCESS && e == NULL)
        rc = CUDA_ERROR_INVALID_HANDLE;
    bool good = rc == CUDA_SUCCESS && pointer != NULL && buffer != NULL && buffer->flags == 0 &&
                buffer->size > 0 && buffer->offset <= e->bytes &&
                buffer->size <= e->bytes - buffer->offset;
    if (rc == CUDA_SUCCESS)
        rc = good ? map(e, buffer->offset, buffer->size, pointer) : CUDA_ERROR_INVALID_VALUE;
    context_unlock();
    return cuda_leave(&c, rc);
}
