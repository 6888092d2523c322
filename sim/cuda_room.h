/* SPDX-License-Identifier: Apache-2.0 */
/* The memory and the contexts that this process has on the cards, and what is left there. Any thread
 * may call anything. */
#pragma once

#include "sim/cuda_session.h"
#include "sim/cuda_shared.h"

/*
 * Takes room on a card, and with it contexts, for this process: OUT_OF_MEMORY where there is no
 * room, DEVICE_UNAVAILABLE where the card is gone, cut into instances, or another process's alone.
 * What a process has is free with its end.
 */
CUresult cuda_reserve(const struct cuda_device *d, uint64_t bytes, unsigned int contexts);
void cuda_give_back(const struct cuda_device *d, uint64_t bytes, unsigned int contexts);

/* Makes bytes of a card that this process has shared ones (cuda_shared.h). False: no more can be
 * shared. */
bool cuda_share(const struct cuda_device *d, uint64_t bytes, struct shared_name *ret);

/*
 * Makes this process a holder of shared bytes, whose name stands where other processes see it. Where
 * nobody holds them any more they are taken anew, if the card has room, and get another name, which is
 * written there before any other process can do the same.
 */
CUresult cuda_hold(const struct cuda_device *d, uint64_t bytes, struct shared_name *there,
                   struct shared_name *ret);

/* Who owns shared bytes. */
struct shared_holder {
    pid_t pid; /* as it is known here; 0: it is not */
    uint32_t gpu;
    uint64_t bytes;
};

/* Makes this process a holder of bytes that their owner has: INVALID_HANDLE when he has them no more. */
CUresult cuda_hold_of_owner(struct shared_name name, struct shared_holder *ret);

/* Ends that; true when no process holds them any more. */
bool cuda_let_go(struct shared_name name);

/* The bytes that programs can have of a card, and what is left of them. */
CUresult cuda_room(const struct cuda_device *d, size_t *ret_free, size_t *ret_total);

/* The card as it is now (its compute mode, say). */
CUresult cuda_gpu_now(const struct cuda_device *d, struct hw_gpu *ret);
