/* SPDX-License-Identifier: Apache-2.0 */
/* Where memory is to be, and how it is to be handed to other processes, as pools and physical memory
 * are asked for it. */
#pragma once

#include "sim/cuda_session.h"

/* Begins a call that concerns the device of a location, if it is one; NULL: it is none. */
CUresult location_enter(struct cuda_call *c, const CUmemLocation *l);

/* SUCCESS for a device that is seen, the host and its NUMA nodes; INVALID_DEVICE, INVALID_VALUE. */
CUresult location_check(const CUmemLocation *l);

/* Can memory of a place be handed on in this way? INVALID_VALUE, or NOT_PERMITTED. */
CUresult location_check_handles(const CUmemLocation *l, int handle_types);
