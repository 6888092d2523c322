/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A chunk: memory of a card in granules of 2 MiB, which this process has as long as somebody holds
 * it, and the bytes behind it. The card's room is taken with the chunk, and free with its end.
 *
 * Guarded by the contexts' lock.
 */
#pragma once

#include "sim/cuda_session.h"
#include "sim/cuda_store.h"

#define CHUNK_GRANULE (UINT64_C(2) << 20U)

struct chunk {
    const struct cuda_device *device; /* NULL: it is the host's memory */
    uint64_t bytes;
    struct store store;
    unsigned int holders;
};

/* A chunk of whole granules, with one holder: OUT_OF_MEMORY where the card has no room. */
CUresult chunk_new(const struct cuda_device *device, uint64_t bytes, struct chunk **ret);

void chunk_hold(struct chunk *c);
void chunk_let_go(struct chunk *c);

/* All of its bytes, mapped where there are addresses, in the lowest 2 GiB if `low`; NULL: there are
 * none. address_release ends it. */
char *chunk_map(const struct chunk *c, bool low);
