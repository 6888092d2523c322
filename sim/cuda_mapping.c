/* SPDX-License-Identifier: Apache-2.0 */
/* CUDA: addresses for physical memory. Contracts are the driver API's own. */
#include "sim/cuda_mapping.h"

#include <assert.h>
#include <search.h>
#include <stdlib.h>

#include "sim/cuda_address.h"
#include "sim/cuda_work.h"

#define PAGE 4096U

/* By their addresses. */
static void *reservations;

/* Equal where they overlap. */
static int compare(const void *a, const void *b)
{
    const struct reservation *x = a;
    const struct reservation *y = b;
    if (x->base + x->bytes <= y->base)
        return -1;
    return y->base + y->bytes <= x->base;
}

static struct reservation *find_reservation(CUdeviceptr pointer)
{
    const struct reservation key = {.base = pointer, .bytes = 1};
    struct reservation *const *found =
        pointer != UINT64_MAX ? tfind(&key, &reservations, compare) : NULL;
    return found != NULL ? *found : NULL;
}

const struct reservation *mapping_find_reservation(CUdeviceptr pointer)
{
    return find_reservation(pointer);
}

/* --- Reserving --- */

static CUresult reserve(CUdeviceptr *ret, size_t bytes, size_t alignment, CUdeviceptr hint)
{
    struct reservation *r = calloc(1, sizeof(*r));
    char *at = r != NULL ? address_reserve(bytes, alignment, hint, /* low= */ false) : NULL;
    if (at == NULL) {
        free(r);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    *r = (struct reservation){.base = (uintptr_t)at, .bytes = bytes};
    if (tsearch(r, &reservations, compare) == NULL) {
        address_release(at, bytes);
        free(r);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    *ret = r->base;
    return CUDA_SUCCESS;
}

/* By default the addresses begin where memory can be mapped. */
CUresult cuMemAddressReserve(CUdeviceptr *pointer, size_t bytes, size_t alignment, CUdeviceptr hint,
                             unsigned long long flags)
{
    struct cuda_call c = {.id = CALL_cuMemAddressReserve};
    CUresult rc = cuda_enter(&c);
    bool good = pointer != NULL && bytes > 0 && bytes % PAGE == 0 && hint % PAGE == 0 &&
                (alignment & (alignment - 1)) == 0 && flags == 0;
    if (rc == CUDA_SUCCESS && !good)
        rc = CUDA_ERROR_INVALID_VALUE;
    context_lock();
    if (rc == CUDA_SUCCESS)
        rc = reserve(pointer, bytes, alignment > CHUNK_GRANULE ? alignment : CHUNK_GRANULE, hint);
    context_unlock();
    cuda_args(&c, "%zu", bytes);
    return cuda_leave(&c, rc);
}

/* Only what was reserved, and is mapped no more. */
static CUresult end_reservation(CUdeviceptr pointer, size_t bytes)
{
    struct reservation *r = find_reservation(pointer);
    if (r == NULL || r->base != pointer || r->bytes != bytes || r->mappings > 0)
        return CUDA_ERROR_INVALID_VALUE;
    (void)tdelete(r, &reservations, compare);
    address_release((char *)(uintptr_t)r->base, r->bytes);
    free(r);
    return CUDA_SUCCESS;
}

CUresult cuMemAddressFree(CUdeviceptr pointer, size_t bytes)
{
    struct cuda_call c = {.id = CALL_cuMemAddressFree};
    CUresult rc = cuda_enter(&c);
    context_lock();
    if (rc == CUDA_SUCCESS)
        rc = end_reservation(pointer, bytes);
    context_unlock();
    return cuda_leave(&c, rc);
}

/* --- Mapping --- */

static bool is_aligned(CUdeviceptr pointer, size_t bytes)
{
    return pointer % CHUNK_GRANULE == 0 && bytes % CHUNK_GRANULE == 0 && bytes > 0;
}

static CUresult map_at(struct reservation *whole, struct physical *p, CUdeviceptr pointer,
                       size_t bytes)
{
    char *at = (char *)(uintptr_t)pointer;
    struct mapping *m = calloc(1, sizeof(*m));
    bool on_device = p->prop.location.type == CU_MEM_LOCATION_TYPE_DEVICE;
    if (m == NULL || !store_map(&p->chunk->store, 0, bytes, at)) {
        free(m);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    *m = (struct mapping){.range = {.base = pointer,
                                    .bytes = bytes,
                                    .kind = RANGE_MAPPED,
                                    .device = on_device ? p->prop.location.id : CU_DEVICE_CPU,
                                    .access = RANGE_NO_ACCESS},
                          .physical = p,
                          .whole = whole};
    if (!range_add(&m->range)) {
        (void)address_clear(at, bytes);
        free(m);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    whole->mappings++;
    physical_use(p);
    return CUDA_SUCCESS;
}

static CUresult map(CUdeviceptr pointer, size_t bytes, struct physical *p)
{
    struct reservation *whole = find_reservation(pointer);
    if (p == NULL || whole == NULL || !is_aligned(pointer, bytes) || bytes > p->bytes)
        return CUDA_ERROR_INVALID_VALUE;
    if (bytes > whole->bytes - (pointer - whole->base) || range_overlaps(pointer, bytes))
        return CUDA_ERROR_INVALID_VALUE;
    return map_at(whole, p, pointer, bytes);
}

/* A multicast object is mapped once it has all its devices. */
static CUresult wait_for(const struct physical *p)
{
    return p != NULL && p->multicast != NULL ? multicast_wait(p->multicast) : CUDA_SUCCESS;
}

/* Memory is mapped from its beginning on, as the driver's documentation has it. */
CUresult cuMemMap(CUdeviceptr pointer, size_t bytes, size_t offset,
                  CUmemGenericAllocationHandle handle, unsigned long long flags)
{
    struct cuda_call c = {.id = CALL_cuMemMap};
    CUresult rc = cuda_enter(&c);
    context_lock();
    if (rc == CUDA_SUCCESS && (offset != 0 || flags != 0))
        rc = CUDA_ERROR_INVALID_VALUE;
    if (rc == CUDA_SUCCESS)
        rc = wait_for(physical_find(handle));
    if (rc == CUDA_SUCCESS)
        rc = map(pointer, bytes, physical_find(handle));
    context_unlock();
    return cuda_leave(&c, rc);
}

/* The mapping that begins at an address and is not longer, or NULL. */
static struct mapping *mapping_at(CUdeviceptr pointer, size_t bytes)
{
    struct range *r = range_find(pointer);
    bool found = r != NULL && r->kind == RANGE_MAPPED && r->base == pointer && r->bytes <= bytes;
    return found ? (struct mapping *)r : NULL;
}

/* Is a range of addresses that of whole mappings, one behind the other? */
static bool is_mapped(CUdeviceptr pointer, size_t bytes)
{
    if (bytes == 0)
        return false;
    while (bytes > 0) {
        const struct mapping *m = mapping_at(pointer, bytes);
        if (m == NULL)
            return false;
        pointer += m->range.bytes;
        bytes -= m->range.bytes;
    }
    return true;
}

/* The first of the mappings in a range that is mapped, and the range behind it. */
static struct mapping *next_mapping(CUdeviceptr *pointer, size_t *bytes)
{
    struct mapping *m = mapping_at(*pointer, *bytes);
    assert(m != NULL);
    *pointer += m->range.bytes;
    *bytes -= m->range.bytes;
    return m;
}

static CUresult unmap(struct mapping *m)
{
    if (!address_clear((char *)(uintptr_t)m->range.base, m->range.bytes))
        return CUDA_ERROR_OPERATING_SYSTEM;
    range_remove(&m->range);
    m->whole->mappings--;
    physical_let_go(m->physical);
    free(m);
    return CUDA_SUCCESS;
}

static CUresult unmap_all(CUdeviceptr pointer, size_t bytes)
{
    if (!is_mapped(pointer, bytes))
        return CUDA_ERROR_INVALID_VALUE;
    CUresult rc = CUDA_SUCCESS;
    while (rc == CUDA_SUCCESS && bytes > 0)
        rc = unmap(next_mapping(&pointer, &bytes));
    return rc;
}

/* Waits for the current context's work, which may be about the memory. */
CUresult cuMemUnmap(CUdeviceptr pointer, size_t bytes)
{
    struct cuda_call c = {.id = CALL_cuMemUnmap};
    CUresult rc = cuda_enter(&c);
    context_lock();
    struct cuda_context *context = rc == CUDA_SUCCESS ? context_current() : NULL;
    if (context != NULL)
        rc = work_wait_context(context);
    if (rc == CUDA_SUCCESS)
        rc = unmap_all(pointer, bytes);
    context_unlock();
    return cuda_leave(&c, rc);
}

CUresult cuMemRetainAllocationHandle(CUmemGenericAllocationHandle *handle, void *pointer)
{
    struct cuda_call c = {.id = CALL_cuMemRetainAllocationHandle};
    CUresult rc = cuda_enter(&c);
    context_lock();
    const struct range *r = rc == CUDA_SUCCESS ? range_find((uintptr_t)pointer) : NULL;
    if (rc == CUDA_SUCCESS && (handle == NULL || r == NULL || r->kind != RANGE_MAPPED))
        rc = CUDA_ERROR_INVALID_VALUE;
    if (rc == CUDA_SUCCESS) {
        struct physical *p = ((const struct mapping *)r)->physical;
        p->retained++;
        *handle = (uintptr_t)p->handle;
    }
    context_unlock();
    return cuda_leave(&c, rc);
}

/* --- Access --- */

static bool is_host(const CUmemLocation *l)
{
    return l->type >= CU_MEM_LOCATION_TYPE_HOST &&
           l->type <= CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT;
}

/* The host reaches its own memory alone. */
static CUresult check_access(CUdeviceptr pointer, size_t bytes, const CUmemAccessDesc *d)
{
    if (d->flags < 0 || d->flags == 2 || d->flags > CU_MEM_ACCESS_FLAGS_PROT_READWRITE)
        return CUDA_ERROR_INVALID_VALUE;
    if (d->location.type == CU_MEM_LOCATION_TYPE_DEVICE)
        return d->location.id >= 0 && d->location.id < cuda_device_count()
                   ? CUDA_SUCCESS
                   : CUDA_ERROR_INVALID_DEVICE;
    if (!is_host(&d->location))
        return CUDA_ERROR_INVALID_VALUE;
    while (bytes > 0) {
        if (next_mapping(&pointer, &bytes)->range.device != CU_DEVICE_CPU)
            return CUDA_ERROR_INVALID_VALUE;
    }
    return CUDA_SUCCESS;
}

/* Copies reach what anybody does. */
static enum range_access most_of(const struct mapping *m)
{
    int most = m->host_access;
    for (size_t i = 0; i < HW_MAX_GPUS; i++)
        most |= m->access[i];
    if (most == CU_MEM_ACCESS_FLAGS_PROT_READWRITE)
        return RANGE_ALL_ACCESS;
    return most != 0 ? RANGE_READ_ACCESS : RANGE_NO_ACCESS;
}

static void set_access(CUdeviceptr pointer, size_t bytes, const CUmemAccessDesc *d)
{
    while (bytes > 0) {
        struct mapping *m = next_mapping(&pointer, &bytes);
        if (is_host(&d->location))
            m->host_access = d->flags;
        else
            m->access[d->location.id] = d->flags;
        m->range.access = most_of(m);
    }
}

static CUresult set_all_access(CUdeviceptr pointer, size_t bytes, const CUmemAccessDesc *list,
                               size_t count)
{
    if (list == NULL || count == 0 || !is_mapped(pointer, bytes))
        return CUDA_ERROR_INVALID_VALUE;
    for (size_t i = 0; i < count; i++) {
        CUresult rc = check_access(pointer, bytes, &list[i]);
        if (rc != CUDA_SUCCESS)
            return rc;
    }
    for (size_t i = 0; i < count; i++)
        set_access(pointer, bytes, &list[i]);
    return CUDA_SUCCESS;
}

/* Assumed: access is set for whole mappings. */
CUresult cuMemSetAccess(CUdeviceptr pointer, size_t bytes, const CUmemAccessDesc *list,
                        size_t count)
{
    struct cuda_call c = {.id = CALL_cuMemSetAccess};
    CUresult rc = cuda_enter(&c);
    context_lock();
    if (rc == CUDA_SUCCESS)
        rc = set_all_access(pointer, bytes, list, count);
    context_unlock();
    return cuda_leave(&c, rc);
}

static CUresult get_access(const struct mapping *m, const CUmemLocation *l, unsigned long long *ret)
{
    if (l->type == CU_MEM_LOCATION_TYPE_DEVICE && (l->id < 0 || l->id >= cuda_device_count()))
        return CUDA_ERROR_INVALID_DEVICE;
    if (l->type != CU_MEM_LOCATION_TYPE_DEVICE && !is_host(l))
        return CUDA_ERROR_INVALID_VALUE;
    *ret = (unsigned long long)(is_host(l) ? m->host_access : m->access[l->id]);
    return CUDA_SUCCESS;
}

CUresult cuMemGetAccess(unsigned long long *flags, const CUmemLocation *location,
                        CUdeviceptr pointer)
{
    struct cuda_call c = {.id = CALL_cuMemGetAccess};
    CUresult rc = cuda_enter(&c);
    context_lock();
    const struct range *r = rc == CUDA_SUCCESS ? range_find(pointer) : NULL;
    bool found = r != NULL && r->kind == RANGE_MAPPED;
    if (rc == CUDA_SUCCESS && (flags == NULL || location == NULL || !found))
        rc = CUDA_ERROR_INVALID_VALUE;
    if (rc == CUDA_SUCCESS)
        rc = get_access((const struct mapping *)r, location, flags);
    context_unlock();
    return cuda_leave(&c, rc);
}
