/* SPDX-License-Identifier: Apache-2.0 */
/* CUDA: settings of memory in rows. Contracts are the driver API's own. They are items of a stream, as
 * all settings are (cuda_copy.c). */
#include <stdlib.h>

#include "sim/cuda_graph_items.h"
#include "sim/cuda_reach.h"
#include "sim/cuda_work.h"

struct rows {
    struct work_item item;
    uint64_t to;
    size_t pitch, bytes, height; /* bytes of a row that are set */
    unsigned int width;          /* bytes of the value */
    uint32_t value;
};

/* Bytes from the first that is set to the last. */
static bool find_span(const struct rows *r, size_t *ret)
{
    size_t before = 0;
    return !__builtin_mul_overflow(r->height - 1, r->pitch, &before) &&
           !__builtin_add_overflow(before, r->bytes, ret);
}

static bool is_there(const struct rows *r)
{
    size_t span = 0;
    if (r->height > 1 && r->pitch < r->bytes)
        return false;
    return find_span(r, &span) && reach_knows(r->to, span, /* writes= */ true);
}

/* What it is about may have been freed since. */
static CUresult perform(struct work_item *item, int64_t *at_ns)
{
    const struct rows *r = (const struct rows *)item;
    if (!is_there(r))
        return CUDA_ERROR_ILLEGAL_ADDRESS;
    for (size_t i = 0; i < r->height; i++)
        reach_fill((void *)(uintptr_t)(r->to + i * r->pitch), r->width, r->value, r->bytes);
    *at_ns = timeslices_now();
    return CUDA_SUCCESS;
}

static struct rows *new_rows(const struct rows *as)
{
    struct rows *r = malloc(sizeof(*r));
    if (r == NULL)
        return NULL;
    *r = *as;
    r->item = (struct work_item){.kind = WORK_INSTANT,
                                 .perform = perform,
                                 .bytes = sizeof(*r),
                                 .node_type = CU_GRAPH_NODE_TYPE_MEMSET};
    return r;
}

/* The pitch of a single row says nothing. */
static bool is_good(struct rows *r, size_t count)
{
    return !__builtin_mul_overflow(count, r->width, &r->bytes) && r->to % r->width == 0 &&
           (r->height <= 1 || r->pitch % r->width == 0) && is_there(r);
}

static CUresult set_in(struct stream *s, struct rows *r, size_t count)
{
    if (count == 0 || r->height == 0)
        return CUDA_SUCCESS;
    if (!is_good(r, count))
        return CUDA_ERROR_INVALID_VALUE;
    struct rows *made = new_rows(r);
    return made != NULL ? work_submit(s, &made->item) : CUDA_ERROR_OUT_OF_MEMORY;
}

/* A node sets something. */
CUresult items_of_setting(const CUDA_MEMSET_NODE_PARAMS_v1 *params, struct work_item **ret)
{
    struct rows r = {.to = params->dst,
                     .pitch = params->pitch,
                     .height = params->height,
                     .width = params->elementSize,
                     .value = params->value};
    bool is_width = r.width == 1 || r.width == 2 || r.width == 4;
    if (!is_width || params->width == 0 || r.height == 0 || !is_good(&r, params->width))
        return CUDA_ERROR_INVALID_VALUE;
    struct rows *made = new_rows(&r);
    *ret = made != NULL ? &made->item : NULL;
    return made != NULL ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

static CUresult set(unsigned int call, struct rows *r, size_t count, CUstream stream)
{
    struct cuda_call c = {.id = call};
    struct cuda_context *context = NULL;
    struct stream *s = NULL;
    CUresult rc = work_enter(&c, stream, &context, &s);
    if (rc == CUDA_SUCCESS)
        rc = set_in(s, r, count);
    return context_leave(&c, context, rc);
}

/* The four forms of one width: for the legacy default stream, for that of each thread, and in a
 * stream. */
#define FORM(symbol, type, bytes, stream, ...)                                                     \
    CUresult symbol(CUdeviceptr to, size_t pitch, type value, size_t width,                        \
                    size_t height __VA_ARGS__)                                                     \
    {                                                                                              \
        struct rows r = {.to = to,                                                                 \
                         .pitch = pitch,                                                           \
                         .height = height,                                                         \
                         .width = (bytes),                                                         \
                         .value = value};                                                          \
        return set(CALL_##symbol, &r, width, stream);                                              \
    }
#define FORMS(name, type, bytes)                                                                   \
    FORM(name##_v2, type, bytes, NULL)                                                             \
    FORM(name##_v2_ptds, type, bytes, CU_STREAM_PER_THREAD)                                        \
    FORM(name##Async, type, bytes, stream, , CUstream stream)                                      \
    FORM(name##Async_ptsz, type, bytes, work_own_stream(stream), , CUstream stream)

FORMS(cuMemsetD2D8, unsigned char, 1)
FORMS(cuMemsetD2D16, unsigned short, 2)
FORMS(cuMemsetD2D32, unsigned int, 4)
