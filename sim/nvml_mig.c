/* SPDX-License-Identifier: Apache-2.0 */
/* NVML: MIG mode, GPU instance profiles, GPU instances. Contracts are NVML's own. */
#include <stdlib.h>

#include "sim/mig.h"
#include "sim/nvml_calls.h"
#include "sim/nvml_session.h"

static bool mig_capable(const struct call *c)
{
    return hw_model(c->gpu)->mig != MIG_NONE;
}

nvmlReturn_t nvmlDeviceGetMigMode(nvmlDevice_t device, unsigned int *currentMode,
                                  unsigned int *pendingMode)
{
    struct call c = {.id = CALL_nvmlDeviceGetMigMode};
    int rc = call_enter(&c, device, ON_GPU);
    if (rc == NVML_SUCCESS && (currentMode == NULL || pendingMode == NULL))
        rc = NVML_ERROR_INVALID_ARGUMENT;
    if (rc == NVML_SUCCESS && !mig_capable(&c))
        rc = NVML_ERROR_NOT_SUPPORTED;
    if (rc == NVML_SUCCESS) {
        *currentMode = c.gpu->mig_current;
        *pendingMode = c.gpu->mig_pending;
    }
    return call_leave(&c, rc);
}

nvmlReturn_t nvmlDeviceSetMigMode(nvmlDevice_t device, unsigned int mode,
                                  nvmlReturn_t *activationStatus)
{
    struct call c = {.id = CALL_nvmlDeviceSetMigMode};
    int activation = NVML_SUCCESS;
    call_args(&c, "mode=%u", mode);
    int rc = call_enter(&c, device, ON_GPU);
    if (rc == NVML_SUCCESS && (activationStatus == NULL || mode > 1))
        rc = NVML_ERROR_INVALID_ARGUMENT;
    if (rc == NVML_SUCCESS)
        rc = mig_set_mode(c.hw, c.gpu_index, mode, &activation);
    if (rc == NVML_SUCCESS)
        *activationStatus = activation;
    return call_leave(&c, rc);
}

static void fill_profile(const struct gi_profile *p, nvmlGpuInstanceProfileInfo_t *info)
{
    *info = (nvmlGpuInstanceProfileInfo_t){.id = p->shape->id,
                                           .isP2pSupported = 0,
                                           .sliceCount = p->shape->slices,
                                           .instanceCount = p->shape->max_count,
                                           .multiprocessorCount = p->sms,
                                           .copyEngineCount = p->engines.copy,
                                           .decoderCount = p->engines.decoder,
                                           .encoderCount = p->engines.encoder,
                                           .jpegCount = p->engines.jpeg,
                                           .ofaCount = p->engines.ofa,
                                           .memorySizeMB = p->memory_mib};
}

static void fill_profile_v2(const struct gi_profile *p, nvmlGpuInstanceProfileInfo_v2_t *info)
{
    *info = (nvmlGpuInstanceProfileInfo_v2_t){.version = info->version,
                                              .id = p->shape->id,
                                              .isP2pSupported = 0,
                                              .sliceCount = p->shape->slices,
                                              .instanceCount = p->shape->max_count,
                                              .multiprocessorCount = p->sms,
                                              .copyEngineCount = p->engines.copy,
                                              .decoderCount = p->engines.decoder,
                                              .encoderCount = p->engines.encoder,
                                              .jpegCount = p->engines.jpeg,
                                              .ofaCount = p->engines.ofa,
                                              .memorySizeMB = p->memory_mib};
    gi_profile_name(p, info->name, sizeof(info->name));
}

static void fill_profile_v3(const struct gi_profile *p, nvmlGpuInstanceProfileInfo_v3_t *info)
{
    *info = (nvmlGpuInstanceProfileInfo_v3_t){.version = info->version,
                                              .id = p->shape->id,
                                              .sliceCount = p->shape->slices,
                                              .instanceCount = p->shape->max_count,
                                              .multiprocessorCount = p->sms,
                                              .copyEngineCount = p->engines.copy,
                                              .decoderCount = p->engines.decoder,
                                              .encoderCount = p->engines.encoder,
                                              .jpegCount = p->engines.jpeg,
                                              .ofaCount = p->engines.ofa,
                                              .memorySizeMB = p->memory_mib};
    info->capabilities = gi_profile_draws(p) ? NVML_GPU_INSTANCE_CAPS_GFX : 0;
    gi_profile_name(p, info->name, sizeof(info->name));
}

static int fill_profile_versioned(const struct gi_profile *p, void *info)
{
    unsigned int version = *(const unsigned int *)info;
    if (version == NVML_STRUCT_VERSION(sizeof(nvmlGpuInstanceProfileInfo_v2_t), 2U))
        fill_profile_v2(p, info);
    else if (version == NVML_STRUCT_VERSION(sizeof(nvmlGpuInstanceProfileInfo_v3_t), 3U))
        fill_profile_v3(p, info);
    else
        return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
    return NVML_SUCCESS;
}

/* Branch 535 and older list no profiles while MIG is off; mig-parted works around it. */
enum { LAST_BRANCH_SILENT_WITHOUT_MIG = 535 };

static bool offered(const struct call *c, const struct gi_profile *p)
{
    unsigned long branch = strtoul(c->hw->driver_version, NULL, 10);
    if (p == NULL || branch < p->shape->since)
        return false;
    return c->gpu->mig_current || branch > LAST_BRANCH_SILENT_WITHOUT_MIG;
}

typedef int profile_fn(const struct call *c, unsigned int number, const struct gi_profile **ret);

/* Beyond the last enum: INVALID_ARGUMENT, so that clients of any age find the end of their loop. */
static int profile_by_enum(const struct call *c, unsigned int profile,
                           const struct gi_profile **ret)
{
    if (profile >= NVML_GPU_INSTANCE_PROFILE_COUNT)
        return NVML_ERROR_INVALID_ARGUMENT;
    *ret = model_profile_by_enum(hw_model(c->gpu), profile);
    return offered(c, *ret) ? NVML_SUCCESS : NVML_ERROR_NOT_SUPPORTED;
}

static int profile_by_id(const struct call *c, unsigned int id, const struct gi_profile **ret)
{
    if (!mig_capable(c))
        return NVML_ERROR_NOT_SUPPORTED;
    const struct gi_profile *found = model_profile_by_id(hw_model(c->gpu), id);
    if (found == NULL)
        return NVML_ERROR_INVALID_ARGUMENT;
    if (!offered(c, found))
        return NVML_ERROR_NOT_SUPPORTED;
    *ret = found;
    return NVML_SUCCESS;
}

/* Instances exist, and can be queried, only while MIG is on. */
static int live_profile_by_id(const struct call *c, unsigned int id, const struct gi_profile **ret)
{
    return c->gpu->mig_current ? profile_by_id(c, id, ret) : NVML_ERROR_NOT_SUPPORTED;
}

nvmlReturn_t nvmlDeviceGetGpuInstanceProfileInfo(nvmlDevice_t device, unsigned int profile,
                                                 nvmlGpuInstanceProfileInfo_t *info)
{
    struct call c = {.id = CALL_nvmlDeviceGetGpuInstanceProfileInfo};
    const struct gi_profile *p = NULL;
    int rc = call_enter(&c, device, ON_GPU);
    if (rc == NVML_SUCCESS && info == NULL)
        rc = NVML_ERROR_INVALID_ARGUMENT;
    if (rc == NVML_SUCCESS)
        rc = profile_by_enum(&c, profile, &p);
    if (rc == NVML_SUCCESS)
        fill_profile(p, info);
    return call_leave(&c, rc);
}

static nvmlReturn_t profile_versioned(unsigned int call, nvmlDevice_t device, profile_fn *find,
                                      unsigned int number, void *info)
{
    struct call c = {.id = call};
    const struct gi_profile *p = NULL;
    int rc = call_enter(&c, device, ON_GPU);
    if (rc == NVML_SUCCESS && info == NULL)
        rc = NVML_ERROR_INVALID_ARGUMENT;
    if (rc == NVML_SUCCESS)
        rc = find(&c, number, &p);
    if (rc == NVML_SUCCESS)
        rc = fill_profile_versioned(p, info);
    return call_leave(&c, rc);
}

nvmlReturn_t nvmlDeviceGetGpuInstanceProfileInfoV(nvmlDevice_t device, unsigned int profile,
                                                  void *info)
{
    return profile_versioned(CALL_nvmlDeviceGetGpuInstanceProfileInfoV, device, profile_by_enum,
                             profile, info);
}

nvmlReturn_t nvmlDeviceGetGpuInstanceProfileInfoByIdV(nvmlDevice_t device, unsigned int profileId,
                                                      void *info)
{
    return profile_versioned(CALL_nvmlDeviceGetGpuInstanceProfileInfoByIdV, device, profile_by_id,
                             profileId, info);
}

/* Placements are the profile's; existing instances and the MIG mode do not matter. */
static void fill_placements(const struct gi_profile *p, nvmlGpuInstancePlacement_t *placements)
{
    for (unsigned int i = 0; i < p->shape->start_count; i++)
        placements[i] =
            (nvmlGpuInstancePlacement_t){.start = p->shape->starts[i], .size = p->shape->size};
}

nvmlReturn_t nvmlDeviceGetGpuInstancePossiblePlacements_v2(nvmlDevice_t device,
                                                           unsigned int profileId,
                                                           nvmlGpuInstancePlacement_t *placements,
                                                           unsigned int *count)
{
    struct call c = {.id = CALL_nvmlDeviceGetGpuInstancePossiblePlacements_v2};
    const struct gi_profile *p = NULL;
    int rc = call_enter(&c, device, ON_GPU);
    if (rc == NVML_SUCCESS && count == NULL)
        rc = NVML_ERROR_INVALID_ARGUMENT;
    if (rc == NVML_SUCCESS)
        rc = profile_by_id(&c, profileId, &p);
    if (rc == NVML_SUCCESS && placements != NULL) {
        if (*count < p->shape->start_count)
            rc = NVML_ERROR_INSUFFICIENT_SIZE;
        else
            fill_placements(p, placements);
    }
    if (p != NULL)
        *count = p->shape->start_count;
    return call_leave(&c, rc);
}

/* The first generation cannot check the buffer's size; count is an output only. */
nvmlReturn_t nvmlDeviceGetGpuInstancePossiblePlacements(nvmlDevice_t device, unsigned int profileId,
                                                        nvmlGpuInstancePlacement_t *placements,
                                                        unsigned int *count)
{
    if (count != NULL && placements != NULL)
        *count = MODEL_MAX_STARTS;
    return nvmlDeviceGetGpuInstancePossiblePlacements_v2(device, profileId, placements, count);
}

nvmlReturn_t nvmlDeviceGetGpuInstanceRemainingCapacity(nvmlDevice_t device, unsigned int profileId,
                                                       unsigned int *count)
{
    struct call c = {.id = CALL_nvmlDeviceGetGpuInstanceRemainingCapacity};
    const struct gi_profile *p = NULL;
    int rc = call_enter(&c, device, ON_GPU);
    if (rc == NVML_SUCCESS && count == NULL)
        rc = NVML_ERROR_INVALID_ARGUMENT;
    if (rc == NVML_SUCCESS)
        rc = live_profile_by_id(&c, profileId, &p);
    if (rc == NVML_SUCCESS)
        *count = mig_remaining(c.gpu, p);
    return call_leave(&c, rc);
}

/* The output is written before the commit, so that a kill between the two leaves the old
 * hardware. */
static int create_gi(struct call *c, unsigned int profile_id, const struct span *where,
                     nvmlGpuInstance_t *ret)
{
    const struct gi_profile *p = NULL;
    struct hw_gi *gi = NULL;
    int rc = live_profile_by_id(c, profile_id, &p);
    if (rc == NVML_SUCCESS)
        rc = mig_create_gi(c->hw, c->gpu_index, p, where, &gi);
    if (rc != NVML_SUCCESS)
        return rc;
    call_args(c, "profile=%u gi=%u start=%u size=%u", profile_id, gi->id, gi->start, gi->size);
    *ret = handle_of_gi(c->gpu_index, gi);
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceCreateGpuInstance(nvmlDevice_t device, unsigned int profileId,
                                         nvmlGpuInstance_t *gpuInstance)
{
    struct call c = {.id = CALL_nvmlDeviceCreateGpuInstance};
    call_args(&c, "profile=%u", profileId);
    int rc = call_enter(&c, device, ON_GPU);
    if (rc == NVML_SUCCESS && gpuInstance == NULL)
        rc = NVML_ERROR_INVALID_ARGUMENT;
    if (rc == NVML_SUCCESS)
        rc = create_gi(&c, profileId, /* where= */ NULL, gpuInstance);
    return call_leave(&c, rc);
}

nvmlReturn_t nvmlDeviceCreateGpuInstanceWithPlacement(nvmlDevice_t device, unsigned int profileId,
                                                      const nvmlGpuInstancePlacement_t *placement,
                                                      nvmlGpuInstance_t *gpuInstance)
{
    struct call c = {.id = CALL_nvmlDeviceCreateGpuInstanceWithPlacement};
    if (placement != NULL)
        call_args(&c, "profile=%u start=%u size=%u", profileId, placement->start, placement->size);
    int rc = call_enter(&c, device, ON_GPU);
    if (rc == NVML_SUCCESS && (placement == NULL || gpuInstance == NULL))
        rc = NVML_ERROR_INVALID_ARGUMENT;
    if (rc == NVML_SUCCESS) {
        struct span where = {placement->start, placement->size};
        rc = create_gi(&c, profileId, &where, gpuInstance);
    }
    return call_leave(&c, rc);
}

nvmlReturn_t nvmlGpuInstanceDestroy(nvmlGpuInstance_t gpuInstance)
{
    struct call c = {.id = CALL_nvmlGpuInstanceDestroy};
    int rc = call_enter(&c, gpuInstance, ON_GI);
    if (rc == NVML_SUCCESS) {
        call_args(&c, "gi=%u start=%u size=%u", c.gi->id, c.gi->start, c.gi->size);
        rc = mig_destroy_gi(c.hw, c.gpu_index, c.gi);
    }
    return call_leave(&c, rc);
}

/*
 * The buffer has room for the profile's instanceCount; `count` is an output only. In order of
 * placement, as nvidia-smi lists them.
 */
static unsigned int list_gis(const struct call *c, const struct gi_profile *p,
                             nvmlGpuInstance_t *instances)
{
    unsigned int n = 0;
    for (unsigned int slot = 0; slot < hw_model(c->gpu)->grid; slot++) {
        for (size_t i = 0; i < HW_MAX_GI; i++) {
            const struct hw_gi *gi = &c->gpu->gis[i];
            if (gi->serial != 0 && gi->start == slot && gi->profile == p->shape->enumeration)
                instances[n++] = handle_of_gi(c->gpu_index, gi);
        }
    }
    return n;
}

nvmlReturn_t nvmlDeviceGetGpuInstances(nvmlDevice_t device, unsigned int profileId,
                                       nvmlGpuInstance_t *gpuInstances, unsigned int *count)
{
    struct call c = {.id = CALL_nvmlDeviceGetGpuInstances};
    const struct gi_profile *p = NULL;
    int rc = call_enter(&c, device, ON_GPU);
    if (rc == NVML_SUCCESS && (gpuInstances == NULL || count == NULL))
        rc = NVML_ERROR_INVALID_ARGUMENT;
    if (rc == NVML_SUCCESS)
        rc = live_profile_by_id(&c, profileId, &p);
    if (rc == NVML_SUCCESS)
        *count = list_gis(&c, p, gpuInstances);
    return call_leave(&c, rc);
}

nvmlReturn_t nvmlDeviceGetGpuInstanceById(nvmlDevice_t device, unsigned int id,
                                          nvmlGpuInstance_t *gpuInstance)
{
    struct call c = {.id = CALL_nvmlDeviceGetGpuInstanceById};
    int rc = call_enter(&c, device, ON_GPU);
    if (rc == NVML_SUCCESS && gpuInstance == NULL)
        rc = NVML_ERROR_INVALID_ARGUMENT;
    if (rc == NVML_SUCCESS && !c.gpu->mig_current)
        rc = NVML_ERROR_NOT_SUPPORTED;
    if (rc == NVML_SUCCESS) {
        const struct hw_gi *gi = mig_find_gi(c.gpu, id);
        if (gi != NULL)
            *gpuInstance = handle_of_gi(c.gpu_index, gi);
        else
            rc = NVML_ERROR_NOT_FOUND;
    }
    return call_leave(&c, rc);
}

nvmlReturn_t nvmlGpuInstanceGetInfo(nvmlGpuInstance_t gpuInstance, nvmlGpuInstanceInfo_t *info)
{
    struct call c = {.id = CALL_nvmlGpuInstanceGetInfo};
    int rc = call_enter(&c, gpuInstance, ON_GI);
    if (rc == NVML_SUCCESS && info == NULL)
        rc = NVML_ERROR_INVALID_ARGUMENT;
    if (rc == NVML_SUCCESS)
        *info = (nvmlGpuInstanceInfo_t){.device = handle_of_gpu(c.gpu_index),
                                        .id = c.gi->id,
                                        .profileId = mig_profile_of(c.gpu, c.gi)->shape->id,
                                        .placement = {c.gi->start, c.gi->size}};
    return call_leave(&c, rc);
}
