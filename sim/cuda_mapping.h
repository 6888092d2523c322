/* SPDX-License-Identifier: Apache-2.0 */
/* Physical memory at reserved addresses. Guarded by the contexts' lock. */
#pragma once

#include "sim/cuda_physical.h"
#include "sim/cuda_range.h"

struct reservation {
    CUdeviceptr base;
    size_t bytes;
    unsigned int mappings;
};

/* A range of RANGE_MAPPED. */
struct mapping {
    struct range range;
    struct physical *physical;
    struct reservation *whole;
    int access[HW_MAX_GPUS];
    int host_access;
};

/* The reservation that an address lies in, or NULL. */
const struct reservation *mapping_find_reservation(CUdeviceptr pointer);
