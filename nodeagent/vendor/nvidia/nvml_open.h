/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "nodeagent/gpu/gpu.h"

/* Opens NVIDIA's back end, which reads and changes cards through NVML. */

struct gpu_watch;
struct nvml_options {
    const char *library;     /* path for dlopen; NULL: libnvidia-ml.so.1 by the loader's rules */
    const char *nvidia_smi;  /* for the reset; NULL: nvidia-smi on PATH */
    const char *proc_root;   /* NULL: /proc. Source of boot_id and process names */
    const char *sys_root;    /* NULL: /sys. Source of NUMA nodes */
    struct gpu_watch *watch; /* suspended while a card is reset; outlives the gpu. NULL: none */
};
/* Opens NVIDIA's cards. Neither the library nor the driver needs to be there yet: each call reports
 * that (ERR_NOT_FOUND), and the next one looks again. Options are copied. Returns 0. */
int gpu_nvml_open(const struct nvml_options *o, struct gpu **ret, struct err *e) MUST_CHECK;
