/* SPDX-License-Identifier: Apache-2.0 */
/* Physical memory by a descriptor that CUDA exported. Guarded by the contexts' lock. */
#pragma once

#include "sim/cuda_chunk.h"

/*
 * The memory behind a descriptor, with one holder more: INVALID_HANDLE when CUDA did not export it,
 * INVALID_VALUE when what it tells of itself cannot be, NOT_SUPPORTED for a card that is not seen.
 */
CUresult export_open(int fd, CUmemAllocationProp *ret_prop, struct chunk **ret);
