/* SPDX-License-Identifier: Apache-2.0 */
/* What is not to be done in streams while something is captured. */
#include "sim/cuda_capture.h"

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
            s->capture->mode.is_valid = false;
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
    return rc == CUDA_SUCCESS ? capture_mode_check() : rc;
}

CUresult capture_check_context(const struct cuda_context *context)
{
    const struct work *w = context->work;
    if (w == NULL || !has_captured(w, /* only_blocking= */ false))
        return capture_mode_check();
    invalidate_all(w, /* only_blocking= */ false);
    return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
}
