/* SPDX-License-Identifier: Apache-2.0 */
/*
 * CUDA: copies and settings of memory. Contracts are the driver API's own.
 *
 * All of them are items of a stream. Those of a synchronous function, and those that have to do with
 * pages of the host that the driver does not know, are waited for; little memory of that kind is
 * copied away at once. A copy takes the time that it takes here, and no time of the card.
 */
#include <stdlib.h>
#include <string.h>

#include "sim/cuda_capture.h"
#include "sim/cuda_reach.h"
#include "sim/cuda_work.h"

#define STAGED 65536 /* bytes that are copied away, as the driver's documentation has it */

struct transfer {
    struct work_item item;
    uint64_t to, from;
    size_t bytes;
    bool to_pageable, from_pageable; /* the program's own pages */
    unsigned int width;              /* of a setting: bytes of the value; 0: a copy */
    uint32_t value;
    char staged[];
};

/* --- Doing it --- */

/* What it is about may have been freed since. */
static bool is_still_there(const struct transfer *t)
{
    return (t->to_pageable || reach_knows(t->to, t->bytes, /* writes= */ true)) &&
           (t->width > 0 || t->from_pageable ||
            reach_knows(t->from, t->bytes, /* writes= */ false));
}

static CUresult perform(struct work_item *item, int64_t *at_ns)
{
    const struct transfer *t = (const struct transfer *)item;
    if (!is_still_there(t))
        return CUDA_ERROR_ILLEGAL_ADDRESS;
    if (t->width > 0)
        reach_fill((void *)(uintptr_t)t->to, t->width, t->value, t->bytes);
    else
        memmove((void *)(uintptr_t)t->to, (const void *)(uintptr_t)t->from, t->bytes);
    *at_ns = timeslices_now();
    return CUDA_SUCCESS;
}

static CUresult submit(struct stream *s, const struct transfer *as, bool stage, bool waits)
{
    struct transfer *t = malloc(sizeof(*t) + (stage ? as->bytes : 0));
    if (t == NULL)
        return CUDA_ERROR_OUT_OF_MEMORY;
    *t = *as;
    t->item = (struct work_item){
        .kind = WORK_INSTANT,
        .perform = perform,
        .bytes = sizeof(*t),
        .node_type = as->width > 0 ? CU_GRAPH_NODE_TYPE_MEMSET : CU_GRAPH_NODE_TYPE_MEMCPY,
    };
    if (stage) {
        memcpy(t->staged, (const void *)(uintptr_t)as->from, as->bytes);
        t->from = (uintptr_t)t->staged;
    }
    bool is_done = s->capture == NULL;
    CUresult rc = work_submit(s, &t->item);
    return rc == CUDA_SUCCESS && waits && is_done ? work_wait_stream(s) : rc;
}

/* --- Copies --- */

struct way {
    enum side to, from;
    bool is_async;
};

static CUresult copy_in(struct stream *s, const struct way *way, struct transfer *t)
{
    if (!reach_find(t->to, t->bytes, way->to, /* writes= */ true, &t->to_pageable) ||
        !reach_find(t->from, t->bytes, way->from, /* writes= */ false, &t->from_pageable))
        return CUDA_ERROR_INVALID_VALUE;
    bool stage = way->is_async && t->from_pageable && !t->to_pageable && t->bytes <= STAGED &&
                 s->capture == NULL;
    bool within = range_find(t->to) != NULL && range_find(t->from) != NULL;
    bool waits = way->is_async ? (t->to_pageable || t->from_pageable) && !stage : !within;
    return submit(s, t, stage, waits);
}

static CUresult copy(unsigned int call, const struct way *way, uint64_t to, uint64_t from,
                     size_t bytes, CUstream stream)
{
    struct cuda_call c = {.id = call};
    struct cuda_context *context = NULL;
    struct stream *s = NULL;
    struct transfer t = {.to = to, .from = from, .bytes = bytes};
    CUresult rc = work_enter(&c, stream, &context, &s);
    if (rc == CUDA_SUCCESS && !way->is_async)
        rc = capture_check_wait(s);
    if (rc == CUDA_SUCCESS && bytes > 0)
        rc = copy_in(s, way, &t);
    return context_leave(&c, context, rc);
}

static const struct way to_device = {.to = SIDE_DEVICE, .from = SIDE_HOST};
static const struct way to_host = {.to = SIDE_HOST, .from = SIDE_DEVICE};
static const struct way on_device = {.to = SIDE_DEVICE, .from = SIDE_DEVICE};
static const struct way anywhere = {.to = SIDE_EITHER, .from = SIDE_EITHER};
static const struct way to_device_async = {.to = SIDE_DEVICE, .from = SIDE_HOST, .is_async = true};
static const struct way to_host_async = {.to = SIDE_HOST, .from = SIDE_DEVICE, .is_async = true};
static const struct way on_device_async = {.to = SIDE_DEVICE,
                                           .from = SIDE_DEVICE,
                                           .is_async = true};
static const struct way anywhere_async = {.to = SIDE_EITHER, .from = SIDE_EITHER, .is_async = true};

CUresult cuMemcpyHtoD_v2(CUdeviceptr to, const void *from, size_t bytes)
{
    return copy(CALL_cuMemcpyHtoD_v2, &to_device, to, (uintptr_t)from, bytes, NULL);
}

CUresult cuMemcpyHtoD_v2_ptds(CUdeviceptr to, const void *from, size_t bytes)
{
    return copy(CALL_cuMemcpyHtoD_v2_ptds, &to_device, to, (uintptr_t)from, bytes,
                CU_STREAM_PER_THREAD);
}

CUresult cuMemcpyDtoH_v2(void *to, CUdeviceptr from, size_t bytes)
{
    return copy(CALL_cuMemcpyDtoH_v2, &to_host, (uintptr_t)to, from, bytes, NULL);
}

CUresult cuMemcpyDtoH_v2_ptds(void *to, CUdeviceptr from, size_t bytes)
{
    return copy(CALL_cuMemcpyDtoH_v2_ptds, &to_host, (uintptr_t)to, from, bytes,
                CU_STREAM_PER_THREAD);
}

CUresult cuMemcpyDtoD_v2(CUdeviceptr to, CUdeviceptr from, size_t bytes)
{
    return copy(CALL_cuMemcpyDtoD_v2, &on_device, to, from, bytes, NULL);
}

CUresult cuMemcpyDtoD_v2_ptds(CUdeviceptr to, CUdeviceptr from, size_t bytes)
{
    return copy(CALL_cuMemcpyDtoD_v2_ptds, &on_device, to, from, bytes, CU_STREAM_PER_THREAD);
}

CUresult cuMemcpy(CUdeviceptr to, CUdeviceptr from, size_t bytes)
{
    return copy(CALL_cuMemcpy, &anywhere, to, from, bytes, NULL);
}

CUresult cuMemcpy_ptds(CUdeviceptr to, CUdeviceptr from, size_t bytes)
{
    return copy(CALL_cuMemcpy_ptds, &anywhere, to, from, bytes, CU_STREAM_PER_THREAD);
}

CUresult cuMemcpyHtoDAsync_v2(CUdeviceptr to, const void *from, size_t bytes, CUstream stream)
{
    return copy(CALL_cuMemcpyHtoDAsync_v2, &to_device_async, to, (uintptr_t)from, bytes, stream);
}

CUresult cuMemcpyHtoDAsync_v2_ptsz(CUdeviceptr to, const void *from, size_t bytes, CUstream stream)
{
    return copy(CALL_cuMemcpyHtoDAsync_v2_ptsz, &to_device_async, to, (uintptr_t)from, bytes,
                work_own_stream(stream));
}

CUresult cuMemcpyDtoHAsync_v2(void *to, CUdeviceptr from, size_t bytes, CUstream stream)
{
    return copy(CALL_cuMemcpyDtoHAsync_v2, &to_host_async, (uintptr_t)to, from, bytes, stream);
}

CUresult cuMemcpyDtoHAsync_v2_ptsz(void *to, CUdeviceptr from, size_t bytes, CUstream stream)
{
    return copy(CALL_cuMemcpyDtoHAsync_v2_ptsz, &to_host_async, (uintptr_t)to, from, bytes,
                work_own_stream(stream));
}

CUresult cuMemcpyDtoDAsync_v2(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream)
{
    return copy(CALL_cuMemcpyDtoDAsync_v2, &on_device_async, to, from, bytes, stream);
}

CUresult cuMemcpyDtoDAsync_v2_ptsz(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream)
{
    return copy(CALL_cuMemcpyDtoDAsync_v2_ptsz, &on_device_async, to, from, bytes,
                work_own_stream(stream));
}

CUresult cuMemcpyAsync(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream)
{
    return copy(CALL_cuMemcpyAsync, &anywhere_async, to, from, bytes, stream);
}

CUresult cuMemcpyAsync_ptsz(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream)
{
    return copy(CALL_cuMemcpyAsync_ptsz, &anywhere_async, to, from, bytes, work_own_stream(stream));
}

/* --- Settings: the program waits for none of device memory --- */

static CUresult set_in(struct stream *s, struct transfer *t, size_t count)
{
    if (__builtin_mul_overflow(count, t->width, &t->bytes) || t->to % t->width != 0)
        return CUDA_ERROR_INVALID_VALUE;
    if (!reach_knows(t->to, t->bytes, /* writes= */ true))
        return CUDA_ERROR_INVALID_VALUE;
    return submit(s, t, /* stage= */ false, /* waits= */ range_find(t->to) == NULL);
}

static CUresult set_memory(unsigned int call, uint64_t to, uint32_t value, unsigned int width,
                           size_t count, CUstream stream)
{
    struct cuda_call c = {.id = call};
    struct cuda_context *context = NULL;
    struct stream *s = NULL;
    struct transfer t = {.to = to, .width = width, .value = value};
    CUresult rc = work_enter(&c, stream, &context, &s);
    if (rc == CUDA_SUCCESS && count > 0)
        rc = set_in(s, &t, count);
    return context_leave(&c, context, rc);
}

CUresult cuMemsetD8_v2(CUdeviceptr to, unsigned char value, size_t count)
{
    return set_memory(CALL_cuMemsetD8_v2, to, value, 1, count, NULL);
}

CUresult cuMemsetD8_v2_ptds(CUdeviceptr to, unsigned char value, size_t count)
{
    return set_memory(CALL_cuMemsetD8_v2_ptds, to, value, 1, count, CU_STREAM_PER_THREAD);
}

CUresult cuMemsetD16_v2(CUdeviceptr to, unsigned short value, size_t count)
{
    return set_memory(CALL_cuMemsetD16_v2, to, value, 2, count, NULL);
}

CUresult cuMemsetD16_v2_ptds(CUdeviceptr to, unsigned short value, size_t count)
{
    return set_memory(CALL_cuMemsetD16_v2_ptds, to, value, 2, count, CU_STREAM_PER_THREAD);
}

CUresult cuMemsetD32_v2(CUdeviceptr to, unsigned int value, size_t count)
{
    return set_memory(CALL_cuMemsetD32_v2, to, value, 4, count, NULL);
}

CUresult cuMemsetD32_v2_ptds(CUdeviceptr to, unsigned int value, size_t count)
{
    return set_memory(CALL_cuMemsetD32_v2_ptds, to, value, 4, count, CU_STREAM_PER_THREAD);
}

CUresult cuMemsetD8Async(CUdeviceptr to, unsigned char value, size_t count, CUstream stream)
{
    return set_memory(CALL_cuMemsetD8Async, to, value, 1, count, stream);
}

CUresult cuMemsetD8Async_ptsz(CUdeviceptr to, unsigned char value, size_t count, CUstream stream)
{
    return set_memory(CALL_cuMemsetD8Async_ptsz, to, value, 1, count, work_own_stream(stream));
}

CUresult cuMemsetD16Async(CUdeviceptr to, unsigned short value, size_t count, CUstream stream)
{
    return set_memory(CALL_cuMemsetD16Async, to, value, 2, count, stream);
}

CUresult cuMemsetD16Async_ptsz(CUdeviceptr to, unsigned short value, size_t count, CUstream stream)
{
    return set_memory(CALL_cuMemsetD16Async_ptsz, to, value, 2, count, work_own_stream(stream));
}

CUresult cuMemsetD32Async(CUdeviceptr to, unsigned int value, size_t count, CUstream stream)
{
    return set_memory(CALL_cuMemsetD32Async, to, value, 4, count, stream);
}

CUresult cuMemsetD32Async_ptsz(CUdeviceptr to, unsigned int value, size_t count, CUstream stream)
{
    return set_memory(CALL_cuMemsetD32Async_ptsz, to, value, 4, count, work_own_stream(stream));
}
