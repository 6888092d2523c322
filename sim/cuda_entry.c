/* SPDX-License-Identifier: Apache-2.0 */
/* CUDA: the functions by their names and versions. */
#include <string.h>

#include "sim/cuda_session.h"

typedef void entry_fn(void);

#define CUDA(symbol, class, name, version) {#symbol, #name, version, (entry_fn *)(symbol)},
static const struct {
    const char *symbol, *name;
    int version;
    entry_fn *function;
} entries[] = {
#include "sim/cuda_calls.def"
};
#undef CUDA

/* Is it one of those with a default stream of each thread? */
static bool is_per_thread(const char *symbol)
{
    size_t length = strlen(symbol);
    return length > 5 &&
           (strcmp(symbol + length - 5, "_ptsz") == 0 || strcmp(symbol + length - 5, "_ptds") == 0);
}

/* The newest one that is not newer than asked for; those of one name stand by their versions. -1 is newer
 * than all, as drivers take it. */
static entry_fn *find_among(bool per_thread, const char *name, unsigned int version,
                            int *ret_status)
{
    entry_fn *found = NULL;
    *ret_status = CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
    for (size_t i = 0; i < sizeof(entries) / sizeof(entries[0]); i++) {
        if (strcmp(entries[i].name, name) != 0 || is_per_thread(entries[i].symbol) != per_thread)
            continue;
        if ((unsigned int)entries[i].version <= version)
            found = entries[i].function;
        *ret_status = found != NULL ? CU_GET_PROC_ADDRESS_SUCCESS
                                    : CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT;
    }
    return found;
}

static entry_fn *find(const char *name, int version, uint64_t flags, int *ret_status)
{
    entry_fn *found = NULL;
    if ((flags & CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM) != 0)
        found = find_among(/* per_thread= */ true, name, (unsigned int)version, ret_status);
    return found != NULL
               ? found
               : find_among(/* per_thread= */ false, name, (unsigned int)version, ret_status);
}

/* Both flags together are no error to drivers. Assumed: each thread's stream then comes first. */
static bool is_asked_well(const char *symbol, void *const *function, uint64_t flags)
{
    return symbol != NULL && function != NULL && flags <= 3;
}

/* A name that is not there is no error, but the status's to tell. */
CUresult cuGetProcAddress_v2(const char *symbol, void **function, int version, uint64_t flags,
                             int *status)
{
    int own = 0;
    if (!is_asked_well(symbol, function, flags))
        return CUDA_ERROR_INVALID_VALUE;
    *function = (void *)find(symbol, version, flags, status != NULL ? status : &own);
    return CUDA_SUCCESS;
}

/* The first form leaves the pointer alone where there is nothing. */
CUresult cuGetProcAddress(const char *symbol, void **function, int version, uint64_t flags)
{
    int status = 0;
    if (!is_asked_well(symbol, function, flags))
        return CUDA_ERROR_INVALID_VALUE;
    entry_fn *found = find(symbol, version, flags, &status);
    if (found == NULL)
        return CUDA_ERROR_NOT_FOUND;
    *function = (void *)found;
    return CUDA_SUCCESS;
}
