/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stands in the real libcuda's place, before the simulator's, and answers an error once (failing.h).
 * What the limiter passes on comes from nowhere else; what it calls for itself programs call, too.
 */
#include <dlfcn.h>
#include <stddef.h>

#include "limiter/cuda_abi.h"
#include "test/limiter/failing.h"

#define API __attribute__((visibility("default")))

#define FORWARD(symbol, type, caller, args)                                                        \
    static CUresult(*next) type;                                                                   \
    int code = 0;                                                                                  \
    if (failing_now(FAILING_DRIVER, #symbol, caller, &code))                                       \
        return code;                                                                               \
    if (next == NULL)                                                                              \
        *(void **)&next = dlsym(RTLD_NEXT, #symbol);                                               \
    return next != NULL ? next args : CUDA_ERROR_NOT_SUPPORTED;

#define CALL(symbol, params, args, name, version)                                                  \
    API CUresult symbol params;                                                                    \
    CUresult symbol params                                                                         \
    {                                                                                              \
        FORWARD(symbol, params, NULL, args)                                                        \
    }
#define GATE(symbol, params, args, stream, name, version) CALL(symbol, params, args, name, version)
#include "limiter/calls.def"
#include "limiter/gated.def"

/* Of these the arguments have no names: as words they are what they are. */
#define REAL(symbol, params)                                                                       \
    API CUresult symbol(uintptr_t a, uintptr_t b, uintptr_t c, uintptr_t d);                       \
    CUresult symbol(uintptr_t a, uintptr_t b, uintptr_t c, uintptr_t d)                            \
    {                                                                                              \
        FORWARD(symbol, (uintptr_t, uintptr_t, uintptr_t, uintptr_t), __builtin_return_address(0), \
                (a, b, c, d))                                                                      \
    }
#include "limiter/real_only.def"
