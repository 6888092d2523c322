/* SPDX-License-Identifier: Apache-2.0 */
/* NVML: compute instances and MIG devices. Contracts are NVML's own. */
#include <string.h>

#include "sim/mig.h"
#include "sim/nvml_calls.h"
#include "sim/nvml_session.h"

/* The facts that the three generations of the profile struct contain. */
struct ci_facts {
    struct ci_profile ci;
    const struct gi_profile *gi;
    unsigned int sms;
};

static int ci_facts_get(const struct call *c, unsigned int profile, unsigned int engine,
                        struct ci_facts *ret)
{
    if (profile >= NVML_COMPUTE_INSTANCE_PROFILE_COUNT || engine != 0)
        return NVML_ERROR_INVALID_ARGUMENT;
    ret->gi = mig_profile_of(c->gpu, c->gi);
    if (!ci_profile_get(ret->gi, profile, &ret->ci))
        return NVML_ERROR_NOT_SUPPORTED;
    ret->sms = ci_profile_sms(ret->gi, &ret->ci);
    return NVML_SUCCESS;
}

static unsigned int ci_max_count(const struct ci_facts *f)
{
    return f->ci.media ? 1 : f->ci.start_count;
}

/* All but version and name; engines are the whole instance's, shared. */
static void fill_common(const struct ci_facts *f, nvmlComputeInstanceProfileInfo_v3_t *info)
{
    const struct engines *e = &f->gi->engines;
    *info = (nvmlComputeInstanceProfileInfo_v3_t){.id = f->ci.enumeration,
                                                  .sliceCount = f->ci.slices,
                                                  .instanceCount = ci_max_count(f),
                                                  .multiprocessorCount = f->sms,
                                                  .sharedCopyEngineCount = e->copy,
                                                  .sharedDecoderCount = e->decoder,
                                                  .sharedEncoderCount = e->encoder,
                                                  .sharedJpegCount = e->jpeg,
                                                  .sharedOfaCount = e->ofa};
    info->capabilities = gi_profile_draws(f->gi) ? NVML_COMPUTE_INSTANCE_CAPS_GFX : 0;
    memcpy(info->name, "MIG ", 4);
    ci_profile_short_name(f->gi, &f->ci, info->name + 4, sizeof(info->name) - 4);
}

nvmlReturn_t nvmlGpuInstanceGetComputeInstanceProfileInfo(nvmlGpuInstance_t gpuInstance,
                                                          unsigned int profile,
                                                          unsigned int engProfile,
                                                          nvmlComputeInstanceProfileInfo_t *info)
{
    struct call c = {.id = CALL_nvmlGpuInstanceGetComputeInstanceProfileInfo};
    struct ci_facts f = {0};
    int rc = call_enter(&c, gpuInstance, ON_GI);
    if (rc == NVML_SUCCESS && info == NULL)
        rc = NVML_ERROR_INVALID_ARGUMENT;
    if (rc == NVML_SUCCESS)
        rc = ci_facts_get(&c, profile, engProfile, &f);
    if (rc == NVML_SUCCESS) {
        nvmlComputeInstanceProfileInfo_v3_t full;
        fill_common(&f, &full);
        /* The first generation is a part of the later ones: from id up to the name. */
        memcpy(info, &full.id, sizeof(*info));
    }
    return call_leave(&c, rc);
}

static int fill_ci_versioned(const struct ci_facts *f, void *info)
{
    unsigned int version = *(const unsigned int *)info;
    size_t size = 0;
    if (version == NVML_STRUCT_VERSION(sizeof(nvmlComputeInstanceProfileInfo_v2_t), 2U))
        size = sizeof(nvmlComputeInstanceProfileInfo_v2_t);
    else if (version == NVML_STRUCT_VERSION(sizeof(nvmlComputeInstanceProfileInfo_v3_t), 3U))
        size = sizeof(nvmlComputeInstanceProfileInfo_v3_t);
    else
        return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
    nvmlComputeInstanceProfileInfo_v3_t full;
    fill_common(f, &full);
    full.version = version;
    /* The second generation is the third's beginning. */
    memcpy(info, &full, size);
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlGpuInstanceGetComputeInstanceProfileInfoV(nvmlGpuInstance_t gpuInstance,
                                                           unsigned int profile,
                                                           unsigned int engProfile, void *info)
{
    struct call c = {.id = CALL_nvmlGpuInstanceGetComputeInstanceProfileInfoV};
    struct ci_facts f = {0};
    int rc = call_enter(&c, gpuInstance, ON_GI);
    if (rc == NVML_SUCCESS && info == NULL)
        rc = NVML_ERROR_INVALID_ARGUMENT;
    if (rc == NVML_SUCCESS)
        rc = ci_facts_get(&c, profile, engProfile, &f);
    if (rc == NVML_SUCCESS)
        rc = fill_ci_versioned(&f, info);
    return call_leave(&c, rc);
}

/* By id, an unknown one is a wrong argument. */
static int ci_by_id(const struct call *c, unsigned int id, struct ci_profile *ret)
{
    return ci_profile_get(mig_profile_of(c->gpu, c->gi), id, ret) ? NVML_SUCCESS
                                                                  : NVML_ERROR_INVALID_ARGUMENT;
}

nvmlReturn_t nvmlGpuInstanceGetComputeInstanceRemainingCapacity(nvmlGpuInstance_t gpuInstance,
                                                                unsigned int profileId,
                                                                unsigned int *count)
{
    struct call c = {.id = CALL_nvmlGpuInstanceGetComputeInstanceRemainingCapacity};
    struct ci_profile p = {0};
    int rc = call_enter(&c, gpuInstance, ON_GI);
    if (rc == NVML_SUCCESS && count == NULL)
        rc = NVML_ERROR_INVALID_ARGUMENT;
    if (rc == NVML_SUCCESS)
        rc = ci_by_id(&c, profileId, &p);
    if (rc == NVML_SUCCESS)
        *count = mig_ci_remaining(c.gi, &p);
    return call_leave(&c, rc);
}

nvmlReturn_t nvmlGpuInstanceGetComputeInstancePossiblePlacements(
    nvmlGpuInstance_t gpuInstance, unsigned int profileId,
    nvmlComputeInstancePlacement_t *placements, unsigned int *count)
{
    struct call c = {.id = CALL_nvmlGpuInstanceGetComputeInstancePossiblePlacements};
    struct ci_profile p = {0};
    int rc = call_enter(&c, gpuInstance, ON_GI);
    if (rc == NVML_SUCCESS && count == NULL)
        rc = NVML_ERROR_INVALID_ARGUMENT;
    if (rc == NVML_SUCCESS)
        rc = ci_by_id(&c, profileId, &p);
    if (rc == NVML_SUCCESS && placements != NULL) {
        if (*count < p.start_count)
            rc = NVML_ERROR_INSUFFICIENT_SIZE;
        for (unsigned int i = 0; rc == NVML_SUCCESS && i < p.start_count; i++)
            placements[i] = (nvmlComputeInstancePlacement_t){p.starts[i], p.slices};
    }
    if (p.start_count > 0)
        *count = p.start_count;
    return call_leave(&c, rc);
}

static int create_ci(struct call *c, unsigned int profile_id, const struct span *where,
                     nvmlComputeInstance_t *ret)
{
    struct ci_profile p = {0};
    struct hw_ci *ci = NULL;
    int rc = ci_by_id(c, profile_id, &p);
    if (rc == NVML_SUCCESS)
        rc = mig_create_ci(c->hw, c->gpu_index, c->gi, &p, where, &ci);
    if (rc != NVML_SUCCESS)
        return rc;
    call_args(c, "gi=%u profile=%u ci=%u start=%u size=%u", c->gi->id, profile_id, ci->id,
              ci->start, ci->size);
    *ret = handle_of_ci(c->gpu_index, c->gi, ci);
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlGpuInstanceCreateComputeInstance(nvmlGpuInstance_t gpuInstance,
                                                  unsigned int profileId,
                                                  nvmlComputeInstance_t *computeInstance)
{
    struct call c = {.id = CALL_nvmlGpuInstanceCreateComputeInstance};
    call_args(&c, "profile=%u", profileId);
    int rc = call_enter(&c, gpuInstance, ON_GI);
    if (rc == NVML_SUCCESS && computeInstance == NULL)
        rc = NVML_ERROR_INVALID_ARGUMENT;
    if (rc == NVML_SUCCESS)
        rc = create_ci(&c, profileId, /* where= */ NULL, computeInstance);
    return call_leave(&c, rc);
}

nvmlReturn_t nvmlGpuInstanceCreateComputeInstanceWithPlacement(
    nvmlGpuInstance_t gpuInstance, unsigned int profileId,
    const nvmlComputeInstancePlacement_t *placement, nvmlComputeInstance_t *computeInstance)
{
    struct call c = {.id = CALL_nvmlGpuInstanceCreateComputeInstanceWithPlacement};
    if (placement != NULL)
        call_args(&c, "profile=%u start=%u size=%u", profileId, placement->start, placement->size);
    int rc = call_enter(&c, gpuInstance, ON_GI);
    if (rc == NVML_SUCCESS && (placement == NULL || computeInstance == NULL))
        rc = NVML_ERROR_INVALID_ARGUMENT;
    if (rc == NVML_SUCCESS) {
        struct span where = {placement->start, placement->size};
        rc = create_ci(&c, profileId, &where, computeInstance);
    }
    return call_leave(&c, rc);
}

nvmlReturn_t nvmlComputeInstanceDestroy(nvmlComputeInstance_t computeInstance)
{
    struct call c = {.id = CALL_nvmlComputeInstanceDestroy};
    int rc = call_enter(&c, computeInstance, ON_CI);
    if (rc == NVML_SUCCESS) {
        call_args(&c, "gi=%u ci=%u", c.gi->id, c.ci->id);
        rc = mig_destroy_ci(c.hw, c.gpu_index, c.gi, c.ci);
    }
    return call_leave(&c, rc);
}

static unsigned int list_cis(const struct call *c, unsigned int profile,
                             nvmlComputeInstance_t *instances)
{
    unsigned int n = 0;
    for (size_t i = 0; i < HW_MAX_CI; i++) {
        const struct hw_ci *ci = &c->gi->cis[i];
        if (ci->serial != 0 && ci->profile == profile)
            instances[n++] = handle_of_ci(c->gpu_index, c->gi, ci);
    }
    return n;
}

nvmlReturn_t nvmlGpuInstanceGetComputeInstances(nvmlGpuInstance_t gpuInstance,
                                                unsigned int profileId,
                                                nvmlComputeInstance_t *computeInstances,
                                                unsigned int *count)
{
    struct call c = {.id = CALL_nvmlGpuInstanceGetComputeInstances};
    struct ci_profile p = {0};
    int rc = call_enter(&c, gpuInstance, ON_GI);
    if (rc == NVML_SUCCESS && (computeInstances == NULL || count == NULL))
        rc = NVML_ERROR_INVALID_ARGUMENT;
    if (rc == NVML_SUCCESS)
        rc = ci_by_id(&c, profileId, &p);
    if (rc == NVML_SUCCESS)
        *count = list_cis(&c, profileId, computeInstances);
    return call_leave(&c, rc);
}

nvmlReturn_t nvmlGpuInstanceGetComputeInstanceById(nvmlGpuInstance_t gpuInstance, unsigned int id,
                                                   nvmlComputeInstance_t *computeInstance)
{
    struct call c = {.id = CALL_nvmlGpuInstanceGetComputeInstanceById};
    int rc = call_enter(&c, gpuInstance, ON_GI);
    if (rc == NVML_SUCCESS && computeInstance == NULL)
        rc = NVML_ERROR_INVALID_ARGUMENT;
    if (rc == NVML_SUCCESS) {
        const struct hw_ci *ci = mig_find_ci(c.gi, id);
        if (ci != NULL)
            *computeInstance = handle_of_ci(c.gpu_index, c.gi, ci);
        else
            rc = NVML_ERROR_NOT_FOUND;
    }
    return call_leave(&c, rc);
}

nvmlReturn_t nvmlComputeInstanceGetInfo_v2(nvmlComputeInstance_t computeInstance,
                                           nvmlComputeInstanceInfo_t *info)
{
    struct call c = {.id = CALL_nvmlComputeInstanceGetInfo_v2};
    int rc = call_enter(&c, computeInstance, ON_CI);
    if (rc == NVML_SUCCESS && info == NULL)
        rc = NVML_ERROR_INVALID_ARGUMENT;
    if (rc == NVML_SUCCESS)
        *info = (nvmlComputeInstanceInfo_t){.device = handle_of_mig(c.gpu_index, c.gi, c.ci),
                                            .gpuInstance = handle_of_gi(c.gpu_index, c.gi),
                                            .id = c.ci->id,
                                            .profileId = c.ci->profile,
                                            .placement = {c.ci->start, c.ci->size}};
    return call_leave(&c, rc);
}

nvmlReturn_t nvmlComputeInstanceGetInfo(nvmlComputeInstance_t computeInstance,
                                        nvmlComputeInstanceInfo_v1_t *info)
{
    nvmlComputeInstanceInfo_t full = {0};
    int rc = nvmlComputeInstanceGetInfo_v2(computeInstance, &full);
    if (rc == NVML_SUCCESS && info == NULL)
        rc = NVML_ERROR_INVALID_ARGUMENT;
    if (rc == NVML_SUCCESS)
        memcpy(info, &full, sizeof(*info));
    return rc;
}

nvmlReturn_t nvmlDeviceGetMigDeviceHandleByIndex(nvmlDevice_t device, unsigned int index,
                                                 nvmlDevice_t *migDevice)
{
    struct call c = {.id = CALL_nvmlDeviceGetMigDeviceHandleByIndex};
    const struct hw_gi *gi = NULL;
    const struct hw_ci *ci = NULL;
    int rc = call_enter(&c, device, ON_GPU);
    if (rc == NVML_SUCCESS && migDevice == NULL)
        rc = NVML_ERROR_INVALID_ARGUMENT;
    if (rc == NVML_SUCCESS && hw_model(c.gpu)->mig == MIG_NONE)
        rc = NVML_ERROR_NOT_SUPPORTED;
    if (rc == NVML_SUCCESS && !mig_device_at(c.gpu, index, &gi, &ci))
        rc = NVML_ERROR_NOT_FOUND;
    if (rc == NVML_SUCCESS)
        *migDevice = handle_of_mig(c.gpu_index, gi, ci);
    return call_leave(&c, rc);
}

static int instance_id(unsigned int call, nvmlDevice_t device, bool compute, unsigned int *id)
{
    struct call c = {.id = call};
    int rc = call_enter(&c, device, ON_DEVICE);
    if (rc == NVML_SUCCESS && id == NULL)
        rc = NVML_ERROR_INVALID_ARGUMENT;
    if (rc == NVML_SUCCESS && c.ci == NULL)
        rc = NVML_ERROR_NOT_SUPPORTED;
    if (rc == NVML_SUCCESS)
        *id = compute ? c.ci->id : c.gi->id;
    return call_leave(&c, rc);
}

nvmlReturn_t nvmlDeviceGetGpuInstanceId(nvmlDevice_t device, unsigned int *id)
{
    return instance_id(CALL_nvmlDeviceGetGpuInstanceId, device, /* compute= */ false, id);
}

nvmlReturn_t nvmlDeviceGetComputeInstanceId(nvmlDevice_t device, unsigned int *id)
{
    return instance_id(CALL_nvmlDeviceGetComputeInstanceId, device, /* compute= */ true, id);
}

nvmlReturn_t nvmlDeviceGetDeviceHandleFromMigDeviceHandle(nvmlDevice_t migDevice,
                                                          nvmlDevice_t *device)
{
    struct call c = {.id = CALL_nvmlDeviceGetDeviceHandleFromMigDeviceHandle};
    int rc = call_enter(&c, migDevice, ON_DEVICE);
    if (rc == NVML_SUCCESS && device == NULL)
        rc = NVML_ERROR_INVALID_ARGUMENT;
    if (rc == NVML_SUCCESS && c.ci == NULL)
        rc = NVML_ERROR_NOT_SUPPORTED;
    if (rc == NVML_SUCCESS)
        *device = handle_of_gpu(c.gpu_index);
    return call_leave(&c, rc);
}

static int fill_attributes(const struct call *c, nvmlDeviceAttributes_t *attributes)
{
    if (c->ci == NULL)
        return NVML_ERROR_NOT_SUPPORTED;
    const struct gi_profile *gi = mig_profile_of(c->gpu, c->gi);
    struct ci_profile ci = {0};
    (void)ci_profile_get(gi, c->ci->profile, &ci);
    *attributes = (nvmlDeviceAttributes_t){.multiprocessorCount = ci_profile_sms(gi, &ci),
                                           .sharedCopyEngineCount = gi->engines.copy,
                                           .sharedDecoderCount = gi->engines.decoder,
                                           .sharedEncoderCount = gi->engines.encoder,
                                           .sharedJpegCount = gi->engines.jpeg,
                                           .sharedOfaCount = gi->engines.ofa,
                                           .gpuInstanceSliceCount = gi->shape->slices,
                                           .computeInstanceSliceCount = ci.slices,
                                           .memorySizeMB = gi->memory_mib};
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetAttributes_v2(nvmlDevice_t device, nvmlDeviceAttributes_t *attributes)
{
    struct call c = {.id = CALL_nvmlDeviceGetAttributes_v2};
    int rc = call_enter(&c, device, ON_DEVICE);
    if (rc == NVML_SUCCESS && attributes == NULL)
        rc = NVML_ERROR_INVALID_ARGUMENT;
    if (rc == NVML_SUCCESS)
        rc = fill_attributes(&c, attributes);
    return call_leave(&c, rc);
}

ALIAS(nvmlDeviceGetAttributes, nvmlDeviceGetAttributes_v2,
      (nvmlDevice_t device, nvmlDeviceAttributes_t *attributes));
