/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One process's side of NVML: initialisation, handles, and what every call has in common with the
 * others (session.h has what it shares with other vendors' calls).
 *
 * Each NVML function is written
 *
 *     struct call c = {.id = CALL_nvmlDeviceGetName};
 *     int rc = call_enter(&c, device, ON_DEVICE);
 *     if (rc == NVML_SUCCESS)
 *         rc = ...                     (reads c.hw, c.gpu, c.gi, c.ci)
 *     return call_leave(&c, rc);
 *
 * call_enter counts the call, plays the faults and the latency (without any lock), takes the
 * state's lock and resolves the handle. In a call of class MUTATING c.hw is a draft that
 * call_leave commits when rc is SUCCESS. call_leave unlocks, logs and plays kill-after.
 */
#pragma once

#include "sim/hw.h"
#include "sim/nvml.h"
#include "sim/session.h"

/*
 * What the handle must be. A MIG device's is refused by ON_GPU with INVALID_ARGUMENT, and by
 * ON_WHOLE with NOT_SUPPORTED: what can only be asked of a whole card. ON_RESET reaches a lost
 * card.
 */
enum call_on { ON_NOTHING, ON_GPU, ON_WHOLE, ON_DEVICE, ON_GI, ON_CI };

/* One thread: the caller's. The pointers are into the locked hardware, valid until call_leave. */
struct call {
    unsigned int id;
    bool waits; /* set by the caller: takes the lock by itself, as a call that waits must */
    struct hw *hw;
    struct hw_gpu *gpu;
    struct hw_gi *gi; /* NULL unless the handle is of an instance or a MIG device */
    struct hw_ci *ci;
    uint32_t gpu_index;
    struct turn turn;
};

/* Begins the call `c->id`; SUCCESS, or the return code with which to leave it. */
int call_enter(struct call *c, const void *handle, enum call_on on);

/* Ends it; always to be called, and returns what the NVML function returns. */
int call_leave(struct call *c, int rc);

/* Notes the arguments for the log. */
__attribute__((format(printf, 2, 3))) void call_args(struct call *c, const char *format, ...);

/* The state this process has open; valid inside an entered call. */
struct state *session_state(void);

/* Reference-counted; opens the state at the first and closes it at the last. */
int session_init(unsigned int call_id);
int session_shutdown(void);

/* Handles stay valid until the last shutdown; the same thing has the same handle. In a call only.
 */
nvmlDevice_t handle_of_gpu(uint32_t gpu);
nvmlGpuInstance_t handle_of_gi(uint32_t gpu, const struct hw_gi *gi);
nvmlComputeInstance_t handle_of_ci(uint32_t gpu, const struct hw_gi *gi, const struct hw_ci *ci);
nvmlDevice_t handle_of_mig(uint32_t gpu, const struct hw_gi *gi, const struct hw_ci *ci);

/* The card behind a device handle, HW_NONE for garbage. For calls that take a second device. */
uint32_t handle_gpu(const void *handle);

/* Copies text into a caller's buffer: INSUFFICIENT_SIZE, INVALID_ARGUMENT for no buffer. */
int copy_text(char *buffer, unsigned int size, const char *text);
