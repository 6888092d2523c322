/* SPDX-License-Identifier: Apache-2.0 */
#include "limiter/real.h"

#include "limiter/next_symbol.h"

typedef void any_fn(void);

struct real real;
struct real_only also;

/* What an older driver lacks is called with whatever arguments, and looks at none. */
static CUresult not_there(void)
{
    return CUDA_ERROR_NOT_SUPPORTED;
}

static void find(const char *symbol, any_fn **ret)
{
    *ret = (any_fn *)next_symbol(symbol);
    if (*ret == NULL)
        *ret = (any_fn *)not_there;
}

/* As the library is loaded: whoever calls CUDA finds all of it, and asks nothing. */
__attribute__((constructor)) static void find_all(void)
{
#define CALL(symbol, params, args, name, version)         find(#symbol, (any_fn **)&real.symbol);
#define GATE(symbol, params, args, stream, name, version) find(#symbol, (any_fn **)&real.symbol);
#define REAL(symbol, params)                              find(#symbol, (any_fn **)&also.symbol);
#include "limiter/calls.def"
#include "limiter/gated.def"
#include "limiter/real_only.def"
}
