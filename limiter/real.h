/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The real library's functions, behind the names that this one has, too. It is a dependency of this
 * library, so that it stands next in every search.
 */
#pragma once

#include "limiter/cuda_abi.h"

#define LIMITER_API __attribute__((visibility("default")))

/* NOT_SUPPORTED is the answer of those that an older driver lacks. */
struct real {
#define CALL(symbol, params, args, name, version)         CUresult(*symbol) params;
#define GATE(symbol, params, args, stream, name, version) CUresult(*symbol) params;
#include "limiter/calls.def"
#include "limiter/gated.def"
#undef CALL
#undef GATE
};
extern struct real real;

#define CALL(symbol, params, args, name, version)         LIMITER_API CUresult symbol params;
#define GATE(symbol, params, args, stream, name, version) LIMITER_API CUresult symbol params;
#include "limiter/calls.def"
#include "limiter/gated.def"
#undef CALL
#undef GATE

/* Functions that it calls and leaves as they are. */
struct real_only {
#define REAL(symbol, params) CUresult(*symbol) params;
#include "limiter/real_only.def"
#undef REAL
};
extern struct real_only also;
