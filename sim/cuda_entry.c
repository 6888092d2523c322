/* SPDX-License-Identifier: Apache-2.0 */
/* CUDA: the functions by their names and versions. */
#include <string.h>

#include "sim/cuda_session.h"

typedef void entry_fn(void);

#define CUDA(symbol, class, name, version) {#name, version, (entry_fn *)(symbol)},
static const struct {
    const char *name;
    int version;
    entry_fn *function;
} entries[] = {
#include "sim/cuda_calls.def"
};
#undef CUDA

/* The newest one that is not newer than asked for; those of one name stand by their versions. */
static entry_fn *find(const char *name, int version, int *ret_status)
{
    entry_fn *found = NULL;
    *ret_status = CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
    for (size_t i = 0; i < sizeof(entries) / sizeof(entries[0]); i++) {
        if (strcmp(entries[i].name, name) != 0)
            continue;
        if (entries[i].version <= version)
            found = entries[i].function;
        *ret_status = found != NULL ? CU_GET_PROC_ADDRESS_SUCCESS
                                    : CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT;
    }
    return found;
}

/* Flags: 1 without the functions for a default stream of each thread, 2 with them. None is here
 * yet. */
static bool is_asked_well(const char *symbol, void *const *function, int version, uint64_t flags)
{
    return symbol != NULL && function != NULL && version > 0 && flags <= 2;
}

/* A name that is not there is no error, but the status's to tell. */
CUresult cuGetProcAddress_v2(const char *symbol, void **function, int version, uint64_t flags,
                             int *status)
{
    int own = 0;
    if (!is_asked_well(symbol, function, version, flags))
        return CUDA_ERROR_INVALID_VALUE;
    *function = (void *)find(symbol, version, status != NULL ? status : &own);
    return CUDA_SUCCESS;
}

CUresult cuGetProcAddress(const char *symbol, void **function, int version, uint64_t flags)
{
    int status = 0;
    CUresult rc = cuGetProcAddress_v2(symbol, function, version, flags, &status);
    return rc == CUDA_SUCCESS && status != CU_GET_PROC_ADDRESS_SUCCESS ? CUDA_ERROR_NOT_FOUND : rc;
}
