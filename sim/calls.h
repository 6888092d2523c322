/* SPDX-License-Identifier: Apache-2.0 */
/* The table of calls: an index, a name and a class for each function of each library. */
#pragma once

#include <stdbool.h>

enum call_class { CALL_LIFE, CALL_QUERY, CALL_MUTATING };

#define CALL(name, class)                CALL_##name,
#define CUDA(symbol, class, name, since) CALL_##symbol,
enum call_id {
#include "sim/calls.def"
#include "sim/cuda_calls.def"
#include "sim/mxsml_calls.def"
    CALL_COUNT
};
#undef CALL
#undef CUDA

/* The name of a call; borrowed, static. */
const char *call_name(unsigned int id);

/* The library that a call belongs to; its return codes are that library's. */
enum call_library { LIBRARY_ANY, LIBRARY_NVML, LIBRARY_CUDA, LIBRARY_MXSML, LIBRARY_COUNT };
enum call_library call_library_of(unsigned int id);

/* The class of a call. */
enum call_class call_class_of(unsigned int id);

/*
 * Finds a call by its name or one of its older names ("nvmlInit", "nvmlDeviceGetCount"). The
 * leading "nvml", "cu" or "mxSml" may be left out: then the libraries are searched in this order.
 * Of the versions of one of CUDA's functions the newest is meant, unless the symbol says which.
 * Returns CALL_COUNT when there is none.
 */
unsigned int call_find(const char *name);
