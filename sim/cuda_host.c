/* SPDX-License-Identifier: Apache-2.0 */
/* CUDA: memory of the host. Contracts are the driver API's own. */
#include "sim/cuda_host.h"

#include <search.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "sim/cuda_work.h"

#define ALLOC_FLAGS    7U
#define REGISTER_FLAGS 15U

/* By their addresses. */
static void *ranges;

/* Equal where they overlap. */
static int compare(const void *a, const void *b)
{
    const struct host_range *x = a;
    const struct host_range *y = b;
    if ((uintptr_t)x->base + x->bytes <= (uintptr_t)y->base)
        return -1;
    return (uintptr_t)y->base + y->bytes <= (uintptr_t)x->base;
}

static struct host_range *find(uint64_t address, size_t bytes)
{
    const struct host_range key = {.base = (char *)(uintptr_t)address, .bytes = bytes};
    struct host_range *const *found = tfind(&key, &ranges, compare);
    return found != NULL ? *found : NULL;
}

const struct host_range *host_find(uint64_t address)
{
    return find(address, 1);
}

static void end_range(struct host_range *r)
{
    (void)tdelete(r, &ranges, compare);
    if (r->is_own)
        (void)munmap(r->base, r->bytes);
    free(r);
}

static void end_part(struct context_part *part)
{
    end_range((struct host_range *)part);
}

static CUresult add(struct cuda_context *context, const struct host_range *range)
{
    struct host_range *r = malloc(sizeof(*r));
    if (r == NULL)
        return CUDA_ERROR_OUT_OF_MEMORY;
    *r = *range;
    r->part.end = end_part;
    r->context = context;
    context_add_part(context, &r->part);
    (void)tsearch(r, &ranges, compare);
    return CUDA_SUCCESS;
}

/* --- Memory of the driver's own --- */

static CUresult allocate(struct cuda_context *context, void **ret, size_t bytes, unsigned int flags)
{
    if (ret == NULL || bytes == 0 || (flags & ~ALLOC_FLAGS) != 0)
        return CUDA_ERROR_INVALID_VALUE;
    void *at = mmap(/* addr= */ NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
                    /* fd= */ -1, 0);
    if (at == MAP_FAILED)
        return CUDA_ERROR_OUT_OF_MEMORY;
    const struct host_range r = {.base = at, .bytes = bytes, .flags = flags, .is_own = true};
    CUresult rc = add(context, &r);
    if (rc == CUDA_SUCCESS)
        *ret = at;
    else
        (void)munmap(at, bytes);
    return rc;
}

static CUresult allocate_in(unsigned int call, void **pointer, size_t bytes, unsigned int flags)
{
    struct cuda_call c = {.id = call};
    struct cuda_context *context = NULL;
    CUresult rc = context_enter(&c, &context);
    if (rc == CUDA_SUCCESS)
        rc = allocate(context, pointer, bytes, flags);
    cuda_args(&c, "%zu", bytes);
    return context_leave(&c, context, rc);
}

CUresult cuMemAllocHost_v2(void **pointer, size_t bytes)
{
    return allocate_in(CALL_cuMemAllocHost_v2, pointer, bytes, 0);
}

CUresult cuMemHostAlloc(void **pointer, size_t bytes, unsigned int flags)
{
    return allocate_in(CALL_cuMemHostAlloc, pointer, bytes, flags);
}

/* Ends a range, when the context's work is done; `otherwise` where there is none of that kind. */
static CUresult end_at(unsigned int call, void *pointer, bool is_own, CUresult otherwise)
{
    struct cuda_call c = {.id = call};
    struct cuda_context *context = NULL;
    CUresult rc = context_enter(&c, &context);
    if (rc == CUDA_SUCCESS)
        rc = work_wait_context(context);
    struct host_range *r = rc == CUDA_SUCCESS ? find((uintptr_t)pointer, 1) : NULL;
    if (rc == CUDA_SUCCESS && (r == NULL || r->base != pointer || r->is_own != is_own))
        rc = otherwise;
    if (rc == CUDA_SUCCESS) {
        context_remove_part(&r->part);
        end_range(r);
    }
    return context_leave(&c, context, rc);
}

CUresult cuMemFreeHost(void *pointer)
{
    return end_at(CALL_cuMemFreeHost, pointer, /* is_own= */ true, CUDA_ERROR_INVALID_VALUE);
}

/* --- A program's memory --- */

static bool is_mapped(const char *base, size_t bytes)
{
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    uintptr_t from = (uintptr_t)base / page * page;
    return msync((void *)from, (uintptr_t)base + bytes - from, MS_ASYNC) == 0;
}

static CUresult add_foreign(struct cuda_context *context, void *pointer, size_t bytes,
                            unsigned int flags)
{
    if (pointer == NULL || bytes == 0 || (flags & ~REGISTER_FLAGS) != 0)
        return CUDA_ERROR_INVALID_VALUE;
    if (bytes > UINTPTR_MAX - (uintptr_t)pointer || !is_mapped(pointer, bytes))
        return CUDA_ERROR_INVALID_VALUE;
    if (find((uintptr_t)pointer, bytes) != NULL)
        return CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED;
    const struct host_range r = {.base = pointer, .bytes = bytes, .flags = flags};
    return add(context, &r);
}

CUresult cuMemHostRegister_v2(void *pointer, size_t bytes, unsigned int flags)
{
    struct cuda_call c = {.id = CALL_cuMemHostRegister_v2};
    struct cuda_context *context = NULL;
    CUresult rc = context_enter(&c, &context);
    if (rc == CUDA_SUCCESS)
        rc = add_foreign(context, pointer, bytes, flags);
    return context_leave(&c, context, rc);
}

CUresult cuMemHostUnregister(void *pointer)
{
    return end_at(CALL_cuMemHostUnregister, pointer, /* is_own= */ false,
                  CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED);
}

/* --- Asking --- */

/* The card has it at the same address. */
CUresult cuMemHostGetDevicePointer_v2(CUdeviceptr *pointer, void *host, unsigned int flags)
{
    struct cuda_call c = {.id = CALL_cuMemHostGetDevicePointer_v2};
    struct cuda_context *context = NULL;
    CUresult rc = context_enter(&c, &context);
    if (rc == CUDA_SUCCESS && (pointer == NULL || flags != 0 || host_find((uintptr_t)host) == NULL))
        rc = CUDA_ERROR_INVALID_VALUE;
    if (rc == CUDA_SUCCESS)
        *pointer = (uintptr_t)host;
    return context_leave(&c, context, rc);
}

CUresult cuMemHostGetFlags(unsigned int *flags, void *host)
{
    struct cuda_call c = {.id = CALL_cuMemHostGetFlags};
    struct cuda_context *context = NULL;
    CUresult rc = context_enter(&c, &context);
    const struct host_range *r = rc == CUDA_SUCCESS ? host_find((uintptr_t)host) : NULL;
    if (rc == CUDA_SUCCESS && (flags == NULL || r == NULL))
        rc = CUDA_ERROR_INVALID_VALUE;
    if (rc == CUDA_SUCCESS)
        *flags = r->flags | CU_MEMHOSTALLOC_DEVICEMAP;
    return context_leave(&c, context, rc);
}
