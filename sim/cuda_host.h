/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory of the host that the driver knows: its own, and what a program registered. The card reaches
 * it at its own address. It goes with the context that it came with. Guarded by the contexts' lock.
 */
#pragma once

#include "sim/cuda_context.h"

struct host_range {
    struct context_part part;
    struct cuda_context *context;
    char *base;
    size_t bytes;
    unsigned int flags;
    bool is_own; /* from cuMemHostAlloc */
};

/* The range that an address lies in, or NULL. */
const struct host_range *host_find(uint64_t address);
