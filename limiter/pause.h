/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <sys/syscall.h>
#include <unistd.h>

#include "limiter/mono.h"

/* Sleeps so long, or until a signal comes. The call itself, and not the C library's: a thread that
 * is cancelled is cancelled where the program knows. */
static inline void pause_ns(uint64_t ns)
{
    const struct timespec time = mono_span(ns);
    (void)syscall(SYS_nanosleep, &time, NULL);
}
