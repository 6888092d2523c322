/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/err.h"

/*
 * The process that waits for NVML's events and writes each as a struct gpu_event to a descriptor.
 * It is a process of its own because its wait can be ended in no other way than with it: NVML has
 * no call for that, a session that waits would keep a card from being reset, and a second session
 * within one process would keep the first from being renewed.
 */

/* Registers every card of this machine, says of each whether it is watched (again of one that
 * failed and was tried again, which other errors than "not supported" are), and reports events
 * until the driver ends the wait (0) or the reader is gone. library: as nvml_options. Blocks,
 * mostly in nvmlEventSetWait; for a process's only thread. ERR_NOT_FOUND: no library or driver. */
int nvml_events_run(const char *library, int out_fd, struct err *e) MUST_CHECK;
