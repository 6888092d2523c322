/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The machine around the cards: processes, resets of cards, reboots.
 *
 * Functions on the hardware's data; the caller holds the state's lock.
 */
#pragma once

#include "sim/hw.h"

/* Puts a process on a card; 0 or an NVML return code (no such place, table full). */
int machine_attach(struct hw *hw, const struct hw_proc *proc);

/* Removes the process from every card (or only from `gpu`, unless HW_NONE); returns the number of
 * removed entries. */
unsigned int machine_detach(struct hw *hw, uint32_t pid, uint32_t gpu);

/*
 * Resets a card, as `nvidia-smi --gpu-reset` does: refused with IN_USE while a process is on it;
 * else instances are gone, pending modes are active, and volatile counters are zero.
 */
int machine_reset(struct hw *hw, uint32_t gpu);

/*
 * Reboots. Instances, slices and processes are gone. Ampere's MIG mode becomes the pending one
 * (InfoROM), Hopper and later start with MIG off, MetaX cards with sGPU off. There is a new boot
 * id.
 */
void machine_reboot(struct hw *hw);
