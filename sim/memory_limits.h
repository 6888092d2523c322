/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Limits of a card's memory for cgroups (NVIDIA's driver from 615 on): which there are, and which of
 * them counts for a cgroup. A limit belongs to a folder, not to its name: it is gone with the
 * folder, and one that is made anew under the name has none.
 *
 * What is assumed: MPS v3's page on memory partitioning tells of two back ends. "dmem" is the
 * kernel's controller, whose limits are a cgroup's own, and which a cgroup may not have; "misc" is
 * the driver's own account, where the nearest cgroup upwards that has a limit counts.
 */
#pragma once

#include "sim/hw.h"

/* No limit: the hard one of a card's capacity. */
#define LIMITS_MAX UINT64_MAX

struct limits {
    uint64_t soft, hard; /* bytes */
};

/*
 * Sets the limits of the cgroup whose folder is `path`, or removes them (0 and LIMITS_MAX). An NVML
 * return code: FUNCTION_NOT_FOUND by a driver before 615; NOT_SUPPORTED where it keeps no account, and
 * for what is no cgroup of version 2; NOT_FOUND without such a folder, or without the kernel's
 * controller in it; INVALID_ARGUMENT; INSUFFICIENT_RESOURCES.
 */
int limits_set(struct hw *hw, uint32_t gpu, const char *path, const struct limits *limits);

/* The limits that count for the cgroup. NOT_SUPPORTED also where none does ("misc"). */
int limits_get(const struct hw *hw, uint32_t gpu, const char *path, struct limits *ret);

/* True when the limit is still there: so is the folder that it was set on. */
bool limits_holds(const struct hw_limit *l);
