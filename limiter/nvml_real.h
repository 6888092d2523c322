/* SPDX-License-Identifier: Apache-2.0 */
/* The real NVML's functions, behind the names that this library has, too. */
#pragma once

#include "limiter/nvml_abi.h"

#define LIMITER_API __attribute__((visibility("default")))

typedef nvmlReturn_t nvml_list_fn(nvmlDevice_t device, unsigned int *count, void *processes);

#define LIST(symbol)         LIMITER_API nvml_list_fn symbol;
#define NVML(symbol, params) LIMITER_API nvmlReturn_t symbol params;
#include "limiter/nvml_calls.def"
#undef LIST
#undef NVML

/* FUNCTION_NOT_FOUND is the answer of those that an older driver lacks. */
struct nvml_real {
#define LIST(symbol)         nvml_list_fn *symbol;
#define NVML(symbol, params) nvmlReturn_t(*symbol) params;
#include "limiter/nvml_calls.def"
#undef LIST
#undef NVML
    nvmlReturn_t (*nvmlDeviceGetUUID)(nvmlDevice_t device, char *uuid, unsigned int length);
};
extern struct nvml_real nvml_real;
