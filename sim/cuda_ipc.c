/* SPDX-License-Identifier: Apache-2.0 */
/*
 * CUDA: linear memory by a handle that is plain data, in other processes. Contracts are the driver
 * API's own.
 *
 * The importer opens the exporter's file of memory through /proc, as a driver demands that one process
 * sees the other. A handle names two shared pieces: the block that the memory is in, and the allocation
 * (of no bytes), which ends with it.
 */
#include <stdlib.h>
#include <string.h>

#include "sim/cuda_borrowed.h"
#include "sim/cuda_work.h"

#define MAGIC UINT32_C(0x43697063)

struct words {
    uint32_t magic;
    int32_t fd;
    uint64_t block_serial, token_serial;
    uint16_t block_slot, token_slot;
    uint32_t unused;
    uint64_t chunk_offset, offset, bytes;
};

_Static_assert(sizeof(struct words) <= sizeof(CUipcMemHandle), "a handle has room for it");
_Static_assert(SHARED_MAX <= UINT16_MAX, "a slot is a short number");

/* --- Exporting --- */

static CUresult export(struct allocation *a, CUipcMemHandle *ret)
{
    uint64_t offset = 0;
    struct chunk *chunk = arena_chunk_of(a, &offset);
    if (!chunk_share(chunk) || (a->token.serial == 0 && !cuda_share(chunk->device, 0, &a->token)))
        return CUDA_ERROR_OUT_OF_MEMORY;
    const struct words w = {.magic = MAGIC,
                            .fd = chunk->store.file->fd,
                            .block_serial = chunk->name.serial,
                            .block_slot = (uint16_t)chunk->name.slot,
                            .token_serial = a->token.serial,
                            .token_slot = (uint16_t)a->token.slot,
                            .chunk_offset = chunk->store.offset,
                            .offset = offset,
                            .bytes = a->range.bytes};
    *ret = (CUipcMemHandle){0};
    memcpy(ret->reserved, &w, sizeof(w));
    return CUDA_SUCCESS;
}

/* Of the beginning of linear memory alone. */
CUresult cuIpcGetMemHandle(CUipcMemHandle *handle, CUdeviceptr pointer)
{
    struct cuda_call c = {.id = CALL_cuIpcGetMemHandle};
    struct cuda_context *context = NULL;
    CUresult rc = context_enter(&c, &context);
    struct range *r = rc == CUDA_SUCCESS ? range_find(pointer) : NULL;
    bool good = handle != NULL && r != NULL && r->kind == RANGE_LINEAR && r->base == pointer;
    if (rc == CUDA_SUCCESS)
        rc = good ? export((struct allocation *)r, handle) : CUDA_ERROR_INVALID_VALUE;
    return context_leave(&c, context, rc);
}

/* --- Importing --- */

struct opened {
    struct borrowed borrowed;
    struct context_part part;
    uint64_t token;
    unsigned int refs;
    struct opened *next; /* of this process's */
};

static struct opened *opened;

static struct opened *find_opened(const struct cuda_context *context, uint64_t token)
{
    struct opened *o = opened;
    while (o != NULL && (o->token != token || o->borrowed.range.context != context))
        o = o->next;
    return o;
}

static void end(struct opened *o)
{
    struct opened **at = &opened;
    while (*at != o)
        at = &(*at)->next;
    *at = o->next;
    borrowed_close(&o->borrowed);
    free(o);
}

static void end_part(struct context_part *part)
{
    end((struct opened *)(void *)((char *)part - offsetof(struct opened, part)));
}

/* The allocation is still there, and another process's. Assumed: a process that opens its own handle is
 * told of its context. */
static CUresult check(const struct words *w)
{
    const struct shared_name token = {.serial = w->token_serial, .slot = w->token_slot};
    const struct shared_name block = {.serial = w->block_serial, .slot = w->block_slot};
    struct shared_holder owner;
    const struct chunk *own = chunk_find(block);
    if (own != NULL && !own->store.file->is_foreign)
        return CUDA_ERROR_INVALID_CONTEXT;
    CUresult rc = cuda_hold_of_owner(token, &owner);
    if (rc == CUDA_SUCCESS)
        (void)cuda_let_go(token);
    return rc;
}

static CUresult open_new(struct cuda_context *context, const struct words *w, CUdeviceptr *ret)
{
    const struct loan loan = {.name = {.serial = w->block_serial, .slot = w->block_slot},
                              .chunk_offset = w->chunk_offset,
                              .offset = w->offset,
                              .bytes = w->bytes};
    struct opened *o = calloc(1, sizeof(*o));
    if (o == NULL)
        return CUDA_ERROR_OUT_OF_MEMORY;
    *o = (struct opened){.borrowed.range = {.kind = RANGE_OPENED, .context = context},
                         .part.end = end_part,
                         .token = w->token_serial,
                         .refs = 1,
                         .next = opened};
    CUresult rc = borrowed_open(&o->borrowed, &loan, /* file= */ NULL, w->fd);
    if (rc != CUDA_SUCCESS) {
        free(o);
        return rc;
    }
    opened = o;
    context_add_part(context, &o->part);
    *ret = o->borrowed.range.base;
    return CUDA_SUCCESS;
}

static CUresult open_handle(struct cuda_context *context, const CUipcMemHandle *handle,
                            CUdeviceptr *ret)
{
    struct words w;
    memcpy(&w, handle->reserved, sizeof(w));
    if (w.magic != MAGIC)
        return CUDA_ERROR_INVALID_HANDLE;
    CUresult rc = check(&w);
    if (rc != CUDA_SUCCESS)
        return rc;
    struct opened *o = find_opened(context, w.token_serial);
    if (o == NULL)
        return open_new(context, &w, ret);
    o->refs++;
    *ret = o->borrowed.range.base;
    return CUDA_SUCCESS;
}

static CUresult open_in(unsigned int call, CUdeviceptr *pointer, const CUipcMemHandle *handle,
                        unsigned int flags)
{
    struct cuda_call c = {.id = call};
    struct cuda_context *context = NULL;
    CUresult rc = context_enter(&c, &context);
    if (rc == CUDA_SUCCESS && (pointer == NULL || flags != CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS))
        rc = CUDA_ERROR_INVALID_VALUE;
    if (rc == CUDA_SUCCESS)
        rc = open_handle(context, handle, pointer);
    return context_leave(&c, context, rc);
}

CUresult cuIpcOpenMemHandle(CUdeviceptr *pointer, CUipcMemHandle handle, unsigned int flags)
{
    return open_in(CALL_cuIpcOpenMemHandle, pointer, &handle, flags);
}

CUresult cuIpcOpenMemHandle_v2(CUdeviceptr *pointer, CUipcMemHandle handle, unsigned int flags)
{
    return open_in(CALL_cuIpcOpenMemHandle_v2, pointer, &handle, flags);
}

static CUresult close_at(CUdeviceptr pointer)
{
    struct range *r = range_find(pointer);
    if (r == NULL || r->kind != RANGE_OPENED || r->base != pointer)
        return CUDA_ERROR_INVALID_VALUE;
    struct opened *o = (struct opened *)r;
    if (--o->refs > 0)
        return CUDA_SUCCESS;
    context_remove_part(&o->part);
    end(o);
    return CUDA_SUCCESS;
}

/* Waits for the context's work, as cuMemFree does. */
CUresult cuIpcCloseMemHandle(CUdeviceptr pointer)
{
    struct cuda_call c = {.id = CALL_cuIpcCloseMemHandle};
    struct cuda_context *context = NULL;
    CUresult rc = context_enter(&c, &context);
    if (rc == CUDA_SUCCESS)
        rc = work_wait_context(context);
    if (rc == CUDA_SUCCESS)
        rc = close_at(pointer);
    return context_leave(&c, context, rc);
}
