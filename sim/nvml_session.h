/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One process's side of NVML: initialisation, handles, and the common parts of all calls (session.h
 * has those shared with other vendors' calls).
 *
 * Each NVML function is written
 *
 *    struct call c = {.id = CALL_nvmlDeviceGetName};
 *    int rc = call_enter(&c, device, ON_DEVICE);
 *    if (rc == NVML_SUCCESS)
 *        rc = ...                     (reads c.hw, c.gpu, c.gi, c.ci)
 *    return call_leave(&c, rc);
 *
 * call_enter counts the call, plays the faults and the latency (without any lock), takes the
 * state's lock and resolves the handle. In a call of class MUTATING c.hw is a draft that call_leave
 * commits when rc is SUCCESS. call_leave unlocks, logs and plays kill-after.
 */
#pragma once

#include "sim/hw.h"
#include "sim/nvml.h"
#include "sim/session.h"

/*
 * The kind of handle that a call needs. ON_GPU refuses a MIG device's with INVALID_ARGUMENT;
 * ON_WHOLE refuses it with NOT_SUPPORTED, for questions about whole cards. ON_RESET also accepts a
 * lost card.
 */
enum call_on { ON_NOTHING, ON_GPU, ON_WHOLE, ON_DEVICE, ON_GI, ON_CI };

/* Used by the caller's thread only. The pointers are into the locked hardware, valid until
 * call_leave. */
struct call {
    unsigned int id;
    bool waits; /* set by the caller: it takes the lock itself, as a call that waits must */
    struct hw *hw;
    struct hw_gpu *gpu;
    struct hw_gi *gi; /* NULL unless the handle is an instance's or a MIG device's */
    struct hw_ci *ci;
    uint32_t gpu_index;
    struct turn turn;
};

/* Begins the call `c->id`; SUCCESS, or the return code with which to end it. */
int call_enter(struct call *c, const void *handle, enum call_on on);

/* Ends it; call it in any case. Returns the NVML function's result. */
int call_leave(struct call *c, int rc);

/* Notes the arguments for the log. */
__attribute__((format(printf, 2, 3))) void call_args(struct call *c, const char *format, ...);

/* The open state of this process; valid inside an entered call. */
struct state *session_state(void);

/* Reference-counted; opens the state at the first and closes it at the last. */
int session_init(unsigned int call_id);
int session_shutdown(void);

/* Handles stay valid until the last shutdown; one object always has the same handle. Only inside a
 * call. */
nvmlDevice_t handle_of_gpu(uint32_t gpu);
nvmlGpuInstance_t handle_of_gi(uint32_t gpu, const struct hw_gi *gi);
nvmlComputeInstance_t handle_of_ci(uint32_t gpu, const struct hw_gi *gi, const struct hw_ci *ci);
nvmlDevice_t handle_of_mig(uint32_t gpu, const struct hw_gi *gi, const struct hw_ci *ci);

/* The card of a device handle, HW_NONE for a bad one. For calls with a second device. */
uint32_t handle_gpu(const void *handle);

/* Copies text into a caller's buffer: INSUFFICIENT_SIZE; INVALID_ARGUMENT without a buffer. */
int copy_text(char *buffer, unsigned int size, const char *text);
