/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdint.h>

#include "base/auto.h"

/*
 * Time is injected. Its kinds never share a variable: `mono_ms` counts from an arbitrary start and
 * measures durations, `boot_ms` is the same and goes on while the machine is suspended (for what
 * others agree on meanwhile, such as a lease), `wall_ms` is Unix time and is only ever shown or
 * stored.
 * clock_real() is immutable and shared by all threads; a fake clock may be advanced from any
 * thread.
 */
struct clock;

const struct clock *clock_real(void);
int64_t clock_mono_ms(const struct clock *c);
int64_t clock_boot_ms(const struct clock *c);
int64_t clock_wall_ms(const struct clock *c);

/* A clock that stands still until told. Caller frees with clock_free. */
struct clock *clock_fake_new(int64_t wall_ms);
void clock_fake_advance(struct clock *c, int64_t ms);
/* As a machine that slept for so long: mono_ms stands still. */
void clock_fake_suspend(struct clock *c, int64_t ms);
struct clock *clock_free(struct clock *c);

AUTO_DEFINE_PTR(clock, struct clock, clock_free)
#define auto_clock AUTO_PTR(clock)
