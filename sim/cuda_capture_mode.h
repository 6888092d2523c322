/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The modes of captures, and of threads: who may call, while something is captured, what no capture sees.
 * Guarded by the contexts' lock, but for a thread's own mode.
 */
#pragma once

#include "sim/cuda_session.h"

/* What a capture keeps from whom: a part of it. */
struct capture_mode {
    struct capture_mode *next;
    uint64_t thread; /* that began it */
    int mode;
    bool is_valid; /* false: something has invalidated the capture */
};

/* While it lasts. */
void capture_mode_begin(struct capture_mode *m);
void capture_mode_end(const struct capture_mode *m);

/* Sets this thread's mode, and returns the one before. */
int capture_mode_exchange(int mode);

/* UNSUPPORTED where a capture keeps this thread from what it is about to do; the capture is invalid then. */
CUresult capture_mode_check(void);

/* The same for a call, if it is of that kind. */
CUresult capture_mode_check_call(unsigned int call);
