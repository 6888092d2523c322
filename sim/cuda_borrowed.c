/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/cuda_borrowed.h"

#include "sim/cuda_address.h"

static CUdevice ordinal_of(uint32_t gpu)
{
    CUdevice i = 0;
    while (i < cuda_device_count() && cuda_device_at(i)->gpu != gpu)
        i++;
    return i < cuda_device_count() ? i : CU_DEVICE_INVALID;
}

/* The chunk's part of the file, which must be as long. */
static CUresult find_part(const struct loan *loan, uint64_t bytes, struct store_file *file,
                          struct store *ret)
{
    uint64_t end = 0;
    if (file == NULL || loan->chunk_offset < STORE_HEAD ||
        __builtin_add_overflow(loan->chunk_offset - STORE_HEAD, bytes, &end) ||
        !store_file_has(file, end))
        return CUDA_ERROR_MAP_FAILED;
    *ret = store_at(file, loan->chunk_offset, bytes);
    return CUDA_SUCCESS;
}

static CUresult find_part_of(const struct loan *loan, uint64_t bytes, pid_t pid, int fd,
                             struct store *ret)
{
    struct store_file *file = pid > 0 ? store_file_of(pid, fd) : NULL;
    CUresult rc = find_part(loan, bytes, file, ret);
    store_file_unref(file);
    return rc;
}

/* A chunk that this process does not have yet. */
static CUresult hold(const struct loan *loan, struct store_file *file, int fd, struct chunk **ret)
{
    struct shared_holder owner;
    struct store store;
    CUresult rc = cuda_hold_of_owner(loan->name, &owner);
    if (rc != CUDA_SUCCESS)
        return rc;
    CUdevice device = ordinal_of(owner.gpu);
    rc = device == CU_DEVICE_INVALID ? CUDA_ERROR_INVALID_DEVICE
         : file != NULL              ? find_part(loan, owner.bytes, file, &store)
                                     : find_part_of(loan, owner.bytes, owner.pid, fd, &store);
    if (rc != CUDA_SUCCESS) {
        (void)cuda_let_go(loan->name);
        return rc;
    }
    *ret = chunk_of(cuda_device_at(device), loan->name, store);
    return *ret != NULL ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

static CUresult find_chunk(const struct loan *loan, struct store_file *file, int fd,
                           struct chunk **ret)
{
    *ret = chunk_find(loan->name);
    if (*ret == NULL)
        return hold(loan, file, fd, ret);
    chunk_hold(*ret);
    return CUDA_SUCCESS;
}

static CUresult map(struct borrowed *b, const struct loan *loan)
{
    if (loan->bytes == 0 || loan->offset > b->chunk->bytes ||
        loan->bytes > b->chunk->bytes - loan->offset)
        return CUDA_ERROR_INVALID_HANDLE;
    b->base = chunk_map(b->chunk, /* low= */ false);
    if (b->base == NULL)
        return CUDA_ERROR_MAP_FAILED;
    b->range.base = (uintptr_t)(b->base + loan->offset);
    b->range.bytes = loan->bytes;
    b->range.device = ordinal_of(b->chunk->device->gpu);
    if (range_add(&b->range))
        return CUDA_SUCCESS;
    address_release(b->base, b->chunk->bytes);
    return CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult borrowed_open(struct borrowed *b, const struct loan *loan, struct store_file *file, int fd)
{
    CUresult rc = find_chunk(loan, file, fd, &b->chunk);
    if (rc != CUDA_SUCCESS)
        return rc;
    rc = map(b, loan);
    if (rc != CUDA_SUCCESS)
        chunk_let_go(b->chunk);
    return rc;
}

void borrowed_close(struct borrowed *b)
{
    range_remove(&b->range);
    address_release(b->base, b->chunk->bytes);
    chunk_let_go(b->chunk);
}
