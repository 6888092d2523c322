/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The part of NVML that the limiter reads and writes: types, codes and layouts of the ABI, as NVML's
 * API 11 to 13 has them. Enums are declared as the integers that they are in the ABI.
 */
#pragma once

#include <stdint.h>

typedef int nvmlReturn_t;
enum {
    NVML_SUCCESS = 0,
    NVML_ERROR_INVALID_ARGUMENT = 2,
    NVML_ERROR_NOT_SUPPORTED = 3,
    NVML_ERROR_NO_PERMISSION = 4,
    NVML_ERROR_NOT_FOUND = 6,
    NVML_ERROR_INSUFFICIENT_SIZE = 7,
    NVML_ERROR_FUNCTION_NOT_FOUND = 13,
};

typedef struct nvml_device *nvmlDevice_t;

enum { NVML_UUID_SIZE = 96 };
#define NVML_NO_INSTANCE UINT32_MAX

struct nvml_memory {
    uint64_t total, free, used;
};

struct nvml_memory_v2 {
    uint32_t version;
    uint64_t total, reserved, free, used;
};

struct nvml_process_v1 {
    uint32_t pid;
    uint64_t bytes;
};

/* Of _v2 and _v3. */
struct nvml_process {
    uint32_t pid;
    uint64_t bytes;
    uint32_t gpu_instance, compute_instance;
};

/* mode: 0 compute, 1 graphics, 2 MPS. n: the room on entry, the number of entries on return. */
struct nvml_process_detail {
    uint32_t pid;
    uint64_t bytes;
    uint32_t gpu_instance, compute_instance;
    uint64_t protected_bytes;
};
struct nvml_process_details {
    uint32_t version, mode, n;
    struct nvml_process_detail *at;
};

struct nvml_sample {
    uint32_t pid;
    uint64_t time;
    uint32_t sm, memory, encoder, decoder;
};

struct nvml_sample_v1 {
    uint64_t time;
    uint32_t pid, sm, memory, encoder, decoder, jpeg, ofa;
};
struct nvml_samples {
    uint32_t version, n;
    uint64_t seen;
    struct nvml_sample_v1 *at;
};

_Static_assert(sizeof(struct nvml_memory) == 24, "nvmlMemory_t");
_Static_assert(sizeof(struct nvml_memory_v2) == 40, "nvmlMemory_v2_t");
_Static_assert(sizeof(struct nvml_process_v1) == 16, "nvmlProcessInfo_v1_t");
_Static_assert(sizeof(struct nvml_process) == 24, "nvmlProcessInfo_t");
_Static_assert(sizeof(struct nvml_process_detail) == 32, "nvmlProcessDetail_v1_t");
_Static_assert(sizeof(struct nvml_process_details) == 24, "nvmlProcessDetailList_t");
_Static_assert(sizeof(struct nvml_sample) == 32, "nvmlProcessUtilizationSample_t");
_Static_assert(sizeof(struct nvml_sample_v1) == 40, "nvmlProcessUtilizationInfo_v1_t");
_Static_assert(sizeof(struct nvml_samples) == 24, "nvmlProcessesUtilizationInfo_v1_t");
