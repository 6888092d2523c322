/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdint.h>
#include <time.h>

#define MONO_MS UINT64_C(1000000)
#define MONO_S  UINT64_C(1000000000)

/* CLOCK_MONOTONIC. */
static inline uint64_t mono_ns(void)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * MONO_S + (uint64_t)t.tv_nsec;
}

static inline struct timespec mono_span(uint64_t ns)
{
    return (struct timespec){.tv_sec = (time_t)(ns / MONO_S), .tv_nsec = (long)(ns % MONO_S)};
}
