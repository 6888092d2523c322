/* SPDX-License-Identifier: Apache-2.0 */
/*
 * MetaX cards as their driver behaves: slices (sGPU), virtual functions, resets.
 *
 * Pure functions on the locked hardware. Those that return int return an MXSML return code, and set
 * errno for sysfs errors, because on hardware the library writes files of the driver. A card is
 * named by its index among the MetaX cards.
 */
#pragma once

#include "sim/hw.h"

/* The model of a card; never NULL for a card made by a fleet. */
const struct mx_model *mx_model_of(const struct mx_card *card);

/* Makes a card at the end of the list, without a group; the caller has checked that there is
 * room. */
struct mx_card *mx_add(struct hw *hw, const struct mx_model *model);

/* Writes the bus address of a card, or with vf not HW_NONE of a virtual function. size >= 16. */
void mx_bdf(const struct mx_card *card, uint32_t vf, char *ret, size_t size);

/* The path of the same in sysfs, from /sys on. size >= 96. */
void mx_sys_path(const struct mx_card *card, uint32_t vf, char *ret, size_t size);

/* The kernel driver's number of a function: opaque, not 0, each function's own. */
uint32_t mx_gpu_id(const struct mx_card *card, uint32_t vf);

/* The numbers N of /dev/dri/card<N> and /dev/dri/renderD<N>. */
uint32_t mx_dri_card(uint32_t metax, uint32_t vf);
uint32_t mx_dri_render(uint32_t metax, uint32_t vf);

/* The live slice with that id, or NULL. */
struct mx_slice *mx_slice_of(struct mx_card *card, uint32_t id);

/* Sums over the card's slices: how many, MiB, percent. */
struct mx_sums {
    uint32_t count, vram_mib, compute_pct;
};
struct mx_sums mx_sums_of(const struct mx_card *card);

/* Memory in MiB that processes use: on the whole card, or in one slice or virtual function. */
uint32_t mx_used_mib(const struct hw *hw, uint32_t metax, uint32_t slice, uint32_t vf);

/* How many processes are there: likewise. */
uint32_t mx_count_procs(const struct hw *hw, uint32_t metax, uint32_t slice, uint32_t vf);

/* For machine_attach: 0, or an NVML code for why the process cannot run there. */
int mx_place_exists(const struct hw *hw, const struct hw_proc *proc);

/* Switches sGPU on or off: BUSY_DEVICE while there are slices or processes, NOT_SUPPORT with
 * VFs. */
int mx_set_toggle(struct hw *hw, uint32_t metax, uint32_t toggle);

/* Makes a slice with the lowest free id. SYSFS_WRITE_ERROR for a quota that the card cannot
 * give. */
int mx_create(struct hw *hw, uint32_t metax, uint32_t vram_mib, uint32_t compute_pct,
              uint32_t *ret_id);

/* BUSY_DEVICE while a process runs in it. */
int mx_remove(struct hw *hw, uint32_t metax, uint32_t id);

/* Changes a quota of a live slice. */
int mx_set_vram(struct hw *hw, uint32_t metax, uint32_t id, uint32_t vram_mib);
int mx_set_compute(struct hw *hw, uint32_t metax, uint32_t id, uint32_t compute_pct);

/* Changes the priority (0 low, 1 high) or the alias of a live slice. */
int mx_set_priority(struct hw *hw, uint32_t metax, uint32_t id, uint32_t priority);
int mx_set_alias(struct hw *hw, uint32_t metax, uint32_t id, const char *alias);

/* Sets the settings that the card's slices share. */
int mx_set_class(struct hw *hw, uint32_t metax, uint32_t sched_class);
int mx_set_timeslice(struct hw *hw, uint32_t metax, uint32_t timeslice_ms);

/* True when the card has neither processes nor slices. */
bool mx_is_idle(const struct hw *hw, uint32_t metax);

/* Warm reset of the card and of all cards that MetaXLink joins to it: BUSY_DEVICE unless all are
 * idle. */
int mx_reset(struct hw *hw, uint32_t metax);

/* Function level reset of the card, or of one virtual function: BUSY_DEVICE unless idle. */
int mx_flr(struct hw *hw, uint32_t metax, uint32_t vf);

/* Divides a card into 1, 2, 4 or 8 virtual functions, or with 0 makes it whole again. */
int mx_set_vfs(struct hw *hw, uint32_t metax, uint32_t count);

/* Removes slices, processes and virtual functions, switches sGPU off, and clears the counters. */
void mx_reboot(struct hw *hw);
