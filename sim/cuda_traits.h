/* SPDX-License-Identifier: Apache-2.0 */
/* What boards are to CUDA: the numbers of their compute capability, as the programming guide has them,
 * and of the board. Pure, immutable. */
#pragma once

#include <stddef.h>

#include "sim/model.h"

struct traits {
    unsigned int cc_major, cc_minor;
    unsigned int threads_per_sm, blocks_per_sm;
    unsigned int shared_per_sm, shared_per_block; /* bytes; the latter where a kernel asks for it */
    unsigned int reserved_shared;                 /* of each block */
    unsigned int double_ratio; /* how many single operations cost one double one */
};

/* Those of a board; of a capability that is not known, those of the newest. */
const struct traits *traits_of(const struct model *m);

/* Assumed where no deviceQuery was seen: the L2 cache, and the part of it that can be kept. */
size_t traits_l2_bytes(const struct model *m);
size_t traits_persisting_l2_bytes(const struct model *m);

/* The width of the memory's bus, in bits. */
unsigned int traits_bus_bits(const struct model *m);
