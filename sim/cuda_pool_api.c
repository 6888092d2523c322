/* SPDX-License-Identifier: Apache-2.0 */
/* CUDA: pools. Contracts are the driver API's own. */
#include <string.h>

#include "sim/cuda_context.h"
#include "sim/cuda_location.h"
#include "sim/cuda_pool.h"

#define USAGES 2U /* decompression by hardware: accepted, and nothing here */

/* --- Creating --- */

static bool are_zeros(const unsigned char *bytes, size_t count)
{
    size_t i = 0;
    while (i < count && bytes[i] == 0)
        i++;
    return i == count;
}

/* Pools of managed memory are not here. */
static CUresult check(const CUmemPoolProps *props)
{
    if (props->allocType == CU_MEM_ALLOCATION_TYPE_MANAGED)
        return CUDA_ERROR_NOT_SUPPORTED;
    if (props->allocType != CU_MEM_ALLOCATION_TYPE_PINNED || (props->usage & ~USAGES) != 0)
        return CUDA_ERROR_INVALID_VALUE;
    if (!are_zeros(props->reserved + 1, sizeof(props->reserved) - 1))
        return CUDA_ERROR_INVALID_VALUE;
    CUresult rc = location_check(&props->location);
    if (rc == CUDA_SUCCESS)
        rc = location_check_handles(&props->location, props->handleTypes);
    return rc;
}

CUresult cuMemPoolCreate(CUmemoryPool *pool, const CUmemPoolProps *props)
{
    struct cuda_call c = {.id = CALL_cuMemPoolCreate};
    CUresult rc = location_enter(&c, props != NULL ? &props->location : NULL);
    if (rc == CUDA_SUCCESS && (pool == NULL || props == NULL))
        rc = CUDA_ERROR_INVALID_VALUE;
    if (rc == CUDA_SUCCESS)
        rc = check(props);
    context_lock();
    struct pool *p = rc == CUDA_SUCCESS ? pool_new(props, /* imported= */ NULL) : NULL;
    if (rc == CUDA_SUCCESS && p == NULL)
        rc = CUDA_ERROR_OUT_OF_MEMORY;
    if (rc == CUDA_SUCCESS)
        *pool = p->handle;
    context_unlock();
    return cuda_leave(&c, rc);
}

/* --- Pools that are there --- */

/* Begins a call on a pool, with the contexts locked: INVALID_VALUE for what is none. */
static CUresult enter_pool(struct cuda_call *c, CUmemoryPool pool, struct pool **ret)
{
    CUresult rc = cuda_enter(c);
    context_lock();
    *ret = rc == CUDA_SUCCESS ? pool_find(pool) : NULL;
    return rc == CUDA_SUCCESS && *ret == NULL ? CUDA_ERROR_INVALID_VALUE : rc;
}

static CUresult leave_pool(struct cuda_call *c, CUresult rc)
{
    context_unlock();
    return cuda_leave(c, rc);
}

CUresult cuMemPoolDestroy(CUmemoryPool pool)
{
    struct cuda_call c = {.id = CALL_cuMemPoolDestroy};
    struct pool *p = NULL;
    CUresult rc = enter_pool(&c, pool, &p);
    if (rc == CUDA_SUCCESS && pool_is_default(p))
        rc = CUDA_ERROR_INVALID_VALUE;
    if (rc == CUDA_SUCCESS)
        pool_end(p);
    return leave_pool(&c, rc);
}

CUresult cuMemPoolTrimTo(CUmemoryPool pool, size_t keep_bytes)
{
    struct cuda_call c = {.id = CALL_cuMemPoolTrimTo};
    struct pool *p = NULL;
    CUresult rc = enter_pool(&c, pool, &p);
    if (rc == CUDA_SUCCESS)
        pool_trim(p, keep_bytes);
    return leave_pool(&c, rc);
}

/* --- Attributes --- */

static bool is_switch(int attribute)
{
    return attribute >= CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES &&
           attribute <= CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES;
}

static int *switch_of(struct pool *p, int attribute)
{
    return &p->reuses[attribute - CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES];
}

/* A mark can only be reset, to what is now. */
static CUresult reset(uint64_t *mark, uint64_t now, uint64_t value)
{
    if (value != 0)
        return CUDA_ERROR_INVALID_VALUE;
    *mark = now;
    return CUDA_SUCCESS;
}

static CUresult set(struct pool *p, int attribute, const void *value)
{
    uint64_t word = 0;
    if (is_switch(attribute)) {
        memcpy(switch_of(p, attribute), value, sizeof(int));
        return CUDA_SUCCESS;
    }
    if (attribute != CU_MEMPOOL_ATTR_RELEASE_THRESHOLD &&
        attribute != CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH &&
        attribute != CU_MEMPOOL_ATTR_USED_MEM_HIGH)
        return CUDA_ERROR_INVALID_VALUE;
    memcpy(&word, value, sizeof(word));
    if (attribute == CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH)
        return reset(&p->reserved_high, p->reserved, word);
    if (attribute == CU_MEMPOOL_ATTR_USED_MEM_HIGH)
        return reset(&p->used_high, p->used, word);
    p->threshold = word;
    return CUDA_SUCCESS;
}

CUresult cuMemPoolSetAttribute(CUmemoryPool pool, int attribute, void *value)
{
    struct cuda_call c = {.id = CALL_cuMemPoolSetAttribute};
    struct pool *p = NULL;
    CUresult rc = enter_pool(&c, pool, &p);
    if (rc == CUDA_SUCCESS)
        rc = value != NULL ? set(p, attribute, value) : CUDA_ERROR_INVALID_VALUE;
    return leave_pool(&c, rc);
}

static const uint64_t *word_of(const struct pool *p, int attribute)
{
    switch (attribute) {
    case CU_MEMPOOL_ATTR_RELEASE_THRESHOLD:
        return &p->threshold;
    case CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT:
        return &p->reserved;
    case CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH:
        return &p->reserved_high;
    case CU_MEMPOOL_ATTR_USED_MEM_CURRENT:
        return &p->used;
    case CU_MEMPOOL_ATTR_USED_MEM_HIGH:
        return &p->used_high;
    case CU_MEMPOOL_ATTR_MAX_POOL_SIZE:
        return &p->props.maxSize;
    default:
        return NULL;
    }
}

static const int *int_of(struct pool *p, int attribute)
{
    switch (attribute) {
    case CU_MEMPOOL_ATTR_ALLOCATION_TYPE:
        return &p->props.allocType;
    case CU_MEMPOOL_ATTR_EXPORT_HANDLE_TYPES:
        return &p->props.handleTypes;
    case CU_MEMPOOL_ATTR_LOCATION_ID:
        return &p->props.location.id;
    case CU_MEMPOOL_ATTR_LOCATION_TYPE:
        return &p->props.location.type;
    default:
        return is_switch(attribute) ? switch_of(p, attribute) : NULL;
    }
}

static CUresult get(struct pool *p, int attribute, void *ret)
{
    const uint64_t *word = word_of(p, attribute);
    const int *number = int_of(p, attribute);
    if (word != NULL)
        memcpy(ret, word, sizeof(*word));
    else if (number != NULL)
        memcpy(ret, number, sizeof(*number));
    return word != NULL || number != NULL ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuMemPoolGetAttribute(CUmemoryPool pool, int attribute, void *value)
{
    struct cuda_call c = {.id = CALL_cuMemPoolGetAttribute};
    struct pool *p = NULL;
    CUresult rc = enter_pool(&c, pool, &p);
    if (rc == CUDA_SUCCESS)
        rc = value != NULL ? get(p, attribute, value) : CUDA_ERROR_INVALID_VALUE;
    return leave_pool(&c, rc);
}

/* --- Access --- */

/* A pool's own device keeps its access. */
static CUresult check_access(const struct pool *p, const CUmemAccessDesc *d)
{
    bool is_device = d->location.type == CU_MEM_LOCATION_TYPE_DEVICE;
    if (is_device && (d->location.id < 0 || d->location.id >= cuda_device_count()))
        return CUDA_ERROR_INVALID_DEVICE;
    bool is_own = p->device != NULL && p->props.location.id == d->location.id;
    if (!is_device || d->flags < 0 || d->flags == 2 || d->flags > 3 || (is_own && d->flags != 3))
        return CUDA_ERROR_INVALID_VALUE;
    return CUDA_SUCCESS;
}

static CUresult set_access(struct pool *p, const CUmemAccessDesc *list, size_t count)
{
    if (list == NULL)
        return count > 0 ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
    for (size_t i = 0; i < count; i++) {
        CUresult rc = check_access(p, &list[i]);
        if (rc != CUDA_SUCCESS)
            return rc;
    }
    for (size_t i = 0; i < count; i++)
        p->access[list[i].location.id] = list[i].flags;
    return CUDA_SUCCESS;
}

CUresult cuMemPoolSetAccess(CUmemoryPool pool, const CUmemAccessDesc *list, size_t count)
{
    struct cuda_call c = {.id = CALL_cuMemPoolSetAccess};
    struct pool *p = NULL;
    CUresult rc = enter_pool(&c, pool, &p);
    if (rc == CUDA_SUCCESS)
        rc = set_access(p, list, count);
    return leave_pool(&c, rc);
}

static CUresult get_access(const struct pool *p, const CUmemLocation *l, int *ret)
{
    if (l->type != CU_MEM_LOCATION_TYPE_DEVICE) {
        *ret = p->device == NULL ? CU_MEM_ACCESS_FLAGS_PROT_READWRITE : 0;
        return location_check(l);
    }
    CUresult rc = location_check(l);
    if (rc == CUDA_SUCCESS)
        *ret = p->access[l->id];
    return rc;
}

CUresult cuMemPoolGetAccess(int *flags, CUmemoryPool pool, CUmemLocation *location)
{
    struct cuda_call c = {.id = CALL_cuMemPoolGetAccess};
    struct pool *p = NULL;
    CUresult rc = enter_pool(&c, pool, &p);
    if (rc == CUDA_SUCCESS && (flags == NULL || location == NULL))
        rc = CUDA_ERROR_INVALID_VALUE;
    if (rc == CUDA_SUCCESS)
        rc = get_access(p, location, flags);
    return leave_pool(&c, rc);
}
