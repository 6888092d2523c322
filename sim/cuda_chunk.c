/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/cuda_chunk.h"

#include <stdlib.h>

#include "sim/cuda_address.h"

static struct chunk *shared;

static CUresult reserve(const struct cuda_device *d, uint64_t bytes)
{
    return d != NULL ? cuda_reserve(d, bytes, 0) : CUDA_SUCCESS;
}

static void give_back(const struct cuda_device *d, uint64_t bytes)
{
    if (d != NULL)
        cuda_give_back(d, bytes, 0);
}

CUresult chunk_new(const struct cuda_device *device, uint64_t bytes, struct store_file *file,
                   struct chunk **ret)
{
    struct store store;
    CUresult rc = reserve(device, bytes);
    if (rc != CUDA_SUCCESS)
        return rc;
    struct chunk *c = malloc(sizeof(*c));
    if (c == NULL || !store_take(file, bytes, &store)) {
        free(c);
        give_back(device, bytes);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    *c = (struct chunk){.device = device, .bytes = bytes, .store = store, .holders = 1};
    *ret = c;
    return CUDA_SUCCESS;
}

CUresult chunk_new_at(const struct cuda_device *device, struct store store, struct chunk **ret)
{
    CUresult rc = reserve(device, store.bytes);
    struct chunk *c = rc == CUDA_SUCCESS ? malloc(sizeof(*c)) : NULL;
    if (c == NULL) {
        if (rc == CUDA_SUCCESS)
            give_back(device, store.bytes);
        store_give_back(&store, /* keep_bytes= */ true);
        return rc == CUDA_SUCCESS ? CUDA_ERROR_OUT_OF_MEMORY : rc;
    }
    *c = (struct chunk){.device = device, .bytes = store.bytes, .store = store, .holders = 1};
    *ret = c;
    return CUDA_SUCCESS;
}

void chunk_hold(struct chunk *c)
{
    c->holders++;
}

/* True when no other process has it. */
static bool end_shared(struct chunk *c)
{
    struct chunk **at = &shared;
    while (*at != c)
        at = &(*at)->next;
    *at = c->next;
    return cuda_let_go(c->name);
}

void chunk_let_go(struct chunk *c)
{
    if (--c->holders > 0)
        return;
    bool was_shared = c->name.serial != 0;
    bool is_last = was_shared ? end_shared(c) : true;
    store_give_back(&c->store, /* keep_bytes= */ !is_last);
    if (!was_shared)
        give_back(c->device, c->bytes);
    free(c);
}

char *chunk_map(const struct chunk *c, bool low)
{
    char *at = address_reserve(c->bytes, CHUNK_GRANULE, /* hint= */ 0, low);
    if (at == NULL || store_map(&c->store, 0, c->bytes, at))
        return at;
    address_release(at, c->bytes);
    return NULL;
}

/* --- Sharing --- */

static void link_shared(struct chunk *c)
{
    c->next = shared;
    shared = c;
}

bool chunk_share(struct chunk *c)
{
    if (c->name.serial != 0)
        return true;
    if (!cuda_share(c->device, c->bytes, &c->name))
        return false;
    link_shared(c);
    return true;
}

struct chunk *chunk_find(struct shared_name name)
{
    struct chunk *c = shared;
    while (c != NULL && c->name.serial != name.serial)
        c = c->next;
    return c;
}

struct chunk *chunk_of(const struct cuda_device *device, struct shared_name name,
                       struct store store)
{
    struct chunk *c = malloc(sizeof(*c));
    if (c == NULL) {
        store_give_back(&store, /* keep_bytes= */ true);
        (void)cuda_let_go(name);
        return NULL;
    }
    *c = (struct chunk){.device = device,
                        .bytes = store.bytes,
                        .store = store,
                        .holders = 1,
                        .name = name};
    if (name.serial != 0)
        link_shared(c);
    return c;
}
