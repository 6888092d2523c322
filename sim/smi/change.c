/* SPDX-License-Identifier: Apache-2.0 */
/* `nvidia-smi mig`: creating and destroying instances. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sim/smi/smi.h"

/* A profile argument: "19", "1g.10gb" or "MIG 1g.10gb", optionally with ":START". */
struct wish {
    char profile[64];
    bool placed;
    unsigned int start;
};

static const char *next_wish(const char *at, struct wish *ret)
{
    size_t length = strcspn(at, ",");
    size_t name = strcspn(at, ",:");
    (void)snprintf(ret->profile, sizeof(ret->profile), "%.*s", (int)name, at);
    ret->placed = name < length;
    ret->start = ret->placed ? (unsigned int)strtoul(at + name + 1, NULL, 10) : 0;
    return at + length + (at[length] == ',');
}

static bool names(const char *wanted, const char *name, unsigned int id)
{
    char *end = NULL;
    unsigned long number = strtoul(wanted, &end, 10);
    if (end != wanted && *end == '\0')
        return number == id;
    return strcmp(wanted, name) == 0 || (strlen(name) > 4 && strcmp(wanted, name + 4) == 0);
}

static bool find_profile(const struct smi_gpu *gpu, const char *wanted,
                         nvmlGpuInstanceProfileInfo_v2_t *ret)
{
    for (unsigned int e = 0; e < NVML_GPU_INSTANCE_PROFILE_COUNT; e++) {
        *ret = (nvmlGpuInstanceProfileInfo_v2_t){0};
        ret->version = NVML_STRUCT_VERSION(sizeof(*ret), 2U);
        if (nvmlDeviceGetGpuInstanceProfileInfoV(gpu->device, e, ret) == NVML_SUCCESS &&
            names(wanted, ret->name, ret->id))
            return true;
    }
    return false;
}

static bool find_ci_profile(nvmlGpuInstance_t gi, const char *wanted,
                            nvmlComputeInstanceProfileInfo_v2_t *ret)
{
    for (unsigned int e = 0; e < NVML_COMPUTE_INSTANCE_PROFILE_COUNT; e++) {
        *ret = (nvmlComputeInstanceProfileInfo_v2_t){0};
        ret->version = NVML_STRUCT_VERSION(sizeof(*ret), 2U);
        if (nvmlGpuInstanceGetComputeInstanceProfileInfoV(gi, e, 0, ret) == NVML_SUCCESS &&
            names(wanted, ret->name, ret->id))
            return true;
    }
    return false;
}

static int create_ci(const struct smi_gpu *gpu, nvmlGpuInstance_t gi, unsigned int gi_id,
                     const nvmlComputeInstanceProfileInfo_v2_t *p)
{
    nvmlComputeInstance_t ci = NULL;
    nvmlComputeInstanceInfo_t info = {0};
    int rc = nvmlGpuInstanceCreateComputeInstance(gi, p->id, &ci);
    if (rc != NVML_SUCCESS) {
        (void)printf("Unable to create a compute instance on GPU %2u GPU instance ID %2u using "
                     "profile %u: %s\n",
                     gpu->index, gi_id, p->id, nvmlErrorString(rc));
        return rc;
    }
    (void)nvmlComputeInstanceGetInfo_v2(ci, &info);
    (void)
        printf("Successfully created compute instance ID %2u on GPU %2u GPU instance ID %2u using "
               "profile %s (ID %2u)\n",
               info.id, gpu->index, gi_id, p->name, p->id);
    return 0;
}

/* Creates the compute instance that fills the GPU instance: as many slices as the instance's
 * profile. */
static int create_whole_ci(const struct smi_gpu *gpu, nvmlGpuInstance_t gi, unsigned int gi_id,
                           unsigned int slices)
{
    for (unsigned int e = 0; e < NVML_COMPUTE_INSTANCE_PROFILE_COUNT; e++) {
        nvmlComputeInstanceProfileInfo_v2_t p = {0};
        p.version = NVML_STRUCT_VERSION(sizeof(p), 2U);
        if (nvmlGpuInstanceGetComputeInstanceProfileInfoV(gi, e, 0, &p) == NVML_SUCCESS &&
            p.sliceCount == slices)
            return create_ci(gpu, gi, gi_id, &p);
    }
    return NVML_ERROR_NOT_FOUND;
}

static int create_at(const struct smi_gpu *gpu, unsigned int id, const struct wish *w,
                     nvmlGpuInstance_t *gi)
{
    nvmlGpuInstancePlacement_t at[SMI_MAX_ITEMS];
    unsigned int n = SMI_MAX_ITEMS;
    if (!w->placed)
        return nvmlDeviceCreateGpuInstance(gpu->device, id, gi);
    int rc = nvmlDeviceGetGpuInstancePossiblePlacements_v2(gpu->device, id, at, &n);
    if (rc != NVML_SUCCESS || n == 0)
        return rc;
    at[0].start = w->start;
    return nvmlDeviceCreateGpuInstanceWithPlacement(gpu->device, id, &at[0], gi);
}

static int create_gi(const struct smi *s, const struct smi_gpu *gpu, const struct wish *w)
{
    nvmlGpuInstanceProfileInfo_v2_t p;
    nvmlGpuInstance_t gi = NULL;
    nvmlGpuInstanceInfo_t info = {0};
    int rc = NVML_ERROR_INVALID_ARGUMENT;
    if (find_profile(gpu, w->profile, &p))
        rc = create_at(gpu, p.id, w, &gi);
    if (rc != NVML_SUCCESS) {
        (void)printf("Unable to create a GPU instance on GPU %2u using profile %s: %s\n",
                     gpu->index, w->profile, nvmlErrorString(rc));
        return rc;
    }
    (void)nvmlGpuInstanceGetInfo(gi, &info);
    (void)printf("Successfully created GPU instance ID %2u on GPU %2u using profile %s (ID %2u)\n",
                 info.id, gpu->index, p.name, p.id);
    return s->create_ci ? create_whole_ci(gpu, gi, info.id, p.sliceCount) : 0;
}

int smi_create_gis(const struct smi *s, const char *profiles)
{
    struct wish w;
    for (unsigned int i = 0; i < s->count; i++) {
        for (const char *at = profiles; *at != '\0';) {
            at = next_wish(at, &w);
            int rc = create_gi(s, &s->gpus[i], &w);
            if (rc == 0)
                continue;
            (void)printf("Failed to create GPU instances: %s\n", nvmlErrorString(rc));
            return rc;
        }
    }
    return 0;
}

/* The argument of a walk over instances. */
struct change {
    const struct smi *smi;
    const char *profiles; /* NULL: the one that fills the instance */
    unsigned int done;
    int rc;
};

static void create_cis_in(void *arg, const struct smi_gpu *gpu, nvmlGpuInstance_t gi,
                          const nvmlGpuInstanceInfo_t *info)
{
    struct change *c = arg;
    struct wish w;
    if (!smi_listed(c->smi->gi_ids, info->id) || c->rc != 0)
        return;
    c->done++;
    if (c->profiles == NULL) {
        nvmlGpuInstanceProfileInfo_v2_t p = {0};
        p.version = NVML_STRUCT_VERSION(sizeof(p), 2U);
        (void)nvmlDeviceGetGpuInstanceProfileInfoByIdV(gpu->device, info->profileId, &p);
        c->rc = create_whole_ci(gpu, gi, info->id, p.sliceCount);
        return;
    }
    for (const char *at = c->profiles; *at != '\0' && c->rc == 0;) {
        nvmlComputeInstanceProfileInfo_v2_t p;
        at = next_wish(at, &w);
        c->rc = find_ci_profile(gi, w.profile, &p) ? create_ci(gpu, gi, info->id, &p)
                                                   : NVML_ERROR_INVALID_ARGUMENT;
    }
}

static int report_failure(const struct change *c, const char *verb, const char *what)
{
    int rc = c->done == 0 && c->rc == 0 ? NVML_ERROR_NOT_FOUND : c->rc;
    if (rc != 0)
        (void)printf("Failed to %s %s instances: %s\n", verb, what, nvmlErrorString(rc));
    return rc;
}

int smi_create_cis(const struct smi *s, const char *profiles)
{
    struct change c = {.smi = s, .profiles = profiles};
    for (unsigned int i = 0; i < s->count; i++)
        smi_each_gi(&s->gpus[i], create_cis_in, &c);
    return report_failure(&c, "create", "compute");
}

static void destroy_ci(void *arg, const struct smi_gpu *gpu, const nvmlGpuInstanceInfo_t *gi,
                       nvmlComputeInstance_t ci, const nvmlComputeInstanceInfo_t *info)
{
    struct change *c = arg;
    if (!smi_listed(c->smi->ci_ids, info->id))
        return;
    c->done++;
    int rc = nvmlComputeInstanceDestroy(ci);
    if (rc == NVML_SUCCESS)
        (void)printf("Successfully destroyed compute instance ID %2u from GPU %2u GPU instance ID "
                     "%2u\n",
                     info->id, gpu->index, gi->id);
    else
        (void)printf("Unable to destroy compute instance ID %2u from GPU %2u GPU instance ID %2u: "
                     "%s\n",
                     info->id, gpu->index, gi->id, nvmlErrorString(rc));
    c->rc = rc != 0 ? rc : c->rc;
}

static void destroy_cis_in(void *arg, const struct smi_gpu *gpu, nvmlGpuInstance_t gi,
                           const nvmlGpuInstanceInfo_t *info)
{
    struct change *c = arg;
    if (smi_listed(c->smi->gi_ids, info->id))
        smi_each_ci(gpu, gi, info, destroy_ci, c);
}

int smi_destroy_cis(const struct smi *s)
{
    struct change c = {.smi = s};
    for (unsigned int i = 0; i < s->count; i++)
        smi_each_gi(&s->gpus[i], destroy_cis_in, &c);
    return report_failure(&c, "destroy", "compute");
}

static void destroy_gi(void *arg, const struct smi_gpu *gpu, nvmlGpuInstance_t gi,
                       const nvmlGpuInstanceInfo_t *info)
{
    struct change *c = arg;
    if (!smi_listed(c->smi->gi_ids, info->id))
        return;
    c->done++;
    int rc = nvmlGpuInstanceDestroy(gi);
    if (rc == NVML_SUCCESS)
        (void)printf("Successfully destroyed GPU instance ID %2u from GPU %2u\n", info->id,
                     gpu->index);
    else
        (void)printf("Unable to destroy GPU instance ID %2u from GPU %2u: %s\n", info->id,
                     gpu->index, nvmlErrorString(rc));
    c->rc = rc != 0 ? rc : c->rc;
}

int smi_destroy_gis(const struct smi *s)
{
    struct change c = {.smi = s};
    for (unsigned int i = 0; i < s->count; i++)
        smi_each_gi(&s->gpus[i], destroy_gi, &c);
    return report_failure(&c, "destroy", "GPU");
}
