/* SPDX-License-Identifier: Apache-2.0 */
/* CUDA's devices and contexts, as cards of the container's share. */
#pragma once

#include <stdbool.h>

#include "limiter/cuda_abi.h"

/* Reads the devices. After the real cuInit. One that cannot be told is an error, and might be one
 * of the share's. */
CUresult devices_read(void);
/* They are read, and this process has its share. Until then nothing may be allocated. */
bool devices_are_ready(void);

/* Devices from here on are none of the share's. */
enum { DEVICES_MAX = 64 };
/* How many devices there are, at most so many. */
int devices_count(void);

/* The device's card in the share's terms; -1: it is none of the share's. */
int card_of_device(CUdevice device);

/* The calling thread's context, and its card. */
struct here {
    CUcontext context;
    int card;
    bool is_unknown; /* the context; it may end without a word */
};
/* INVALID_CONTEXT and others as the real library has them; NOT_INITIALIZED while this process has
 * no share. */
CUresult here_now(struct here *ret);
