/* SPDX-License-Identifier: Apache-2.0 */
#include "limiter/nvml_real.h"

#include <stddef.h>

#include "limiter/next_symbol.h"

typedef void any_fn(void);

struct nvml_real nvml_real;

/* Is called with whatever arguments, and looks at none. */
static nvmlReturn_t not_there(void)
{
    return NVML_ERROR_FUNCTION_NOT_FOUND;
}

static void find(const char *symbol, any_fn **ret)
{
    *ret = (any_fn *)next_symbol(symbol);
    if (*ret == NULL)
        *ret = (any_fn *)not_there;
}

__attribute__((constructor)) static void find_all(void)
{
#define LIST(symbol)         find(#symbol, (any_fn **)&nvml_real.symbol);
#define NVML(symbol, params) find(#symbol, (any_fn **)&nvml_real.symbol);
#include "limiter/nvml_calls.def"
#undef LIST
#undef NVML
    find("nvmlDeviceGetUUID", (any_fn **)&nvml_real.nvmlDeviceGetUUID);
}
