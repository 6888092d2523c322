/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdint.h>
#include <sys/types.h>

#include "base/auto.h"

/*
 * Injected time, in three kinds that never share a variable: `mono_ms` counts from an arbitrary
 * start and measures durations; `boot_ms` does the same and continues while the machine is
 * suspended (for deadlines that other machines count too, such as a lease); `wall_ms` is Unix time
 * and is only shown or stored. clock_real() is immutable and shared by all threads; a fake clock
 * may be advanced from any thread.
 */
struct clock;

const struct clock *clock_real(void);
int64_t clock_mono_ms(const struct clock *c);
int64_t clock_mono_us(const struct clock *c); /* the same clock, for what takes less than some ms */
int64_t clock_boot_ms(const struct clock *c);
int64_t clock_wall_ms(const struct clock *c);

/* The processor time that a process has used; 0 when there is none of this number. */
int64_t clock_used_ms(pid_t pid);

/* A clock that changes only through the functions below. Caller frees with clock_free. */
struct clock *clock_fake_new(int64_t wall_ms);
void clock_fake_advance(struct clock *c, int64_t ms);
/* Simulates a suspended machine: boot_ms and wall_ms advance, mono_ms does not. */
void clock_fake_suspend(struct clock *c, int64_t ms);
struct clock *clock_free(struct clock *c);

AUTO_DEFINE_PTR(clock, struct clock, clock_free)
#define auto_clock AUTO_PTR(clock)
