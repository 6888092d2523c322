/* SPDX-License-Identifier: Apache-2.0 */
/* The real library's functions, as real.h has CUDA's. FUNCTION_NOT_FOUND is the answer of those that an older
 * driver lacks. */
#pragma once

#include "limiter/nvml_abi.h"

#define LIMITER_API __attribute__((visibility("default")))

struct nvml_real {
#define CALL(symbol, params) nvmlReturn(*symbol) params;
#include "limiter/nvml_calls.def"
#undef CALL
    nvmlReturn (*nvmlDeviceGetUUID)(nvmlDevice device, char *uuid, unsigned int bytes);
};
extern struct nvml_real nvml_real;

#define CALL(symbol, params) LIMITER_API nvmlReturn symbol params;
#include "limiter/nvml_calls.def"
#undef CALL
