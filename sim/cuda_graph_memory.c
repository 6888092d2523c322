/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/cuda_graph_memory.h"

#include <stdlib.h>

#include "sim/cuda_address.h"
#include "sim/cuda_arena.h"
#include "sim/cuda_context.h"

static struct graph_memory *memories;

/* The bytes of each device: CU_GRAPH_MEM_ATTR_... */
static uint64_t bytes_of[HW_MAX_GPUS][4];

/* --- Bytes of the card --- */

static void add_bytes(uint64_t *values, int which, uint64_t bytes)
{
    values[which] += bytes;
    if (values[which + 1] < values[which])
        values[which + 1] = values[which];
}

static CUresult reserve_more(CUdevice device, uint64_t bytes)
{
    uint64_t *values = bytes_of[device];
    uint64_t unused =
        values[CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT] - values[CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT];
    if (bytes <= unused)
        return CUDA_SUCCESS;
    CUresult rc = cuda_reserve(cuda_device_at(device), bytes - unused, 0);
    if (rc == CUDA_SUCCESS)
        add_bytes(values, CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT, bytes - unused);
    return rc;
}

static void drop_bytes(struct graph_memory *m)
{
    if (m->has_bytes)
        bytes_of[m->range.device][CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT] -= m->bytes;
    m->has_bytes = false;
}

/* Of what is not in use, as a graph that is launched next is to have it. */
static void drop_unused(CUdevice device)
{
    for (struct graph_memory *m = memories; m != NULL; m = m->next) {
        if (m->range.device == device && m->busy == 0 && !memory_is_given(m))
            drop_bytes(m);
    }
}

CUresult memory_take_bytes(struct graph_memory *m)
{
    if (m->has_bytes)
        return CUDA_SUCCESS;
    CUresult rc = reserve_more(m->range.device, m->bytes);
    if (rc == CUDA_ERROR_OUT_OF_MEMORY) {
        drop_unused(m->range.device);
        rc = reserve_more(m->range.device, m->bytes);
    }
    if (rc != CUDA_SUCCESS)
        return rc;
    add_bytes(bytes_of[m->range.device], CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT, m->bytes);
    m->has_bytes = true;
    return CUDA_SUCCESS;
}

/* Without an executable graph nobody needs them once more. */
static void tidy(struct graph_memory *m)
{
    if (!m->has_exec && m->busy == 0 && !memory_is_given(m))
        drop_bytes(m);
}

/* --- Memory --- */

static void end(struct graph_memory *m)
{
    struct graph_memory **at = &memories;
    while (*at != m)
        at = &(*at)->next;
    *at = m->next;
    drop_bytes(m);
    range_remove(&m->range);
    address_release((char *)(uintptr_t)m->range.base, m->bytes);
    chunk_let_go(m->behind);
    free(m);
}

static CUresult map(struct graph_memory *m)
{
    CUresult rc = chunk_new(/* device= */ NULL, m->bytes, /* file= */ NULL, &m->behind);
    if (rc != CUDA_SUCCESS)
        return rc;
    m->range.base = (uintptr_t)chunk_map(m->behind, /* low= */ false);
    if (m->range.base != 0 && range_add(&m->range))
        return CUDA_SUCCESS;
    if (m->range.base != 0)
        address_release((char *)(uintptr_t)m->range.base, m->bytes);
    chunk_let_go(m->behind);
    return CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult memory_new(CUdevice device, uint64_t bytes, const void *owner, struct graph_memory **ret)
{
    if (bytes == 0)
        return CUDA_ERROR_INVALID_VALUE;
    if (bytes > SIZE_MAX / 2)
        return CUDA_ERROR_OUT_OF_MEMORY;
    struct graph_memory *m = calloc(1, sizeof(*m));
    if (m == NULL)
        return CUDA_ERROR_OUT_OF_MEMORY;
    *m = (struct graph_memory){.range = {.bytes = bytes, .kind = RANGE_GRAPH, .device = device},
                               .refs = 1,
                               .bytes = arena_round_up(bytes, CHUNK_GRANULE),
                               .owner = owner,
                               .next = memories};
    CUresult rc = map(m);
    if (rc != CUDA_SUCCESS) {
        free(m);
        return rc;
    }
    memories = m;
    *ret = m;
    return CUDA_SUCCESS;
}

struct graph_memory *memory_ref(struct graph_memory *m)
{
    m->refs++;
    return m;
}

void memory_unref(struct graph_memory *m)
{
    if (m != NULL && --m->refs == 0)
        end(m);
}

struct graph_memory *memory_find(CUdeviceptr pointer)
{
    struct range *r = range_find(pointer);
    return r != NULL && r->kind == RANGE_GRAPH && r->base == pointer ? (struct graph_memory *)r
                                                                     : NULL;
}

/* Its own graph frees it once, or others do. */
CUresult memory_add_free(struct graph_memory *m, const void *graph)
{
    bool is_own = m->owner == graph;
    if (m->frees_itself || (is_own && m->freed_by_other))
        return CUDA_ERROR_INVALID_VALUE;
    m->frees_itself = is_own;
    m->freed_by_other = !is_own;
    return CUDA_SUCCESS;
}

/* --- Who has it --- */

void memory_begin_use(struct graph_memory *m)
{
    m->busy++;
    m->refs++;
}

void memory_end_use(struct graph_memory *m)
{
    m->busy--;
    tidy(m);
    memory_unref(m);
}

void memory_leave_exec(struct graph_memory *m)
{
    m->has_exec = false;
    tidy(m);
}

bool memory_is_given(const struct graph_memory *m)
{
    return m->range.free != NULL;
}

static void free_range(struct range *r)
{
    struct graph_memory *m = (struct graph_memory *)r;
    memory_begin_free(m);
    memory_end_free(m);
}

void memory_give(struct graph_memory *m)
{
    m->range.free = free_range;
    m->refs++;
}

/* The stream has the program's reference. */
void memory_begin_free(struct graph_memory *m)
{
    m->range.free = NULL;
    m->busy++;
}

void memory_end_free(struct graph_memory *m)
{
    memory_end_use(m);
}

/* --- Calls --- */

static bool is_attribute(int attribute)
{
    return attribute >= CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT &&
           attribute <= CU_GRAPH_MEM_ATTR_RESERVED_MEM_HIGH;
}

CUresult cuDeviceGetGraphMemAttribute(CUdevice device, int attribute, void *value)
{
    struct cuda_call c = {.id = CALL_cuDeviceGetGraphMemAttribute};
    CUresult rc = cuda_enter_device(&c, device);
    if (rc == CUDA_SUCCESS && (value == NULL || !is_attribute(attribute)))
        rc = CUDA_ERROR_INVALID_VALUE;
    context_lock();
    if (rc == CUDA_SUCCESS)
        *(uint64_t *)value = bytes_of[device][attribute];
    context_unlock();
    return cuda_leave(&c, rc);
}

/* The highest values are set to what is now, by 0. */
CUresult cuDeviceSetGraphMemAttribute(CUdevice device, int attribute, void *value)
{
    struct cuda_call c = {.id = CALL_cuDeviceSetGraphMemAttribute};
    CUresult rc = cuda_enter_device(&c, device);
    bool is_high = attribute == CU_GRAPH_MEM_ATTR_USED_MEM_HIGH ||
                   attribute == CU_GRAPH_MEM_ATTR_RESERVED_MEM_HIGH;
    if (rc == CUDA_SUCCESS && (value == NULL || !is_high || *(const uint64_t *)value != 0))
        rc = CUDA_ERROR_INVALID_VALUE;
    context_lock();
    if (rc == CUDA_SUCCESS)
        bytes_of[device][attribute] = bytes_of[device][attribute - 1];
    context_unlock();
    return cuda_leave(&c, rc);
}

static void trim(CUdevice device)
{
    uint64_t *values = bytes_of[device];
    drop_unused(device);
    uint64_t unused =
        values[CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT] - values[CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT];
    cuda_give_back(cuda_device_at(device), unused, 0);
    values[CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT] -= unused;
}

CUresult cuDeviceGraphMemTrim(CUdevice device)
{
    struct cuda_call c = {.id = CALL_cuDeviceGraphMemTrim};
    CUresult rc = cuda_enter_device(&c, device);
    context_lock();
    if (rc == CUDA_SUCCESS)
        trim(device);
    context_unlock();
    return cuda_leave(&c, rc);
}
