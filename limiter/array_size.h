/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "limiter/cuda_abi.h"

/* The bytes of an array with so many levels, each half of the one before (1: no others). 0 for what
 * takes no memory until it is mapped. Saturates at UINT64_MAX. Pure. */
uint64_t array_bytes(const struct array3d_descriptor *d, unsigned int levels);
