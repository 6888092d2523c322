/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/cuda_room.h"

#include "sim/cuda_rows.h"

#define MIB UINT64_C(1048576)

/* --- Room --- */

static uint64_t total_bytes(const struct model *m)
{
    return (m->memory_mib - m->reserved_mib) * MIB;
}

/* The bytes of processes that simctl attached. */
static uint64_t attached_bytes(const struct hw *hw, uint32_t gpu)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < hw->proc_reach; i++) {
        const struct hw_proc *p = &hw->procs[i];
        sum += p->pid != 0 && !p->cuda && p->gpu == gpu ? p->memory_mib * MIB : 0;
    }
    return sum;
}

static uint64_t free_bytes(const struct cuda_rows *rows, const struct hw *hw,
                           const struct cuda_device *d)
{
    uint64_t used = cuda_rows_bytes(rows, d->gpu) + attached_bytes(hw, d->gpu);
    return used < total_bytes(d->model) ? total_bytes(d->model) - used : 0;
}

/* Processes that have ended count until somebody needs their room. */
static bool has_room(struct cuda_rows *rows, const struct hw *hw, const struct cuda_device *d,
                     uint64_t bytes)
{
    if (bytes <= free_bytes(rows, hw, d))
        return true;
    (void)cuda_rows_sweep(rows);
    return bytes <= free_bytes(rows, hw, d);
}

static bool is_used_by_others(struct cuda_rows *rows, const struct hw *hw, uint32_t gpu)
{
    (void)cuda_rows_sweep(rows);
    for (size_t i = 0; i < hw->proc_reach; i++) {
        const struct hw_proc *p = &hw->procs[i];
        if (p->pid != 0 && !p->cuda && p->gpu == gpu && p->kind != PROC_GRAPHICS)
            return true;
    }
    for (size_t i = 0; i < rows->file->reach; i++) {
        const struct cuda_row *row = &rows->file->rows[i];
        if (row != rows->own && row->used && row->contexts[gpu] > 0)
            return true;
    }
    return false;
}

static bool may_have_contexts(struct cuda_rows *rows, const struct hw *hw, uint32_t index)
{
    switch (hw->gpus[index].compute_mode) {
    case CU_COMPUTEMODE_PROHIBITED:
        return false;
    case CU_COMPUTEMODE_EXCLUSIVE_PROCESS:
        return !is_used_by_others(rows, hw, index);
    default:
        return true;
    }
}

static bool is_there(const struct hw_gpu *gpu)
{
    return !gpu->lost && !gpu->removed && !gpu->mig_current;
}

static CUresult reserve(struct cuda_rows *rows, const struct hw *hw, const struct cuda_device *d,
                        uint64_t bytes, unsigned int contexts)
{
    if (!is_there(&hw->gpus[d->gpu]))
        return CUDA_ERROR_DEVICE_UNAVAILABLE;
    if (contexts > 0 && !may_have_contexts(rows, hw, d->gpu))
        return CUDA_ERROR_DEVICE_UNAVAILABLE;
    if (!has_room(rows, hw, d, bytes))
        return CUDA_ERROR_OUT_OF_MEMORY;
    rows->own->contexts[d->gpu] += contexts;
    rows->own->bytes[d->gpu] += bytes;
    return CUDA_SUCCESS;
}

CUresult cuda_reserve(const struct cuda_device *d, uint64_t bytes, unsigned int contexts)
{
    const struct hw *hw = NULL;
    struct cuda_rows *rows = cuda_lock(&hw);
    CUresult rc =
        rows != NULL ? reserve(rows, hw, d, bytes, contexts) : CUDA_ERROR_OPERATING_SYSTEM;
    cuda_unlock();
    return rc;
}

void cuda_give_back(const struct cuda_device *d, uint64_t bytes, unsigned int contexts)
{
    const struct hw *hw = NULL;
    struct cuda_rows *rows = cuda_lock(&hw);
    if (rows != NULL) {
        rows->own->contexts[d->gpu] -= contexts;
        rows->own->bytes[d->gpu] -= bytes;
    }
    cuda_unlock();
}

CUresult cuda_room(const struct cuda_device *d, size_t *ret_free, size_t *ret_total)
{
    const struct hw *hw = NULL;
    struct cuda_rows *rows = cuda_lock(&hw);
    if (rows != NULL) {
        (void)cuda_rows_sweep(rows);
        *ret_free = free_bytes(rows, hw, d);
        *ret_total = total_bytes(d->model);
    }
    cuda_unlock();
    return rows != NULL ? CUDA_SUCCESS : CUDA_ERROR_OPERATING_SYSTEM;
}

CUresult cuda_gpu_now(const struct cuda_device *d, struct hw_gpu *ret)
{
    const struct hw *hw = NULL;
    struct cuda_rows *rows = cuda_lock(&hw);
    if (rows != NULL)
        *ret = hw->gpus[d->gpu];
    cuda_unlock();
    return rows != NULL ? CUDA_SUCCESS : CUDA_ERROR_OPERATING_SYSTEM;
}

/* --- Memory of several processes --- */

/* A process that is killed in here has neither: both are its own. */
bool cuda_share(const struct cuda_device *d, uint64_t bytes, struct shared_name *ret)
{
    const struct hw *hw = NULL;
    struct cuda_rows *rows = cuda_lock(&hw);
    bool done =
        rows != NULL && shared_add(&rows->file->shared, cuda_rows_own(rows), d->gpu, bytes, ret);
    if (done)
        rows->own->bytes[d->gpu] -= bytes;
    cuda_unlock();
    return done;
}

static CUresult take_anew(struct cuda_rows *rows, const struct hw *hw, const struct cuda_device *d,
                          uint64_t bytes, struct shared_name *ret)
{
    if (!is_there(&hw->gpus[d->gpu]))
        return CUDA_ERROR_DEVICE_UNAVAILABLE;
    bool done = has_room(rows, hw, d, bytes) &&
                shared_add(&rows->file->shared, cuda_rows_own(rows), d->gpu, bytes, ret);
    return done ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

static CUresult hold(struct cuda_rows *rows, const struct hw *hw, const struct cuda_device *d,
                     uint64_t bytes, struct shared_name *there, struct shared_name *ret)
{
    *ret = *there;
    (void)cuda_rows_sweep(rows);
    struct shared_piece *p = shared_find(&rows->file->shared, *ret);
    if (p == NULL) {
        CUresult rc = take_anew(rows, hw, d, bytes, ret);
        if (rc == CUDA_SUCCESS)
            *there = *ret;
        return rc;
    }
    if (p->gpu != d->gpu || p->bytes != bytes)
        return CUDA_ERROR_INVALID_VALUE;
    shared_hold(p, cuda_rows_own(rows));
    return CUDA_SUCCESS;
}

CUresult cuda_hold(const struct cuda_device *d, uint64_t bytes, struct shared_name *there,
                   struct shared_name *ret)
{
    const struct hw *hw = NULL;
    struct cuda_rows *rows = cuda_lock(&hw);
    CUresult rc = rows != NULL ? hold(rows, hw, d, bytes, there, ret) : CUDA_ERROR_OPERATING_SYSTEM;
    cuda_unlock();
    return rc;
}

static CUresult hold_of_owner(struct cuda_rows *rows, struct shared_name name,
                              struct shared_holder *ret)
{
    (void)cuda_rows_sweep(rows);
    struct shared_piece *p = shared_find(&rows->file->shared, name);
    if (p == NULL || !shared_is_held_by(p, p->owner))
        return CUDA_ERROR_INVALID_HANDLE;
    *ret = (struct shared_holder){.pid = cuda_rows_pid(rows, p->owner),
                                  .gpu = p->gpu,
                                  .bytes = p->bytes};
    shared_hold(p, cuda_rows_own(rows));
    return CUDA_SUCCESS;
}

CUresult cuda_hold_of_owner(struct shared_name name, struct shared_holder *ret)
{
    const struct hw *hw = NULL;
    struct cuda_rows *rows = cuda_lock(&hw);
    CUresult rc = rows != NULL ? hold_of_owner(rows, name, ret) : CUDA_ERROR_OPERATING_SYSTEM;
    cuda_unlock();
    return rc;
}

bool cuda_let_go(struct shared_name name)
{
    const struct hw *hw = NULL;
    struct cuda_rows *rows = cuda_lock(&hw);
    bool was_last = true;
    if (rows != NULL) {
        (void)cuda_rows_sweep(rows);
        struct shared_piece *p = shared_find(&rows->file->shared, name);
        if (p != NULL)
            was_last = shared_let_go(&rows->file->shared, p, cuda_rows_own(rows));
    }
    cuda_unlock();
    return was_last;
}
