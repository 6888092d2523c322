/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The machine around the cards: processes come and go, cards are reset, the whole machine reboots.
 *
 * Functions on the hardware's data; the caller holds the state's lock.
 */
#pragma once

#include "sim/hw.h"

/* Puts a process on a card; 0 or an NVML return code (no such place, table full). */
int machine_attach(struct hw *hw, const struct hw_proc *proc);

/* Takes the process off every card (or off `gpu` alone, unless HW_NONE); how many entries went. */
unsigned int machine_detach(struct hw *hw, uint32_t pid, uint32_t gpu);

/*
 * Resets a card, as `nvidia-smi --gpu-reset` does: refused with IN_USE while a process is on it,
 * else instances are gone, pending modes hold, volatile counters are zero.
 */
int machine_reset(struct hw *hw, uint32_t gpu);

/*
 * Reboots: instances, slices and processes are gone; Ampere's MIG mode is the pending one
 * (InfoROM), Hopper and later come up with MIG off, MetaX cards with sGPU off; a new boot id.
 */
void machine_reboot(struct hw *hw);
