/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Assumed, from what CUDA's documentation and programs say of it: which calls are unsafe, so that the
 * modes of captures decide about them. They are those that take and free memory at once, load code, and
 * look at how far work is.
 */
#include "sim/cuda_capture_mode.h"

static struct capture_mode *captures;

static _Thread_local int thread_mode = CU_STREAM_CAPTURE_MODE_GLOBAL;

static const bool unsafe_calls[CALL_COUNT] = {
    [CALL_cuMemAlloc_v2] = true,          [CALL_cuMemAllocPitch_v2] = true,
    [CALL_cuMemFree_v2] = true,           [CALL_cuMemAllocManaged] = true,
    [CALL_cuMemAllocHost_v2] = true,      [CALL_cuMemHostAlloc] = true,
    [CALL_cuMemFreeHost] = true,          [CALL_cuMemHostRegister_v2] = true,
    [CALL_cuMemHostUnregister] = true,    [CALL_cuArrayCreate_v2] = true,
    [CALL_cuArray3DCreate_v2] = true,     [CALL_cuArrayDestroy] = true,
    [CALL_cuMipmappedArrayCreate] = true, [CALL_cuMipmappedArrayDestroy] = true,
    [CALL_cuModuleLoad] = true,           [CALL_cuModuleLoadData] = true,
    [CALL_cuModuleLoadDataEx] = true,     [CALL_cuModuleLoadFatBinary] = true,
    [CALL_cuModuleUnload] = true,         [CALL_cuCtxSetLimit] = true,
    [CALL_cuIpcOpenMemHandle] = true,     [CALL_cuIpcOpenMemHandle_v2] = true,
    [CALL_cuIpcCloseMemHandle] = true,
};

void capture_mode_begin(struct capture_mode *m)
{
    m->next = captures;
    captures = m;
}

void capture_mode_end(const struct capture_mode *m)
{
    struct capture_mode **at = &captures;
    while (*at != m)
        at = &(*at)->next;
    *at = m->next;
}

int capture_mode_exchange(int mode)
{
    int before = thread_mode;
    thread_mode = mode;
    return before;
}

/* It is this thread's own, or all threads are to mind it. */
static bool prohibits(const struct capture_mode *m)
{
    bool is_everyones =
        thread_mode == CU_STREAM_CAPTURE_MODE_GLOBAL && m->mode == CU_STREAM_CAPTURE_MODE_GLOBAL;
    bool is_own = m->thread == cuda_thread() && m->mode != CU_STREAM_CAPTURE_MODE_RELAXED;
    return is_own || is_everyones;
}

CUresult capture_mode_check(void)
{
    CUresult rc = CUDA_SUCCESS;
    if (thread_mode == CU_STREAM_CAPTURE_MODE_RELAXED)
        return rc;
    for (struct capture_mode *m = captures; m != NULL; m = m->next) {
        if (!prohibits(m))
            continue;
        m->is_valid = false;
        rc = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    }
    return rc;
}

CUresult capture_mode_check_call(unsigned int call)
{
    return unsafe_calls[call] ? capture_mode_check() : CUDA_SUCCESS;
}
