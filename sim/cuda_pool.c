/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/cuda_pool.h"

#include <stdlib.h>

#include "sim/cuda_address.h"
#include "sim/cuda_arena.h"
#include "sim/cuda_handle.h"

#define ALIGNMENT UINT64_C(512)

/* Assumed: what the driver reserves at least at a time, as it is seen of default pools. */
#define SLAB_BYTES (UINT64_C(32) << 20U)

static struct pool *pools;
static struct pool *defaults[HW_MAX_GPUS], *currents[HW_MAX_GPUS];

/* Pending pieces of all pools, in the order in which they were freed. */
static struct piece *first_pending, **last_pending = &first_pending;
static uint64_t last_ticket;

/* --- Pools --- */

static bool is_on_device(const CUmemPoolProps *props)
{
    return props->location.type == CU_MEM_LOCATION_TYPE_DEVICE;
}

/* False: there should be one, and the system has no more. */
static bool find_file(const CUmemPoolProps *props, struct store_file *imported,
                      struct store_file **ret)
{
    *ret = imported;
    store_file_ref(imported);
    if (imported == NULL && props->handleTypes != CU_MEM_HANDLE_TYPE_NONE)
        *ret = store_file_new();
    return *ret != NULL || props->handleTypes == CU_MEM_HANDLE_TYPE_NONE;
}

struct pool *pool_new(const CUmemPoolProps *props, struct store_file *imported)
{
    struct store_file *file = NULL;
    struct pool *p = calloc(1, sizeof(*p));
    void *handle =
        p != NULL && find_file(props, imported, &file) ? handle_new(HANDLE_POOL, p) : NULL;
    if (handle == NULL) {
        store_file_unref(file);
        free(p);
        return NULL;
    }
    *p = (struct pool){.next = pools,
                       .handle = handle,
                       .props = *props,
                       .file = file,
                       .is_imported = imported != NULL,
                       .reuses = {1, 1, 1}};
    if (is_on_device(props)) {
        p->device = cuda_device_at(props->location.id);
        p->access[props->location.id] = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
    }
    pools = p;
    return p;
}

struct pool *pool_find(CUmemoryPool handle)
{
    return handle_find(HANDLE_POOL, handle);
}

static void free_pool(struct pool *p)
{
    struct pool **at = &pools;
    while (*at != p)
        at = &(*at)->next;
    *at = p->next;
    store_file_unref(p->file);
    free(p);
}

static void end_if_over(struct pool *p)
{
    if (p->handle != NULL || p->taken > 0)
        return;
    pool_trim(p, 0);
    free_pool(p);
}

void pool_hold(struct pool *p)
{
    p->taken++;
}

void pool_let_go(struct pool *p)
{
    p->taken--;
    end_if_over(p);
}

void imported_free(struct imported *i)
{
    struct pool *p = i->pool;
    borrowed_close(&i->borrowed);
    free(i);
    pool_let_go(p);
}

void pool_end(struct pool *p)
{
    for (int i = 0; i < HW_MAX_GPUS; i++)
        currents[i] = currents[i] == p ? NULL : currents[i];
    handle_end(p->handle);
    p->handle = NULL;
    end_if_over(p);
}

struct pool *pool_default(CUdevice device)
{
    const CUmemPoolProps props = {
        .allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
        .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device},
    };
    if (defaults[device] == NULL)
        defaults[device] = pool_new(&props, /* imported= */ NULL);
    return defaults[device];
}

struct pool *pool_current(CUdevice device)
{
    return currents[device] != NULL ? currents[device] : pool_default(device);
}

void pool_set_current(CUdevice device, struct pool *p)
{
    currents[device] = p;
}

bool pool_is_default(const struct pool *p)
{
    return is_on_device(&p->props) && defaults[p->props.location.id] == p;
}

/* --- Slabs --- */

static uint64_t room_of(const struct pool *p)
{
    uint64_t max = p->props.maxSize > 0 ? p->props.maxSize : UINT64_MAX;
    return p->reserved < max ? max - p->reserved : 0;
}

static void count_reserved(struct pool *p, uint64_t bytes)
{
    p->reserved += bytes;
    if (p->reserved > p->reserved_high)
        p->reserved_high = p->reserved;
}

static CUresult add_slab(struct pool *p, uint64_t bytes)
{
    struct slab *s = calloc(1, sizeof(*s));
    struct piece *whole = calloc(1, sizeof(*whole));
    CUresult rc = CUDA_ERROR_OUT_OF_MEMORY;
    if (s != NULL && whole != NULL && bytes <= room_of(p))
        rc = chunk_new(p->device, bytes, p->file, &s->chunk);
    if (rc == CUDA_SUCCESS) {
        s->base = chunk_map(s->chunk, /* low= */ false);
        if (s->base == NULL) {
            chunk_let_go(s->chunk);
            rc = CUDA_ERROR_OUT_OF_MEMORY;
        }
    }
    if (rc != CUDA_SUCCESS) {
        free(s);
        free(whole);
        return rc;
    }
    *whole = (struct piece){.slab = s, .range = {.base = (uintptr_t)s->base}, .bytes = bytes};
    s->first = whole;
    s->pool = p;
    s->next = p->slabs;
    p->slabs = s;
    count_reserved(p, bytes);
    return CUDA_SUCCESS;
}

static CUresult grow(struct pool *p, uint64_t bytes)
{
    uint64_t least = arena_round_up(bytes, CHUNK_GRANULE);
    CUresult rc = CUDA_ERROR_OUT_OF_MEMORY;
    if (least < SLAB_BYTES)
        rc = add_slab(p, SLAB_BYTES);
    return rc == CUDA_ERROR_OUT_OF_MEMORY ? add_slab(p, least) : rc;
}

static bool is_unused(const struct slab *s)
{
    return s->first->state == PIECE_FREE && s->first->next == NULL;
}

void pool_trim(struct pool *p, uint64_t keep_bytes)
{
    struct slab **at = &p->slabs;
    while (*at != NULL) {
        struct slab *s = *at;
        uint64_t bytes = s->chunk->bytes;
        if (!is_unused(s) || p->reserved < keep_bytes || p->reserved - keep_bytes < bytes) {
            at = &s->next;
            continue;
        }
        *at = s->next;
        p->reserved -= bytes;
        address_release(s->base, bytes);
        chunk_let_go(s->chunk);
        free(s->first);
        free(s);
    }
}

void pool_trim_all(void)
{
    for (struct pool *p = pools; p != NULL; p = p->next)
        pool_trim(p, p->threshold);
}

/* --- Pieces --- */

/* What the stream itself freed is the stream's again, ... */
static struct piece *find_pending(const struct pool *p, uint64_t bytes, const struct stream *s)
{
    for (struct piece *i = first_pending; i != NULL; i = i->later) {
        if (i->slab->pool == p && i->stream == s && i->bytes == bytes)
            return i;
    }
    return NULL;
}

/* ... and what is free anybody's. */
static struct piece *find_free(const struct pool *p, uint64_t bytes)
{
    for (const struct slab *s = p->slabs; s != NULL; s = s->next) {
        for (struct piece *i = s->first; i != NULL; i = i->next) {
            if (i->state == PIECE_FREE && i->bytes >= bytes)
                return i;
        }
    }
    return NULL;
}

static void remove_pending(const struct piece *piece)
{
    struct piece **at = &first_pending;
    while (*at != piece)
        at = &(*at)->later;
    *at = piece->later;
    if (*at == NULL)
        last_pending = at;
}

/* Leaves the piece that many bytes. */
static bool split(struct piece *piece, uint64_t bytes)
{
    if (piece->bytes == bytes)
        return true;
    struct piece *rest = calloc(1, sizeof(*rest));
    if (rest == NULL)
        return false;
    *rest = (struct piece){.slab = piece->slab,
                           .range = {.base = piece->range.base + bytes},
                           .previous = piece,
                           .next = piece->next,
                           .bytes = piece->bytes - bytes};
    if (rest->next != NULL)
        rest->next->previous = rest;
    piece->next = rest;
    piece->bytes = bytes;
    return true;
}

static void join_next(struct piece *piece)
{
    struct piece *gone = piece->next;
    if (gone == NULL || gone->state != PIECE_FREE || piece->state != PIECE_FREE)
        return;
    piece->bytes += gone->bytes;
    piece->next = gone->next;
    if (piece->next != NULL)
        piece->next->previous = piece;
    free(gone);
}

static void set_free(struct piece *piece)
{
    struct pool *p = piece->slab->pool;
    struct piece *previous = piece->previous;
    range_remove(&piece->range);
    piece->state = PIECE_FREE;
    join_next(piece);
    if (previous != NULL)
        join_next(previous);
    pool_let_go(p);
}

static void free_range(struct range *r)
{
    pool_free((struct piece *)r);
}

static void count_used(struct pool *p, uint64_t bytes)
{
    p->used += bytes;
    if (p->used > p->used_high)
        p->used_high = p->used;
}

/* A piece that is not known as a range. */
static bool use(struct piece *piece, uint64_t bytes)
{
    struct pool *p = piece->slab->pool;
    bool on_host = p->device == NULL;
    piece->range = (struct range){.base = piece->range.base,
                                  .bytes = bytes,
                                  .kind = RANGE_POOL,
                                  .device = on_host ? CU_DEVICE_CPU : p->props.location.id,
                                  .free = free_range};
    if (!range_add(&piece->range))
        return false;
    piece->state = PIECE_USED;
    pool_hold(p);
    count_used(p, piece->bytes);
    return true;
}

static CUresult take_new(struct pool *p, uint64_t bytes, uint64_t rounded, struct piece **ret)
{
    struct piece *found = find_free(p, rounded);
    CUresult rc = found == NULL ? grow(p, rounded) : CUDA_SUCCESS;
    if (rc != CUDA_SUCCESS)
        return rc;
    found = find_free(p, rounded);
    if (found == NULL || !split(found, rounded) || !use(found, bytes))
        return CUDA_ERROR_OUT_OF_MEMORY;
    *ret = found;
    return CUDA_SUCCESS;
}

/* A pending piece stays known: what the stream does before is still allowed to reach it. */
CUresult pool_take(struct pool *p, uint64_t bytes, const struct stream *s, struct piece **ret)
{
    if (p->is_imported)
        return CUDA_ERROR_INVALID_VALUE;
    if (bytes > UINT64_MAX / 4)
        return CUDA_ERROR_OUT_OF_MEMORY;
    uint64_t rounded = arena_round_up(bytes, ALIGNMENT);
    struct piece *found = find_pending(p, rounded, s);
    if (found == NULL)
        return take_new(p, bytes, rounded, ret);
    remove_pending(found);
    range_remove(&found->range);
    p->taken--;
    if (!use(found, bytes)) {
        p->taken++;
        set_free(found);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    *ret = found;
    return CUDA_SUCCESS;
}

void pool_free(struct piece *piece)
{
    piece->slab->pool->used -= piece->bytes;
    set_free(piece);
}

uint64_t pool_retire(struct piece *piece, const struct stream *s)
{
    piece->slab->pool->used -= piece->bytes;
    piece->state = PIECE_PENDING;
    piece->range.free = NULL;
    piece->stream = s;
    piece->ticket = ++last_ticket;
    piece->later = NULL;
    *last_pending = piece;
    last_pending = &piece->later;
    return piece->ticket;
}

/* One that was taken again meanwhile is none of the ticket's. */
void pool_redeem(uint64_t ticket)
{
    for (struct piece *i = first_pending; i != NULL; i = i->later) {
        if (i->ticket != ticket)
            continue;
        remove_pending(i);
        set_free(i);
        return;
    }
}
