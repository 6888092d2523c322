/* SPDX-License-Identifier: Apache-2.0 */
/* CUDA: looking functions up. What the real search has found is exchanged for ours. */
#include <stdbool.h>
#include <string.h>

#include "limiter/real.h"

typedef void any_fn(void);

static const struct {
    const char *name;
    any_fn *ours;
    any_fn *const *real;
} functions[] = {
#define CALL(symbol, params, args, name, version)                                                  \
    {#name, (any_fn *)(symbol), (any_fn *const *)&real.symbol},
#define GATE(symbol, params, args, stream, name, version)                                          \
    {#name, (any_fn *)(symbol), (any_fn *const *)&real.symbol},
#include "limiter/calls.def"
#include "limiter/gated.def"
#undef CALL
#undef GATE
};

enum { SYMBOL_NOT_FOUND = 1 };

/*
 * What the real library has found is ours where it is one of the functions that we stand in for. A
 * name of ours that leads to another function is newer than this library: it is told as not there,
 * rather than handed out without a limit.
 *
 * The pointers that the real library hands out are those of the symbols that it exports, all of
 * them: seen with the drivers 470.256.02, 525.147.05, 535.261.03, 550.163.01 and 555.58.02, which
 * answer without a card, too. They are linked so that their own calls of themselves do not come
 * here (DT_SYMBOLIC).
 */
static bool exchange(const char *symbol, void **function)
{
    bool is_name = false;
    for (size_t i = 0; i < sizeof(functions) / sizeof(functions[0]); i++) {
        if (*function == (void *)*functions[i].real) {
            *function = (void *)functions[i].ours;
            return true;
        }
        is_name = is_name || strcmp(functions[i].name, symbol) == 0;
    }
    return !is_name;
}

CUresult cuGetProcAddress_v2(const char *symbol, void **function, int version, uint64_t flags,
                             int *status)
{
    CUresult rc = real.cuGetProcAddress_v2(symbol, function, version, flags, status);
    if (rc != CUDA_SUCCESS || *function == NULL || exchange(symbol, function))
        return rc;
    *function = NULL;
    if (status != NULL)
        *status = SYMBOL_NOT_FOUND;
    return rc;
}

CUresult cuGetProcAddress(const char *symbol, void **function, int version, uint64_t flags)
{
    CUresult rc = real.cuGetProcAddress(symbol, function, version, flags);
    if (rc != CUDA_SUCCESS || *function == NULL || exchange(symbol, function))
        return rc;
    *function = NULL;
    return CUDA_ERROR_NOT_FOUND;
}
