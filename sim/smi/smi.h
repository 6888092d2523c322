/* SPDX-License-Identifier: Apache-2.0 */
/* The nvidia-smi look-alike: a plain NVML client. One thread. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "sim/nvml_calls.h"

#define SMI_MAX_GPUS  64
#define SMI_MAX_ITEMS 64

/* One card that the command concerns. */
struct smi_gpu {
    unsigned int index;
    nvmlDevice_t device;
    char name[96];
    char uuid[96];
    char bus_id[32];
};

struct smi {
    struct smi_gpu gpus[SMI_MAX_GPUS]; /* all cards, or those of -i */
    unsigned int count;
    bool create_ci;              /* -C */
    const char *gi_ids, *ci_ids; /* -gi, -ci: comma lists, or NULL for all */
};

/* Each command prints the real tool's output and returns its exit code. */
int smi_table(const struct smi *s);
int smi_list(const struct smi *s);
int smi_set_mig(const struct smi *s, const char *mode);
int smi_reset(const struct smi *s);
int smi_list_gi_profiles(const struct smi *s);
int smi_list_gi_placements(const struct smi *s);
int smi_list_gis(const struct smi *s);
int smi_list_ci_profiles(const struct smi *s);
int smi_list_cis(const struct smi *s);
int smi_create_gis(const struct smi *s, const char *profiles);
int smi_create_cis(const struct smi *s, const char *profiles);
int smi_destroy_gis(const struct smi *s);
int smi_destroy_cis(const struct smi *s);

/* Calls `fn` for each live GPU instance of the card, in order of placement. */
typedef void smi_gi_fn(void *arg, const struct smi_gpu *gpu, nvmlGpuInstance_t gi,
                       const nvmlGpuInstanceInfo_t *info);
void smi_each_gi(const struct smi_gpu *gpu, smi_gi_fn *fn, void *arg);

/* The same for each compute instance of a GPU instance. */
typedef void smi_ci_fn(void *arg, const struct smi_gpu *gpu, const nvmlGpuInstanceInfo_t *gi,
                       nvmlComputeInstance_t ci, const nvmlComputeInstanceInfo_t *info);
void smi_each_ci(const struct smi_gpu *gpu, nvmlGpuInstance_t gi,
                 const nvmlGpuInstanceInfo_t *gi_info, smi_ci_fn *fn, void *arg);

/* True when `id` is in a comma list, or there is no list. */
bool smi_listed(const char *list, unsigned int id);

/* The driver's name of an instance's profile, with "MIG ". */
void smi_gi_name(const struct smi_gpu *gpu, unsigned int profile_id, char *ret_name, size_t size);
void smi_ci_name(nvmlGpuInstance_t gi, unsigned int profile_id, char *ret_name, size_t size);
