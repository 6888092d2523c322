/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/err.h"

/*
 * The process that waits for NVML's events and writes each one to a descriptor, as a struct
 * gpu_event. It is a process because nothing else can end its wait: NVML has no call for that. A
 * waiting session would keep a card from being reset, and a second session in one process would
 * keep the first from being renewed.
 */

/* Registers every card of this machine and reports for each whether it is watched. A registration
 * that failed is repeated, unless the answer was "not supported". Then reports events, and that it
 * is alive once in beat_ms in which the driver reported none, until the driver ends the wait (0) or
 * the reader is gone. library: as nvml_options. Blocks, mostly in nvmlEventSetWait; for the only
 * thread of a process. ERR_NOT_FOUND: no library or driver. */
int nvml_events_run(const char *library, int beat_ms, int out_fd, struct err *e) MUST_CHECK;
