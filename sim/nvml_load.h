/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How busy a card is, and what follows from it. It has CUDA's kernels (cuda_timeslice.h), and what
 * attached processes do (hw.h). Call these inside an entered call; no counter ever falls.
 */
#pragma once

#include "sim/nvml_session.h"

/* Percent of the last second, or of now for attached processes. */
unsigned int load_percent(const struct call *c);
unsigned int load_of_process(const struct call *c, const struct hw_proc *p);

/* The time that the work took until now (of timeslices_now): of the card (gi NULL), or of an
 * instance. */
int64_t load_ns(const struct call *c, const struct hw_gi *gi, int64_t now_ns);

unsigned int load_power_mw(const struct call *c);
unsigned int load_celsius(const struct call *c);
/* The clocks rise with any work, and fall where it takes all the power that there is, or heats the
 * card too much. */
unsigned int load_sm_mhz(const struct call *c);
unsigned int load_memory_mhz(const struct call *c);
/* Why they are as they are: bits of nvmlClocksEventReason…. */
unsigned long long load_clock_reasons(const struct call *c);
/* For how long they were held down; of attached processes alone. */
unsigned long long load_held_ns(const struct call *c, enum hw_hold why);
/* The integral of the power since the boot of this machine. */
unsigned long long load_energy_mj(const struct call *c);
/* Through all NVLinks in one direction, in KiB. */
unsigned long long load_nvlink_kib(const struct call *c);
