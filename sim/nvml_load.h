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
/* The integral of the power since the boot of this machine. */
unsigned long long load_energy_mj(const struct call *c);
/* Through all NVLinks in one direction, in KiB. */
unsigned long long load_nvlink_kib(const struct call *c);
