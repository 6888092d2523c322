/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is not to be done while something is captured.
 *
 * Assumed, from what CUDA's documentation and programs say of it: which calls are unsafe, so that the
 * modes of captures decide about them. They are those that take and free memory at once, load code, and
 * look at how far work is.
 */
#include "sim/cuda_capture.h"

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

CUresult capture_check_call(unsigned int call)
{
    return unsafe_calls[call] ? capture_check_unsafe() : CUDA_SUCCESS;
}

static bool is_blocking(const struct stream *s)
{
    return (s->flags & CU_STREAM_NON_BLOCKING) == 0;
}

static bool is_meant(const struct stream *s, bool only_blocking)
{
    return s->capture != NULL && (is_blocking(s) || !only_blocking);
}

/* Are streams of a context captured? */
static bool has_captured(const struct work *w, bool only_blocking)
{
    for (const struct stream *s = w->streams; s != NULL; s = s->next) {
        if (is_meant(s, only_blocking))
            return true;
    }
    return false;
}

static void invalidate_all(const struct work *w, bool only_blocking)
{
    for (const struct stream *s = w->streams; s != NULL; s = s->next) {
        if (is_meant(s, only_blocking))
            s->capture->is_valid = false;
    }
}

bool capture_bars_legacy(const struct stream *s)
{
    return s == &s->work->legacy && has_captured(s->work, /* only_blocking= */ true);
}

CUresult capture_check_legacy(const struct stream *s)
{
    if (!capture_bars_legacy(s))
        return CUDA_SUCCESS;
    invalidate_all(s->work, /* only_blocking= */ true);
    return CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
}

CUresult capture_check_wait(const struct stream *s)
{
    CUresult rc = capture_check_legacy(s);
    if (rc == CUDA_SUCCESS && s->capture != NULL)
        rc = capture_refuse(s);
    return rc == CUDA_SUCCESS ? capture_check_unsafe() : rc;
}

CUresult capture_check_context(const struct cuda_context *context)
{
    const struct work *w = context->work;
    if (w == NULL || !has_captured(w, /* only_blocking= */ false))
        return capture_check_unsafe();
    invalidate_all(w, /* only_blocking= */ false);
    return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
}
