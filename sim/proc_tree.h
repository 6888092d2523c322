/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A fake /proc below CLEAVE_SIM_PROC, where that is set. It has <pid>/cgroup, <pid>/comm and
 * sys/kernel/random/boot_id, for programs that look up a pid's owner, and the NVIDIA driver's files
 * (proc_driver.h).
 *
 * Call with the state locked. Functions that return bool return false, with errno set, when a file
 * could not be written; without CLEAVE_SIM_PROC they do nothing and return true.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "sim/hw.h"

struct proc_facts {
    uint32_t pid;
    const char *name, *pod_uid, *container; /* the last two may be NULL */
};

/* Brings the boot id and the driver's files (proc_driver.h) up to date: all where the boot is a new
 * one, the capability files where they are older than the hardware. */
bool proc_tree_boot(const struct hw *hw, bool is_old);

/* A process on several cards has one entry: the pod of an earlier call stays. */
bool proc_tree_add(const struct proc_facts *facts);

/* Removes one entry, or all of them. */
void proc_tree_remove(uint32_t pid);
void proc_tree_remove_all(void);
