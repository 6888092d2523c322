/* SPDX-License-Identifier: Apache-2.0 */
/*
 * CUDA: pools in other processes. Contracts are the driver API's own.
 *
 * A pool that can be exported has its slabs in a file of its own, whose descriptor is the shareable
 * handle.
 */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "sim/cuda_borrowed.h"
#include "sim/cuda_context.h"
#include "sim/cuda_head.h"
#include "sim/cuda_pool.h"

#define MAGIC UINT32_C(0x43706F6F)

struct words {
    uint32_t magic;
    uint32_t slot;
    uint64_t serial;
    uint64_t chunk_offset, offset, bytes;
};

_Static_assert(sizeof(struct words) <= sizeof(CUmemPoolPtrExportData), "the data have room for it");

/* --- Pools --- */

static CUresult export_pool(const struct pool *p, int *ret)
{
    const struct head head = {.kind = HEAD_POOL, .prop.location = p->props.location};
    int fd = fcntl(p->file->fd, F_DUPFD_CLOEXEC, 0);
    if (fd < 0)
        return CUDA_ERROR_OPERATING_SYSTEM;
    head_write(p->file, &head, p->device);
    *ret = fd;
    return CUDA_SUCCESS;
}

/* Assumed: an imported pool is not exported again. */
CUresult cuMemPoolExportToShareableHandle(void *shareable, CUmemoryPool pool, int type,
                                          unsigned long long flags)
{
    struct cuda_call c = {.id = CALL_cuMemPoolExportToShareableHandle};
    CUresult rc = cuda_enter(&c);
    int fd = -1;
    context_lock();
    const struct pool *p = rc == CUDA_SUCCESS ? pool_find(pool) : NULL;
    bool good = p != NULL && p->file != NULL && !p->is_imported && shareable != NULL &&
                type == CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR && flags == 0;
    if (rc == CUDA_SUCCESS)
        rc = good ? export_pool(p, &fd) : CUDA_ERROR_INVALID_VALUE;
    context_unlock();
    if (rc == CUDA_SUCCESS)
        memcpy(shareable, &fd, sizeof(fd));
    return cuda_leave(&c, rc);
}

static CUresult import_file(struct store_file *f, CUmemoryPool *ret)
{
    struct head head;
    CUmemPoolProps props = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
                            .handleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
                            .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE}};
    if (f == NULL || !head_read(f, HEAD_POOL, &head))
        return CUDA_ERROR_INVALID_VALUE;
    props.location.id = head_device(&head);
    if (props.location.id < 0)
        return CUDA_ERROR_NOT_SUPPORTED;
    const struct pool *p = pool_new(&props, f);
    if (p == NULL)
        return CUDA_ERROR_OUT_OF_MEMORY;
    *ret = p->handle;
    return CUDA_SUCCESS;
}

/* Pools of the host's memory are not imported here. */
CUresult cuMemPoolImportFromShareableHandle(CUmemoryPool *pool, void *shareable, int type,
                                            unsigned long long flags)
{
    struct cuda_call c = {.id = CALL_cuMemPoolImportFromShareableHandle};
    CUresult rc = cuda_enter(&c);
    if (rc == CUDA_SUCCESS &&
        (pool == NULL || type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR || flags != 0))
        rc = CUDA_ERROR_INVALID_VALUE;
    context_lock();
    if (rc == CUDA_SUCCESS) {
        struct store_file *f = store_file_open((int)(intptr_t)shareable);
        rc = import_file(f, pool);
        store_file_unref(f);
    }
    context_unlock();
    return cuda_leave(&c, rc);
}

/* --- Pointers --- */

static CUresult export_piece(const struct piece *piece, CUmemPoolPtrExportData *ret)
{
    struct chunk *chunk = piece->slab->chunk;
    if (!chunk_share(chunk))
        return CUDA_ERROR_OUT_OF_MEMORY;
    const struct words w = {.magic = MAGIC,
                            .slot = chunk->name.slot,
                            .serial = chunk->name.serial,
                            .chunk_offset = chunk->store.offset,
                            .offset = piece->range.base - (uintptr_t)piece->slab->base,
                            .bytes = piece->range.bytes};
    *ret = (CUmemPoolPtrExportData){0};
    memcpy(ret->reserved, &w, sizeof(w));
    return CUDA_SUCCESS;
}

static bool can_be_exported(const struct range *r, CUdeviceptr pointer)
{
    if (r == NULL || r->kind != RANGE_POOL || r->base != pointer || r->free == NULL)
        return false;
    const struct pool *p = ((const struct piece *)r)->slab->pool;
    return p->file != NULL && p->device != NULL;
}

CUresult cuMemPoolExportPointer(CUmemPoolPtrExportData *data, CUdeviceptr pointer)
{
    struct cuda_call c = {.id = CALL_cuMemPoolExportPointer};
    CUresult rc = cuda_enter(&c);
    context_lock();
    const struct range *r = rc == CUDA_SUCCESS ? range_find(pointer) : NULL;
    bool good = data != NULL && can_be_exported(r, pointer);
    if (rc == CUDA_SUCCESS)
        rc = good ? export_piece((const struct piece *)r, data) : CUDA_ERROR_INVALID_VALUE;
    context_unlock();
    return cuda_leave(&c, rc);
}

static void free_range(struct range *r)
{
    imported_free((struct imported *)r);
}

static CUresult import_piece(struct pool *p, const struct words *w, CUdeviceptr *ret)
{
    const struct loan loan = {.name = {.serial = w->serial, .slot = w->slot},
                              .chunk_offset = w->chunk_offset,
                              .offset = w->offset,
                              .bytes = w->bytes};
    struct imported *i = calloc(1, sizeof(*i));
    if (i == NULL)
        return CUDA_ERROR_OUT_OF_MEMORY;
    i->borrowed.range = (struct range){.kind = RANGE_IMPORTED, .free = free_range};
    i->pool = p;
    CUresult rc = borrowed_open(&i->borrowed, &loan, p->file, /* fd= */ -1);
    if (rc != CUDA_SUCCESS) {
        free(i);
        return rc == CUDA_ERROR_OUT_OF_MEMORY ? rc : CUDA_ERROR_INVALID_VALUE;
    }
    pool_hold(p);
    *ret = i->borrowed.range.base;
    return CUDA_SUCCESS;
}

CUresult cuMemPoolImportPointer(CUdeviceptr *pointer, CUmemoryPool pool,
                                CUmemPoolPtrExportData *data)
{
    struct cuda_call c = {.id = CALL_cuMemPoolImportPointer};
    struct words w = {0};
    CUresult rc = cuda_enter(&c);
    if (data != NULL)
        memcpy(&w, data->reserved, sizeof(w));
    context_lock();
    struct pool *p = rc == CUDA_SUCCESS ? pool_find(pool) : NULL;
    bool good = pointer != NULL && w.magic == MAGIC && p != NULL && p->is_imported;
    if (rc == CUDA_SUCCESS)
        rc = good ? import_piece(p, &w, pointer) : CUDA_ERROR_INVALID_VALUE;
    context_unlock();
    return cuda_leave(&c, rc);
}
