/* SPDX-License-Identifier: Apache-2.0 */
/* `nvidia-smi mig`: lists. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sim/smi/smi.h"

bool smi_listed(const char *list, unsigned int id)
{
    for (const char *at = list; at != NULL && *at != '\0';) {
        char *end = NULL;
        if (strtoul(at, &end, 10) == id && end != at)
            return true;
        at += strcspn(at, ",");
        at += *at == ',';
    }
    return list == NULL;
}

static bool profile_at(nvmlDevice_t device, unsigned int enumeration,
                       nvmlGpuInstanceProfileInfo_v2_t *info)
{
    *info = (nvmlGpuInstanceProfileInfo_v2_t){0};
    info->version = NVML_STRUCT_VERSION(sizeof(*info), 2U);
    return nvmlDeviceGetGpuInstanceProfileInfoV(device, enumeration, info) == NVML_SUCCESS;
}

static bool ci_profile_at(nvmlGpuInstance_t gi, unsigned int enumeration,
                          nvmlComputeInstanceProfileInfo_v2_t *info)
{
    *info = (nvmlComputeInstanceProfileInfo_v2_t){0};
    info->version = NVML_STRUCT_VERSION(sizeof(*info), 2U);
    return nvmlGpuInstanceGetComputeInstanceProfileInfoV(gi, enumeration, 0, info) == NVML_SUCCESS;
}

void smi_gi_name(const struct smi_gpu *gpu, unsigned int profile_id, char *ret_name, size_t size)
{
    nvmlGpuInstanceProfileInfo_v2_t info = {0};
    info.version = NVML_STRUCT_VERSION(sizeof(info), 2U);
    (void)nvmlDeviceGetGpuInstanceProfileInfoByIdV(gpu->device, profile_id, &info);
    (void)snprintf(ret_name, size, "%s", info.name);
}

void smi_ci_name(nvmlGpuInstance_t gi, unsigned int profile_id, char *ret_name, size_t size)
{
    nvmlComputeInstanceProfileInfo_v2_t info;
    (void)ci_profile_at(gi, profile_id, &info);
    (void)snprintf(ret_name, size, "%s", info.name);
}

struct found_gi {
    nvmlGpuInstance_t gi;
    nvmlGpuInstanceInfo_t info;
};

static int by_start(const void *a, const void *b)
{
    unsigned int x = ((const struct found_gi *)a)->info.placement.start;
    unsigned int y = ((const struct found_gi *)b)->info.placement.start;
    return (x > y) - (x < y);
}

/* Instances are collected first: `fn` may destroy them, which must not disturb the walk. */
void smi_each_gi(const struct smi_gpu *gpu, smi_gi_fn *fn, void *arg)
{
    struct found_gi found[SMI_MAX_ITEMS];
    unsigned int total = 0;
    nvmlGpuInstanceProfileInfo_v2_t profile;
    for (unsigned int e = 0; e < NVML_GPU_INSTANCE_PROFILE_COUNT; e++) {
        nvmlGpuInstance_t gis[SMI_MAX_ITEMS];
        unsigned int n = 0;
        if (!profile_at(gpu->device, e, &profile) ||
            nvmlDeviceGetGpuInstances(gpu->device, profile.id, gis, &n) != NVML_SUCCESS)
            continue;
        for (unsigned int i = 0; i < n && total < SMI_MAX_ITEMS; i++) {
            found[total].gi = gis[i];
            if (nvmlGpuInstanceGetInfo(gis[i], &found[total].info) == NVML_SUCCESS)
                total++;
        }
    }
    qsort(found, total, sizeof(found[0]), by_start);
    for (unsigned int i = 0; i < total; i++)
        fn(arg, gpu, found[i].gi, &found[i].info);
}

void smi_each_ci(const struct smi_gpu *gpu, nvmlGpuInstance_t gi,
                 const nvmlGpuInstanceInfo_t *gi_info, smi_ci_fn *fn, void *arg)
{
    for (unsigned int id = 0; id < SMI_MAX_ITEMS; id++) {
        nvmlComputeInstance_t ci = NULL;
        nvmlComputeInstanceInfo_t info = {0};
        if (nvmlGpuInstanceGetComputeInstanceById(gi, id, &ci) == NVML_SUCCESS &&
            nvmlComputeInstanceGetInfo_v2(ci, &info) == NVML_SUCCESS)
            fn(arg, gpu, gi_info, ci, &info);
    }
}

static void profile_row(const struct smi_gpu *gpu, const nvmlGpuInstanceProfileInfo_v2_t *p)
{
    unsigned int left = 0;
    (void)nvmlDeviceGetGpuInstanceRemainingCapacity(gpu->device, p->id, &left);
    (void)printf("| %3u  %-17s %2u     %u/%u      %6.2f       %-3s   %3u   %3u   %3u   |\n",
                 gpu->index, p->name, p->id, left, p->instanceCount,
                 (double)p->memorySizeMB / 1024.0, p->isP2pSupported ? "Yes" : "No",
                 p->multiprocessorCount, p->decoderCount, p->encoderCount);
    (void)
        printf("|                                                            %3u   %3u   %3u   |\n",
               p->copyEngineCount, p->jpegCount, p->ofaCount);
    (void)printf(
        "+------------------------------------------------------------------------------+\n");
}

int smi_list_gi_profiles(const struct smi *s)
{
    unsigned int rows = 0;
    nvmlGpuInstanceProfileInfo_v2_t p;
    for (unsigned int i = 0; i < s->count; i++) {
        for (unsigned int e = 0; e < NVML_GPU_INSTANCE_PROFILE_COUNT; e++) {
            if (!profile_at(s->gpus[i].device, e, &p))
                continue;
            if (rows++ == 0)
                (void)printf(
                    "+------------------------------------------------------------------------------+\n"
                    "| GPU instance profiles:                                                       |\n"
                    "| GPU   Name             ID    Instances   Memory     P2P    SM    DEC   ENC   |\n"
                    "|                              Free/Total   GiB              CE    JPEG  OFA   |\n"
                    "|==============================================================================|\n");
            profile_row(&s->gpus[i], &p);
        }
    }
    if (rows > 0)
        return 0;
    (void)printf("No MIG-supported devices found.\n");
    return NVML_ERROR_NOT_FOUND;
}

static void placement_row(const struct smi_gpu *gpu, unsigned int id)
{
    nvmlGpuInstancePlacement_t at[SMI_MAX_ITEMS];
    unsigned int n = SMI_MAX_ITEMS;
    if (nvmlDeviceGetGpuInstancePossiblePlacements_v2(gpu->device, id, at, &n) != NVML_SUCCESS ||
        n == 0)
        return;
    (void)printf("GPU %2u Profile ID %2u Placement%s: {", gpu->index, id, n == 1 ? " " : "s");
    for (unsigned int i = 0; i < n; i++)
        (void)printf("%s%u", i > 0 ? "," : "", at[i].start);
    (void)printf("}:%u\n", at[0].size);
}

int smi_list_gi_placements(const struct smi *s)
{
    unsigned int rows = 0;
    nvmlGpuInstanceProfileInfo_v2_t p;
    for (unsigned int i = 0; i < s->count; i++) {
        for (unsigned int e = 0; e < NVML_GPU_INSTANCE_PROFILE_COUNT; e++) {
            if (!profile_at(s->gpus[i].device, e, &p))
                continue;
            placement_row(&s->gpus[i], p.id);
            rows++;
        }
    }
    if (rows > 0)
        return 0;
    (void)printf("No MIG-supported devices found.\n");
    return NVML_ERROR_NOT_FOUND;
}

struct listing {
    const struct smi *smi;
    unsigned int rows;
};

static void gi_row(void *arg, const struct smi_gpu *gpu, nvmlGpuInstance_t gi,
                   const nvmlGpuInstanceInfo_t *info)
{
    struct listing *l = arg;
    char name[96];
    (void)gi;
    smi_gi_name(gpu, info->profileId, name, sizeof(name));
    if (l->rows++ == 0)
        (void)printf("+---------------------------------------------------------+\n"
                     "| GPU instances:                                          |\n"
                     "| GPU   Name               Profile  Instance   Placement  |\n"
                     "|                            ID       ID       Start:Size |\n"
                     "|=========================================================|\n");
    (void)printf("| %3u  %-19s %3u      %3u         %2u:%-2u     |\n", gpu->index, name,
                 info->profileId, info->id, info->placement.start, info->placement.size);
    (void)printf("+---------------------------------------------------------+\n");
}

int smi_list_gis(const struct smi *s)
{
    struct listing l = {.smi = s};
    for (unsigned int i = 0; i < s->count; i++)
        smi_each_gi(&s->gpus[i], gi_row, &l);
    if (l.rows > 0)
        return 0;
    (void)printf("No GPU instances found: Not Found\n");
    return NVML_ERROR_NOT_FOUND;
}

static void ci_row(void *arg, const struct smi_gpu *gpu, const nvmlGpuInstanceInfo_t *gi,
                   nvmlComputeInstance_t ci, const nvmlComputeInstanceInfo_t *info)
{
    struct listing *l = arg;
    char name[96];
    (void)ci;
    smi_ci_name(info->gpuInstance, info->profileId, name, sizeof(name));
    if (l->rows++ == 0)
        (void)printf("+----------------------------------------------------------------------+\n"
                     "| Compute instances:                                                   |\n"
                     "| GPU     GPU       Name               Profile   Instance   Placement  |\n"
                     "|       Instance                         ID        ID       Start:Size |\n"
                     "|         ID                                                           |\n"
                     "|======================================================================|\n");
    (void)printf("| %3u     %3u       %-19s %3u       %3u         %2u:%-2u     |\n", gpu->index,
                 gi->id, name, info->profileId, info->id, info->placement.start,
                 info->placement.size);
    (void)printf("+----------------------------------------------------------------------+\n");
}

static void ci_rows(void *arg, const struct smi_gpu *gpu, nvmlGpuInstance_t gi,
                    const nvmlGpuInstanceInfo_t *info)
{
    struct listing *l = arg;
    if (smi_listed(l->smi->gi_ids, info->id))
        smi_each_ci(gpu, gi, info, ci_row, l);
}

int smi_list_cis(const struct smi *s)
{
    struct listing l = {.smi = s};
    for (unsigned int i = 0; i < s->count; i++)
        smi_each_gi(&s->gpus[i], ci_rows, &l);
    if (l.rows > 0)
        return 0;
    (void)printf("No compute instances found: Not Found\n");
    return NVML_ERROR_NOT_FOUND;
}

static void ci_profile_row(const struct smi_gpu *gpu, nvmlGpuInstance_t gi,
                           const nvmlGpuInstanceInfo_t *info, unsigned int enumeration)
{
    nvmlComputeInstanceProfileInfo_v2_t p;
    unsigned int left = 0;
    if (!ci_profile_at(gi, enumeration, &p))
        return;
    (void)nvmlGpuInstanceGetComputeInstanceRemainingCapacity(gi, p.id, &left);
    (void)printf(
        "| %3u     %3u       %-19s %3u      %u/%u           %3u       %2u    %2u    %2u   |\n",
        gpu->index, info->id, p.name, p.id, left, p.instanceCount, p.multiprocessorCount,
        p.sharedDecoderCount, p.sharedEncoderCount, p.sharedOfaCount);
    (void)printf("|                                                                       %2u    "
                 "%2u         |\n",
                 p.sharedCopyEngineCount, p.sharedJpegCount);
    (void)printf("+--------------------------------------------------------------------------------"
                 "-------+\n");
}

static void ci_profile_rows(void *arg, const struct smi_gpu *gpu, nvmlGpuInstance_t gi,
                            const nvmlGpuInstanceInfo_t *info)
{
    struct listing *l = arg;
    if (!smi_listed(l->smi->gi_ids, info->id))
        return;
    if (l->rows++ == 0)
        (void)printf(
            "+---------------------------------------------------------------------------------------+\n"
            "| Compute instance profiles:                                                            |\n"
            "| GPU     GPU       Name               Profile  Instances   Exclusive      Shared       |\n"
            "|       Instance                         ID     Free/Total     SM      DEC   ENC   OFA  |\n"
            "|         ID                                                           CE    JPEG       |\n"
            "|=======================================================================================|\n");
    for (unsigned int e = 0; e < NVML_COMPUTE_INSTANCE_PROFILE_COUNT; e++)
        ci_profile_row(gpu, gi, info, e);
}

int smi_list_ci_profiles(const struct smi *s)
{
    struct listing l = {.smi = s};
    for (unsigned int i = 0; i < s->count; i++)
        smi_each_gi(&s->gpus[i], ci_profile_rows, &l);
    if (l.rows > 0)
        return 0;
    (void)printf("No compute instance profiles found: Not Found\n");
    return NVML_ERROR_NOT_FOUND;
}
