/* SPDX-License-Identifier: Apache-2.0 */
/*
 * CUDA: limits of contexts. Contracts are the driver API's own.
 *
 * Assumed: a context's own memory has room for the defaults, and a larger limit takes the difference at
 * once, in whole granules, for all threads that fit on the card: a driver takes some of it when a kernel
 * first needs it.
 */
#include <stdlib.h>

#include "sim/cuda_chunk.h"
#include "sim/cuda_traits.h"
#include "sim/cuda_work.h"

#define MIB UINT64_C(1048576)

/* Assumed, from the programming guide: memory for a level of nested grids, and for one that is
 * pending. */
#define LEVEL_BYTES   (150 * MIB)
#define PENDING_BYTES UINT64_C(4096)

struct limit {
    size_t standard;                       /* of each context */
    size_t most;                           /* what is more is refused, ... */
    bool is_hint;                          /* ... or, of a hint, taken for this */
    unsigned int since_major, until_major; /* compute capabilities that have it */
};

/* The first ones of CU_LIMIT_..., which can be set. */
static const struct limit known[] = {
    [CU_LIMIT_STACK_SIZE] = {1024, 512 << 10, false, 0, 99},
    [CU_LIMIT_PRINTF_FIFO_SIZE] = {1 << 20, SIZE_MAX / 2, false, 0, 99},
    [CU_LIMIT_MALLOC_HEAP_SIZE] = {8 << 20, SIZE_MAX / 2, false, 0, 99},
    [CU_LIMIT_DEV_RUNTIME_SYNC_DEPTH] = {2, 24, false, 0, 8},
    [CU_LIMIT_DEV_RUNTIME_PENDING_LAUNCH_COUNT] = {2048, INT32_MAX, false, 0, 99},
    [CU_LIMIT_MAX_L2_FETCH_GRANULARITY] = {64, 128, true, 8, 99},
    [CU_LIMIT_PERSISTING_L2_CACHE_SIZE] = {0, SIZE_MAX / 2, true, 8, 99},
};

#define LIMITS (sizeof(known) / sizeof(known[0]))

struct limits {
    struct context_part part;
    struct cuda_context *context;
    size_t values[LIMITS];
    uint64_t bytes; /* beyond a context's own */
};

static bool has(const struct cuda_context *context, int which)
{
    unsigned int major = context->arena.device->model->cc_major;
    return which >= 0 && which < (int)LIMITS && major >= known[which].since_major &&
           major <= known[which].until_major;
}

static void end_part(struct context_part *part)
{
    struct limits *l = (struct limits *)part;
    cuda_give_back(l->context->arena.device, l->bytes, 0);
    l->context->limits = NULL;
    free(l);
}

/* A context's limits, which it gets when one is set. */
static struct limits *limits_of(struct cuda_context *context)
{
    if (context->limits != NULL)
        return context->limits;
    struct limits *l = calloc(1, sizeof(*l));
    if (l == NULL)
        return NULL;
    *l = (struct limits){.part.end = end_part, .context = context};
    for (size_t i = 0; i < LIMITS; i++)
        l->values[i] = known[i].standard;
    context->limits = l;
    context_add_part(context, &l->part);
    return l;
}

/* --- Memory --- */

static uint64_t unit_of(const struct cuda_device *d, size_t which)
{
    switch (which) {
    case CU_LIMIT_STACK_SIZE:
        return (uint64_t)d->model->sms * traits_of(d->model)->threads_per_sm;
    case CU_LIMIT_PRINTF_FIFO_SIZE:
    case CU_LIMIT_MALLOC_HEAP_SIZE:
        return 1;
    case CU_LIMIT_DEV_RUNTIME_SYNC_DEPTH:
        return LEVEL_BYTES;
    case CU_LIMIT_DEV_RUNTIME_PENDING_LAUNCH_COUNT:
        return PENDING_BYTES;
    default:
        return 0;
    }
}

/* False: more than any number says. */
static bool add_bytes(const struct cuda_device *d, size_t which, size_t value, uint64_t *sum)
{
    uint64_t bytes = 0;
    uint64_t more = value > known[which].standard ? value - known[which].standard : 0;
    if (__builtin_mul_overflow(more, unit_of(d, which), &bytes) || bytes > SIZE_MAX / 2)
        return false;
    return !__builtin_add_overflow(*sum, arena_round_up(bytes, CHUNK_GRANULE), sum);
}

static bool find_bytes(const struct limits *l, uint64_t *ret)
{
    bool good = true;
    *ret = 0;
    for (size_t i = 0; good && i < LIMITS; i++)
        good = add_bytes(l->context->arena.device, i, l->values[i], ret);
    return good;
}

static CUresult take(struct limits *l)
{
    const struct cuda_device *d = l->context->arena.device;
    uint64_t bytes = 0;
    if (!find_bytes(l, &bytes))
        return CUDA_ERROR_OUT_OF_MEMORY;
    CUresult rc = bytes > l->bytes ? cuda_reserve(d, bytes - l->bytes, 0) : CUDA_SUCCESS;
    if (rc != CUDA_SUCCESS)
        return rc;
    if (bytes < l->bytes)
        cuda_give_back(d, l->bytes - bytes, 0);
    l->bytes = bytes;
    return CUDA_SUCCESS;
}

/* --- Setting and asking --- */

/* Stacks are in units of 16 bytes. */
static CUresult find_value(const struct model *m, int which, size_t asked, size_t *ret)
{
    const struct limit *k = &known[which];
    size_t most =
        which == CU_LIMIT_PERSISTING_L2_CACHE_SIZE ? traits_persisting_l2_bytes(m) : k->most;
    if (asked > most && !k->is_hint)
        return CUDA_ERROR_INVALID_VALUE;
    *ret = asked < most ? asked : most;
    if (which == CU_LIMIT_STACK_SIZE)
        *ret = arena_round_up(*ret, 16);
    return CUDA_SUCCESS;
}

static CUresult set(struct cuda_context *context, int which, size_t asked)
{
    size_t value = 0;
    if (!has(context, which))
        return CUDA_ERROR_UNSUPPORTED_LIMIT;
    CUresult rc = find_value(context->arena.device->model, which, asked, &value);
    struct limits *l = rc == CUDA_SUCCESS ? limits_of(context) : NULL;
    if (l == NULL)
        return rc == CUDA_SUCCESS ? CUDA_ERROR_OUT_OF_MEMORY : rc;
    size_t before = l->values[which];
    l->values[which] = value;
    rc = take(l);
    if (rc != CUDA_SUCCESS)
        l->values[which] = before;
    return rc;
}

/* Waits for the context's work. */
CUresult cuCtxSetLimit(int limit, size_t value)
{
    struct cuda_call c = {.id = CALL_cuCtxSetLimit};
    struct cuda_context *context = NULL;
    CUresult rc = context_enter(&c, &context);
    if (rc == CUDA_SUCCESS)
        rc = work_wait_context(context);
    if (rc == CUDA_SUCCESS)
        rc = set(context, limit, value);
    cuda_args(&c, "%d %zu", limit, value);
    return context_leave(&c, context, rc);
}

static CUresult get(const struct cuda_context *context, int which, size_t *ret)
{
    bool is_graphics =
        which == CU_LIMIT_CIG_ENABLED || which == CU_LIMIT_CIG_SHMEM_FALLBACK_ENABLED;
    if (!is_graphics && !has(context, which))
        return CUDA_ERROR_UNSUPPORTED_LIMIT;
    if (is_graphics)
        *ret = 0;
    else
        *ret = context->limits != NULL ? context->limits->values[which] : known[which].standard;
    return CUDA_SUCCESS;
}

/* Of limits for contexts in graphics it is told that this is none. */
CUresult cuCtxGetLimit(size_t *value, int limit)
{
    struct cuda_call c = {.id = CALL_cuCtxGetLimit};
    struct cuda_context *context = NULL;
    CUresult rc = context_enter(&c, &context);
    if (rc == CUDA_SUCCESS)
        rc = value != NULL ? get(context, limit, value) : CUDA_ERROR_INVALID_VALUE;
    return context_leave(&c, context, rc);
}
