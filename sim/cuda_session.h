/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One process's side of CUDA: initialisation, the devices it sees, and the common parts of all
 * calls. What they share with other libraries' calls is in session.h.
 *
 * Each function of the API is written
 *
 *    struct cuda_call c = {.id = CALL_cuDeviceGetName};
 *    CUresult rc = cuda_enter_device(&c, device);
 *    if (rc == CUDA_SUCCESS)
 *        rc = ...
 *    return cuda_leave(&c, rc);
 *
 * Any thread may call anything; a child of a fork is refused with NOT_INITIALIZED once its parent
 * was initialised.
 */
#pragma once

#include <stdbool.h>

#include "sim/cuda.h"
#include "sim/session.h"

/* Fixed from cuInit on. */
struct cuda_device {
    uint32_t gpu; /* its index in the hardware */
    const struct model *model;
    char uuid[48]; /* "GPU-..." */
    uint32_t domain, bus, device;
};

struct cuda_call {
    unsigned int id;
    struct turn turn;
};

/* The call cuInit. Repeated ones initialise nothing more. */
CUresult cuda_init(void);

/* Begins the call `c->id`; SUCCESS, or the code with which to end it. */
CUresult cuda_enter(struct cuda_call *c);

/* The same for one that concerns a device: INVALID_DEVICE for none that is seen. */
CUresult cuda_enter_device(struct cuda_call *c, CUdevice device);

/* Ends it; call it in any case. Returns the function's result. */
CUresult cuda_leave(struct cuda_call *c, CUresult rc);

/* Notes the arguments for the log. */
__attribute__((format(printf, 2, 3))) void cuda_args(struct cuda_call *c, const char *format, ...);

/* While it is on, calls of this thread are refused with NOT_PERMITTED: the driver has called it. */
void cuda_forbid_calls(bool on);

/* The devices that are seen. */
int cuda_device_count(void);
const struct cuda_device *cuda_device_at(CUdevice device);

/* This thread's number, which no other has. */
uint64_t cuda_thread(void);

/* Has it fallen off the bus? As it was a moment ago, without a lock. */
bool cuda_device_is_lost(const struct cuda_device *d);

/* The state's path; NULL: the state is this process's own. Fixed from cuInit on. */
const char *cuda_state_path(void);

/* The number of this process's row among those of CUDA. Fixed from cuInit on. */
uint32_t cuda_row(void);

/* The driver's version of CUDA, as 1000 × major + 10 × minor; needs no cuInit. */
int cuda_driver_version(void);

/* Locks the state for what CUDA's processes have (state_lock_cuda); cuda_unlock in any case. */
struct cuda_rows *cuda_lock(const struct hw **ret_hw);
void cuda_unlock(void);
