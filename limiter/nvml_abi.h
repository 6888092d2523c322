/* SPDX-License-Identifier: Apache-2.0 */
/* The part of NVML that the limiter reads, as NVIDIA's nvml.h of CUDA 12 defines it. */
#pragma once

#include <stdint.h>

typedef int nvmlReturn;
enum {
    NVML_SUCCESS = 0,
    NVML_ERROR_INVALID_ARGUMENT = 2,
    NVML_ERROR_NOT_SUPPORTED = 3,
    NVML_ERROR_NO_PERMISSION = 4,
    NVML_ERROR_NOT_FOUND = 6,
    NVML_ERROR_INSUFFICIENT_SIZE = 7,
    NVML_ERROR_FUNCTION_NOT_FOUND = 13,
};

typedef struct nvml_device *nvmlDevice;

struct nvml_memory {
    uint64_t total, free, used;
};

struct nvml_memory_v2 {
    unsigned int version;
    uint64_t total, reserved, free, used;
};

struct nvml_process_v1 {
    unsigned int pid;
    uint64_t bytes;
};

struct nvml_process {
    unsigned int pid;
    uint64_t bytes;
    unsigned int gpu_instance, compute_instance;
};

enum { NVML_UUID_BYTES = 96 };
#define NVML_NO_INSTANCE UINT32_MAX
