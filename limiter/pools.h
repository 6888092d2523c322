/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory that the driver keeps for a process: pools of stream-ordered allocations, and that of
 * graphs. What the driver has reserved is what counts, whoever has a part of it at the moment. It
 * lets go of some when streams are synchronised, and tells nobody: what is taken of the share is
 * settled before it is told, and before something is refused.
 */
#pragma once

#include <stdbool.h>

#include "limiter/cuda_abi.h"

/* Brings what is taken of the share to what is reserved now. */
void pools_settle(void);

/* Brings it there, and lets go of what is reserved and not in use. */
void pools_trim(void);

/* Takes room for a graph's memory nodes before it is launched. False: there is none. After the
 * launch: pools_settle. */
bool pools_take_for_graph(int card, CUdevice device, uint64_t bytes);
