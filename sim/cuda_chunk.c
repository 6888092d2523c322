/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/cuda_chunk.h"

#include <stdlib.h>

#include "sim/cuda_address.h"

static CUresult reserve(const struct cuda_device *d, uint64_t bytes)
{
    return d != NULL ? cuda_reserve(d, bytes, 0) : CUDA_SUCCESS;
}

static void give_back(const struct cuda_device *d, uint64_t bytes)
{
    if (d != NULL)
        cuda_give_back(d, bytes, 0);
}

CUresult chunk_new(const struct cuda_device *device, uint64_t bytes, struct chunk **ret)
{
    struct store store;
    CUresult rc = reserve(device, bytes);
    if (rc != CUDA_SUCCESS)
        return rc;
    struct chunk *c = malloc(sizeof(*c));
    if (c == NULL || !store_take(bytes, &store)) {
        free(c);
        give_back(device, bytes);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    *c = (struct chunk){.device = device, .bytes = bytes, .store = store, .holders = 1};
    *ret = c;
    return CUDA_SUCCESS;
}

void chunk_hold(struct chunk *c)
{
    c->holders++;
}

void chunk_let_go(struct chunk *c)
{
    if (--c->holders > 0)
        return;
    store_give_back(&c->store, /* keep_bytes= */ false);
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
