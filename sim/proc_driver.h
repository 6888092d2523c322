/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The NVIDIA driver's files in the fake /proc below CLEAVE_SIM_PROC: devices,
 * driver/nvidia/{version,params,gpus/<bus id>/information}, driver/nvidia-caps/mig-minors, and
 * driver/nvidia/capabilities/, whose files come and go with the instances.
 *
 * Call with the state locked. Without CLEAVE_SIM_PROC all functions do nothing and return true.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "sim/hw.h"

/* Character majors. NVIDIA's own is 195. The other two are dynamic on a real machine; here they are
 * from the range for local use (Linux Documentation/admin-guide/devices.txt), so that a device file
 * made from them leads to no other driver. */
#define PROC_MAJOR_NVIDIA 195
#define PROC_MAJOR_CAPS   240
#define PROC_MAJOR_UVM    241
#define PROC_MAJOR_METAX  242 /* mxcd, mxnd, mxgd */
#define PROC_MAJOR_DRM    226

/* The capability minor of a GPU instance, or with ci not HW_NONE of a compute instance; each is
 * unique. Numbered as by the driver: 15 GPU instances for each card with 8 compute instances each,
 * from 3 on (MIG user guide, "Device Nodes and Capabilities": gpu0/gi0/access 3,
 * gpu0/gi0/ci0/access 4, gpu0/gi1/access 12). */
uint32_t proc_cap_minor(uint32_t gpu_minor, uint32_t gi, uint32_t ci);

/* Writes the files that stay the same from one boot to the next. False, with errno set, when a file
 * cannot be written. */
bool proc_driver_load(const struct hw *hw);

/* Makes the capability files of a card (HW_NONE: of all) agree with its instances. */
bool proc_driver_sync(const struct hw *hw, uint32_t gpu);
