/* SPDX-License-Identifier: Apache-2.0 */
/* Fleets: the YAML description from which a new state file is made. sim/README.md lists the
 * keys. */
#pragma once

#include "sim/state.h"

/*
 * A state_fill_fn: reads the fleet file at the path `arg` into the new state file. Faults are
 * reported on standard error; returns 0 or DRIVER_NOT_LOADED.
 */
int fleet_fill(void *arg, struct state_file *file);

/* Sets a latency by call name ("*" for all); false for an unknown name. */
bool latency_set(struct state_file *file, const char *name, uint32_t us);

/* Sets how many percent of a call's latency the driver-wide lock covers, by call name ("*" for
 * all); false for an unknown name. At first 0: calls on different cards run side by side. */
bool driver_lock_set(struct state_file *file, const char *name, uint32_t percent);

/* "0" to "100"; false for anything else. */
bool driver_lock_parse(const char *text, uint32_t *ret_percent);

/* "none", "realistic"; false for another word. */
bool latency_preset(struct state_file *file, const char *name);

/* "150", "150ms" (both ms), "20us", "1.5s"; false for anything else. */
bool latency_parse(const char *text, uint32_t *ret_us);
