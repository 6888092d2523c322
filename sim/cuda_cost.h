/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a kernel costs: time of the whole card, in nanoseconds. No kernel is run; this is the model.
 *
 * - An entry whose name ends in "_ns" and whose first parameter is .u64 takes that many: a kernel of
 *   a real card that spins on %globaltimer does the same (test/sim/spin.ptx). UINT64_MAX: it runs
 *   until its context or its process ends.
 * - Any other takes 2 us to begin, and 5 us for each wave of blocks, which is as many as all
 *   multiprocessors hold at once. (Assumed: round numbers of small kernels.)
 *
 * What a kernel would write is not written.
 */
#pragma once

#include "sim/cuda_session.h"
#include "sim/ptx.h"

struct cost_grid {
    uint64_t blocks;
    unsigned int threads; /* of a block */
};

/* Does the kernel's first parameter tell its time? */
bool cost_is_told(const struct ptx_entry *entry);

/* `told` is the first parameter of a kernel that tells its time. */
uint64_t cost_of(const struct model *model, const struct ptx_entry *entry,
                 const struct cost_grid *grid, uint64_t told);

/* How many blocks of so many threads the whole card holds at once. */
uint64_t cost_wave(const struct model *model, unsigned int threads);

/* The bytes of shared memory that a block may have: without asking, and when it is asked for. */
#define COST_SHARED 49152
unsigned int cost_shared_limit(const struct model *model);
