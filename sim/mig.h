/* SPDX-License-Identifier: Apache-2.0 */
/*
 * MIG as the driver behaves: modes, placements, occupancy, engines, instances.
 *
 * Pure functions on one card's data; the caller holds the state's lock. Functions that return int
 * return an NVML return code.
 */
#pragma once

#include "sim/hw.h"

/* A span of slices (memory slices of a card, compute slices of a GPU instance). */
struct span {
    unsigned int start, size;
};

/* The live instance with that id, or NULL. */
const struct hw_gi *mig_find_gi(const struct hw_gpu *gpu, uint32_t id);
const struct hw_ci *mig_find_ci(const struct hw_gi *gi, uint32_t id);

/* The live instance with that serial, or NULL. */
struct hw_gi *mig_gi_by_serial(struct hw_gpu *gpu, uint64_t serial);
struct hw_ci *mig_ci_by_serial(struct hw_gi *gi, uint64_t serial);

/*
 * The MIG devices of a card are its compute instances, counted by instance ids. mig_device_at gives
 * the n-th, false after the last; the other finds an instance's number by its serial.
 */
bool mig_device_at(const struct hw_gpu *gpu, unsigned int index, const struct hw_gi **ret_gi,
                   const struct hw_ci **ret_ci);
unsigned int mig_device_index(const struct hw_gpu *gpu, uint64_t ci_serial);

/* The profile of a live GPU instance. */
const struct gi_profile *mig_profile_of(const struct hw_gpu *gpu, const struct hw_gi *gi);

/* Number of live GPU instances of the card. */
unsigned int mig_gi_count(const struct hw_gpu *gpu);

/*
 * Requests a mode. Ampere: the pending mode changes, and *ret_activation is the reason why it is
 * not active yet: RESET_REQUIRED, or IN_USE while instances or processes prevent the reset. Hopper
 * and later: active at once, unless there are instances or processes (IN_USE, mode pending).
 */
int mig_set_mode(struct hw *hw, uint32_t gpu, unsigned int mode, int *ret_activation);

/* Number of further instances of the profile that the card could take now. */
unsigned int mig_remaining(const struct hw_gpu *gpu, const struct gi_profile *p);

/*
 * Creates a GPU instance; with NULL `where` the driver chooses: the free placement that blocks the
 * fewest others, the lowest among equals. *ret_gi points into the card. INVALID_ARGUMENT for a
 * placement that the profile does not have, INSUFFICIENT_RESOURCES for memory slices or engines
 * that are taken.
 */
int mig_create_gi(struct hw *hw, uint32_t gpu, const struct gi_profile *p, const struct span *where,
                  struct hw_gi **ret_gi);

/* Destroys a GPU instance; IN_USE while it has compute instances. */
int mig_destroy_gi(struct hw *hw, uint32_t gpu, struct hw_gi *gi);

/* The same three for compute instances; IN_USE while a process runs inside. */
unsigned int mig_ci_remaining(const struct hw_gi *gi, const struct ci_profile *p);
int mig_create_ci(struct hw *hw, uint32_t gpu, struct hw_gi *gi, const struct ci_profile *p,
                  const struct span *where, struct hw_ci **ret_ci);
int mig_destroy_ci(struct hw *hw, uint32_t gpu, const struct hw_gi *gi, struct hw_ci *ci);
