/* SPDX-License-Identifier: Apache-2.0 */
/*
 * CUDA: physical memory by a descriptor, in this process or others. Contracts are the driver API's own.
 *
 * Assumed: a descriptor keeps the bytes, and room on the card is taken while a process has a handle or
 * a mapping. A driver keeps the room, too, until the descriptor is closed.
 */
#include "sim/cuda_export.h"

#include <fcntl.h>
#include <string.h>

#include "sim/cuda_context.h"
#include "sim/cuda_head.h"
#include "sim/cuda_physical.h"

/* --- Exporting --- */

static CUresult export(const struct physical *p, int *ret)
{
    const struct store_file *f = p->chunk->store.file;
    const struct head head = {.kind = HEAD_PHYSICAL, .bytes = p->bytes, .prop = p->prop};
    if (p->chunk->device != NULL && !chunk_share(p->chunk))
        return CUDA_ERROR_OUT_OF_MEMORY;
    int fd = fcntl(f->fd, F_DUPFD_CLOEXEC, 0);
    if (fd < 0)
        return CUDA_ERROR_OPERATING_SYSTEM;
    *head_name(f) = p->chunk->name;
    head_write(f, &head, p->chunk->device);
    *ret = fd;
    return CUDA_SUCCESS;
}

CUresult cuMemExportToShareableHandle(void *shareable, CUmemGenericAllocationHandle handle,
                                      int type, unsigned long long flags)
{
    struct cuda_call c = {.id = CALL_cuMemExportToShareableHandle};
    CUresult rc = cuda_enter(&c);
    int fd = -1;
    context_lock();
    const struct physical *p = rc == CUDA_SUCCESS ? physical_find(handle) : NULL;
    bool good = p != NULL && shareable != NULL && flags == 0 &&
                type == CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR &&
                (p->prop.requestedHandleTypes & type) != 0;
    if (rc == CUDA_SUCCESS)
        rc = good ? export(p, &fd) : CUDA_ERROR_INVALID_VALUE;
    context_unlock();
    if (rc == CUDA_SUCCESS)
        memcpy(shareable, &fd, sizeof(fd));
    return cuda_leave(&c, rc);
}

/* --- Importing --- */

/* What this process has not yet. */
static CUresult hold(struct store_file *f, const struct head *head,
                     const struct cuda_device *device, struct chunk **ret)
{
    struct shared_name name = {0};
    CUresult rc =
        device != NULL ? cuda_hold(device, head->bytes, head_name(f), &name) : CUDA_SUCCESS;
    if (rc != CUDA_SUCCESS)
        return rc;
    *ret = chunk_of(device, name, store_at(f, STORE_HEAD, head->bytes));
    return *ret != NULL ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

static CUresult find(struct store_file *f, const struct head *head, CUdevice device,
                     struct chunk **ret)
{
    *ret = head->name.serial != 0 ? chunk_find(head->name) : NULL;
    if (*ret == NULL)
        return hold(f, head, device >= 0 ? cuda_device_at(device) : NULL, ret);
    if ((*ret)->bytes != head->bytes)
        return CUDA_ERROR_INVALID_VALUE;
    chunk_hold(*ret);
    return CUDA_SUCCESS;
}

static CUresult open_file(struct store_file *f, CUmemAllocationProp *ret_prop, struct chunk **ret)
{
    struct head head;
    if (!head_read(f, HEAD_PHYSICAL, &head))
        return CUDA_ERROR_INVALID_HANDLE;
    if (head.bytes == 0 || head.bytes % CHUNK_GRANULE != 0)
        return CUDA_ERROR_INVALID_VALUE;
    CUdevice device = head_device(&head);
    if (device == CU_DEVICE_INVALID)
        return CUDA_ERROR_NOT_SUPPORTED;
    *ret_prop = head.prop;
    if (device >= 0)
        ret_prop->location = (CUmemLocation){.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device};
    return find(f, &head, device, ret);
}

CUresult export_open(int fd, CUmemAllocationProp *ret_prop, struct chunk **ret)
{
    struct store_file *f = store_file_open(fd);
    CUresult rc = f != NULL ? open_file(f, ret_prop, ret) : CUDA_ERROR_INVALID_HANDLE;
    store_file_unref(f);
    return rc;
}

static CUresult import(int fd, CUmemGenericAllocationHandle *ret)
{
    CUmemAllocationProp prop;
    struct chunk *chunk = NULL;
    CUresult rc = export_open(fd, &prop, &chunk);
    if (rc != CUDA_SUCCESS)
        return rc == CUDA_ERROR_INVALID_HANDLE ? CUDA_ERROR_INVALID_VALUE : rc;
    const struct physical *p = physical_new(&prop, chunk);
    if (p == NULL)
        return CUDA_ERROR_OUT_OF_MEMORY;
    *ret = (uintptr_t)p->handle;
    return CUDA_SUCCESS;
}

/* The descriptor stays the program's. */
CUresult cuMemImportFromShareableHandle(CUmemGenericAllocationHandle *handle, void *shareable,
                                        int type)
{
    struct cuda_call c = {.id = CALL_cuMemImportFromShareableHandle};
    CUresult rc = cuda_enter(&c);
    bool good = handle != NULL && type == CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
    context_lock();
    if (rc == CUDA_SUCCESS)
        rc = good ? import((int)(intptr_t)shareable, handle) : CUDA_ERROR_INVALID_VALUE;
    context_unlock();
    return cuda_leave(&c, rc);
}
