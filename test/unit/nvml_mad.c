/* SPDX-License-Identifier: Apache-2.0 */
/*
 * NVIDIA's library gone mad: two cards, the first cut by MIG into 1g.5gb and 3g.20gb with two
 * compute instances, a process on each. A test asks by name for one thing that cannot be, a fuzzer
 * gives bytes that change any answer. It is part of the program that uses it, and found there
 * (library "").
 */
#include "test/unit/nvml_mad.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "nodeagent/vendor/nvidia/nvml_abi.h"
#include "test/unit/mad_bytes.h"

enum { CARDS = 2, MIG_DEVICE = 1000, GI = 2000, CI = 3000, FEW = 300 };

static const char *madness = "";

static int is(const char *what)
{
    return strcmp(madness, what) == 0;
}

void nvml_mad_about(const char *what)
{
    madness = what;
}

void nvml_mad_feed(const uint8_t *bytes, size_t n)
{
    mad_bytes.next = bytes;
    mad_bytes.left = n;
}

/* Handles are numbers above 0. */
static void *handle(size_t n)
{
    return (void *)n;
}

static size_t number_of(const void *any)
{
    return (size_t)any;
}

static nvml_ret answer(nvml_ret sane)
{
    static const nvml_ret others[] = {NVML_UNINITIALIZED,
                                      NVML_INVALID_ARGUMENT,
                                      NVML_NOT_SUPPORTED,
                                      NVML_NOT_FOUND,
                                      NVML_INSUFFICIENT_SIZE,
                                      NVML_TIMEOUT,
                                      NVML_FUNCTION_NOT_FOUND,
                                      NVML_GPU_IS_LOST,
                                      NVML_RESET_REQUIRED,
                                      NVML_IN_USE,
                                      NVML_INSUFFICIENT_RESOURCES,
                                      NVML_ARGUMENT_VERSION_MISMATCH,
                                      NVML_SUCCESS,
                                      999};
    unsigned op = mad_byte();
    return op < 208 ? sane : others[op % (sizeof(others) / sizeof(others[0]))];
}

/* At most so many bytes of it, with an end if there is room for one. */
static void put(char *to, size_t room, const char *text)
{
    size_t n = strlen(text) + 1;
    if (is("texts without end"))
        memset(to, 'A', room);
    else
        memcpy(to, text, n < room ? n : room);
    mad_touch(to, room);
}

#define MAD(name, args)                                                                            \
    nvml_ret name args;                                                                            \
    nvml_ret name args

MAD(nvmlInit_v2, (void))
{
    return answer(NVML_SUCCESS);
}

MAD(nvmlShutdown, (void))
{
    return NVML_SUCCESS;
}

MAD(nvmlSystemGetDriverVersion, (char *text, unsigned room))
{
    if (is("driver's version without end"))
        memset(text, 'A', room);
    else
        put(text, room, "580.95.05");
    return answer(NVML_SUCCESS);
}

MAD(nvmlSystemGetCudaDriverVersion_v2, (int *ret))
{
    *ret = is("negative version") ? -2147483647 - 1 : 13000;
    mad_touch(ret, sizeof(*ret));
    return answer(NVML_SUCCESS);
}

MAD(nvmlDeviceGetCount_v2, (unsigned *ret))
{
    unsigned op = mad_byte();
    *ret = op < 240 ? CARDS : op < 250 ? op - 240 : mad_number(CARDS);
    return answer(NVML_SUCCESS);
}

MAD(nvmlDeviceGetHandleByIndex_v2, (unsigned index, nvml_device *ret))
{
    *ret = handle(index + 1);
    return answer(index < CARDS ? NVML_SUCCESS : NVML_INVALID_ARGUMENT);
}

MAD(nvmlDeviceGetUUID, (nvml_device d, char *text, unsigned room))
{
    char uuid[64];
    size_t n = number_of(d);
    if (n > MIG_DEVICE)
        (void)snprintf(uuid, sizeof(uuid), "MIG-%zu",
                       is("two partitions of one UUID") ? MIG_DEVICE : n);
    else
        (void)snprintf(uuid, sizeof(uuid), "GPU-%zu", is("two cards of one UUID") ? 1 : n);
    if (is("card's UUID that leads elsewhere") && n == 1)
        (void)snprintf(uuid, sizeof(uuid), "../../etc");
    if (is("card without UUID") && n == 1)
        uuid[0] = '\0';
    if (is("card's UUID without end") && n < MIG_DEVICE)
        memset(text, 'A', room);
    else if (is("partition's UUID without end") && n > MIG_DEVICE)
        memset(text, 'A', room);
    else
        put(text, room, uuid);
    return answer(NVML_SUCCESS);
}

MAD(nvmlDeviceGetName, (nvml_device d, char *text, unsigned room))
{
    (void)d;
    if (is("card's name without end"))
        memset(text, '\xff', room);
    else
        put(text, room, "NVIDIA A100-SXM4-40GB");
    return answer(NVML_SUCCESS);
}

MAD(nvmlDeviceGetMinorNumber, (nvml_device d, unsigned *ret))
{
    *ret = is("minor number") ? 4000000000U : (unsigned)number_of(d) - 1;
    mad_touch(ret, sizeof(*ret));
    return answer(NVML_SUCCESS);
}

MAD(nvmlDeviceGetPciInfo_v3, (nvml_device d, struct nvml_pci_info *ret))
{
    *ret = (struct nvml_pci_info){.pciDeviceId = 0x20B010DE};
    (void)snprintf(ret->busId, sizeof(ret->busId), "00000000:%02X:00.0",
                   (unsigned)number_of(d) & 0xff);
    if (number_of(d) == 1 && is("PCI address without end"))
        memset(ret->busId, 'A', sizeof(ret->busId));
    if (number_of(d) == 1 && is("PCI address that leads elsewhere"))
        (void)snprintf(ret->busId, sizeof(ret->busId), "../../../../etc");
    mad_touch(ret, sizeof(*ret));
    return answer(NVML_SUCCESS);
}

MAD(nvmlDeviceGetCudaComputeCapability, (nvml_device d, int *major, int *minor))
{
    (void)d;
    *major = is("negative capability") ? -8 : 8;
    *minor = 0;
    mad_touch(major, sizeof(*major));
    mad_touch(minor, sizeof(*minor));
    return answer(NVML_SUCCESS);
}

MAD(nvmlDeviceGetArchitecture, (nvml_device d, unsigned *ret))
{
    (void)d;
    *ret = mad_number(7);
    return answer(NVML_SUCCESS);
}

MAD(nvmlDeviceGetMemoryInfo, (nvml_device d, struct nvml_memory *ret))
{
    bool all = number_of(d) == 1 && is("memory of a card");
    *ret = (struct nvml_memory){.total = all ? ~0ULL : 40960ULL << 20};
    mad_touch(ret, sizeof(*ret));
    return answer(NVML_SUCCESS);
}

MAD(nvmlDeviceGetNumaNodeId, (nvml_device d, unsigned *ret))
{
    (void)d;
    *ret = mad_number(1);
    return answer(NVML_SUCCESS);
}

MAD(nvmlDeviceGetTopologyCommonAncestor, (nvml_device a, nvml_device b, unsigned *ret))
{
    (void)a;
    (void)b;
    *ret = mad_number(is("topology") ? 4000000000U : NVML_TOPOLOGY_NODE);
    return answer(NVML_SUCCESS);
}

MAD(nvmlDeviceGetNvLinkState, (nvml_device d, unsigned link, unsigned *ret))
{
    (void)d;
    *ret = link < 2;
    return answer(link < 12 || is("topology") ? NVML_SUCCESS : NVML_INVALID_ARGUMENT);
}

MAD(nvmlDeviceGetNvLinkRemoteDeviceType, (nvml_device d, unsigned link, unsigned *ret))
{
    (void)d;
    (void)link;
    *ret = mad_number(NVML_NVLINK_GPU);
    return answer(NVML_SUCCESS);
}

MAD(nvmlDeviceGetNvLinkRemotePciInfo_v2, (nvml_device d, unsigned link, struct nvml_pci_info *ret))
{
    (void)link;
    return nvmlDeviceGetPciInfo_v3(handle(3 - number_of(d)), ret);
}

MAD(nvmlDeviceGetFieldValues, (nvml_device d, int n, struct nvml_field_value *values))
{
    (void)d;
    for (int i = 0; i < n; i++) {
        values[i].nvmlReturn = NVML_SUCCESS;
        values[i].value.dVal = is("measures") ? -1 : 0;
        mad_touch(&values[i], sizeof(values[i]));
    }
    return answer(NVML_SUCCESS);
}

MAD(nvmlDeviceGetMigMode, (nvml_device d, unsigned *current, unsigned *pending))
{
    *current = *pending = number_of(d) == 1;
    mad_touch(current, sizeof(*current));
    mad_touch(pending, sizeof(*pending));
    return answer(*current ? NVML_SUCCESS : NVML_NOT_SUPPORTED);
}

MAD(nvmlDeviceSetMigMode, (nvml_device d, unsigned mode, nvml_ret *ret))
{
    (void)d;
    (void)mode;
    *ret = answer(NVML_SUCCESS);
    return answer(NVML_SUCCESS);
}

MAD(nvmlDeviceGetComputeMode, (nvml_device d, unsigned *ret))
{
    (void)d;
    *ret = mad_number(NVML_COMPUTE_DEFAULT);
    return answer(NVML_SUCCESS);
}

MAD(nvmlDeviceSetComputeMode, (nvml_device d, unsigned mode))
{
    (void)d;
    (void)mode;
    return answer(NVML_SUCCESS);
}

MAD(nvmlDeviceGetGpuFabricInfoV, (nvml_device d, struct nvml_fabric_v2 *ret))
{
    (void)d;
    ret->state = NVML_FABRIC_NOT_SUPPORTED;
    mad_touch(ret, sizeof(*ret));
    return answer(NVML_SUCCESS);
}

MAD(nvmlDeviceGetAttributes_v2, (nvml_device d, struct nvml_attributes *ret))
{
    (void)d;
    *ret = (struct nvml_attributes){.multiprocessorCount = 14};
    mad_touch(ret, sizeof(*ret));
    return answer(NVML_SUCCESS);
}

/* ---- MIG ---- */

/* By the enumeration's value. */
static const struct kind {
    const char *name;
    unsigned id, slices, size, count, memory_mib, n_starts, step;
} kinds[] = {
    {"1g.5gb", 19, 1, 1, 7, 4864, 7, 1},  {"2g.10gb", 14, 2, 2, 3, 9856, 3, 2},
    {"3g.20gb", 9, 3, 4, 2, 19968, 2, 4}, {"4g.20gb", 5, 4, 4, 1, 19968, 1, 4},
    {"7g.40gb", 0, 7, 8, 1, 40192, 1, 8},
};
enum { KINDS = sizeof(kinds) / sizeof(kinds[0]) };

static const struct kind *kind_of(unsigned id)
{
    for (unsigned i = 0; i < KINDS; i++)
        if (kinds[i].id == id)
            return &kinds[i];
    return NULL;
}

MAD(nvmlDeviceGetGpuInstanceProfileInfoV, (nvml_device d, unsigned value, void *any))
{
    struct nvml_gi_profile_v3 *ret = any;
    (void)d;
    if (value >= KINDS && !is("endless profiles"))
        return answer(NVML_INVALID_ARGUMENT);
    const struct kind *k = &kinds[value % KINDS];
    *ret = (struct nvml_gi_profile_v3){.version = ret->version,
                                       .id = is("endless profiles") ? value : k->id,
                                       .sliceCount = k->slices,
                                       .instanceCount = k->count,
                                       .multiprocessorCount = 14 * k->slices,
                                       .memorySizeMB = k->memory_mib};
    if (is("profile's name without end"))
        memset(ret->name, 'A', sizeof(ret->name));
    else
        memcpy(ret->name, k->name, strlen(k->name));
    if (is("profile of 32 slices") && value == 2)
        ret->sliceCount = 32;
    if (is("profile without slices") && value == 2)
        ret->sliceCount = 0;
    if (is("two profiles of one id"))
        ret->id = 19;
    if (is("memory of a profile"))
        ret->memorySizeMB = ~0ULL;
    mad_touch(&ret->id, sizeof(*ret) - offsetof(struct nvml_gi_profile_v3, id));
    return answer(NVML_SUCCESS);
}

MAD(nvmlDeviceGetGpuInstancePossiblePlacements_v2,
    (nvml_device d, unsigned id, struct nvml_placement *at, unsigned *n))
{
    const struct kind *k = kind_of(id);
    unsigned count = k ? k->n_starts : 1;
    (void)d;
    for (unsigned i = 0; at && i < count; i++) {
        at[i] = (struct nvml_placement){.start = k ? i * k->step : 0, .size = k ? k->size : 1};
        if (is("placement off the grid") && i == 0)
            at[i].start = 4000000000U;
        if (is("placement without size"))
            at[i].size = 0;
        if (is("placements of two sizes") && i == 1)
            at[i].size++;
        if (is("placement of all sizes"))
            at[i].size = 4000000000U;
        mad_touch(&at[i], sizeof(at[i]));
    }
    *n = mad_number(is("count of placements") || (at && is("placements that became more"))
                        ? 4000000000U
                        : count);
    return answer(NVML_SUCCESS);
}

/* What stands on card 0: instance 7 of 1g.5gb, instance 1 of 3g.20gb. */
MAD(nvmlDeviceGetGpuInstances, (nvml_device d, unsigned id, nvml_gi *gis, unsigned *n))
{
    *n = number_of(d) == 1 && (id == 19 || id == 9);
    if (*n)
        gis[0] = handle(GI + id);
    if (*n && is("one instance twice"))
        gis[(*n)++] = handle(GI + id);
    *n = mad_number(is("count of instances") ? 4000000000U : *n);
    return answer(NVML_SUCCESS);
}

MAD(nvmlDeviceGetGpuInstanceById, (nvml_device d, unsigned id, nvml_gi *ret))
{
    (void)d;
    *ret = handle(GI + (id == 7 ? 19U : 9U));
    return answer(NVML_SUCCESS);
}

MAD(nvmlGpuInstanceGetInfo, (nvml_gi gi, struct nvml_gi_info *ret))
{
    bool small = number_of(gi) == GI + 19;
    *ret = (struct nvml_gi_info){.device = handle(1),
                                 .id = small ? 7 : 1,
                                 .profileId = small ? 19 : 9,
                                 .placement = {.start = small ? 0 : 4, .size = small ? 1 : 4}};
    if (is("id of an instance"))
        ret->id = 4000000000U;
    if (is("two instances of one id"))
        ret->id = 3;
    if (is("instance off the grid"))
        ret->placement.start = 4294967295U;
    if (is("instance without size"))
        ret->placement.size = 0;
    mad_touch(&ret->id, sizeof(*ret) - offsetof(struct nvml_gi_info, id));
    return answer(NVML_SUCCESS);
}

MAD(nvmlGpuInstanceGetComputeInstanceProfileInfo,
    (nvml_gi gi, unsigned value, unsigned engine, struct nvml_ci_profile *ret))
{
    (void)engine;
    bool small = number_of(gi) == GI + 19;
    if (value >= (small ? 1 : 3))
        return answer(NVML_NOT_SUPPORTED);
    if (is("answer that is none"))
        return NVML_SUCCESS;
    *ret =
        (struct nvml_ci_profile){.id = value,
                                 .sliceCount = is("slices of compute instances") ? 77 : value + 1};
    mad_touch(ret, sizeof(*ret));
    return answer(NVML_SUCCESS);
}

MAD(nvmlGpuInstanceGetComputeInstances, (nvml_gi gi, unsigned id, nvml_ci *cis, unsigned *n))
{
    bool small = number_of(gi) == GI + 19;
    *n = id != 0 ? 0 : small ? 1 : 2;
    for (unsigned i = 0; i < *n; i++)
        cis[i] = handle(CI + number_of(gi) + i * 100);
    *n = mad_number(is("count of compute instances") ? 4000000000U : *n);
    return answer(NVML_SUCCESS);
}

MAD(nvmlGpuInstanceGetComputeInstanceById, (nvml_gi gi, unsigned id, nvml_ci *ret))
{
    *ret = handle(CI + number_of(gi) + id * 100UL);
    return answer(NVML_SUCCESS);
}

MAD(nvmlComputeInstanceGetInfo_v2, (nvml_ci ci, struct nvml_ci_info *ret))
{
    unsigned id = (unsigned)(number_of(ci) % 1000) / 100;
    *ret = (struct nvml_ci_info){.device = handle(MIG_DEVICE + number_of(ci)),
                                 .id = is("two compute instances of one id") ? 0 : id,
                                 .placement = {.start = id, .size = 1}};
    if (is("id of a compute instance"))
        ret->id = 4000000000U;
    if (is("start of a compute instance"))
        ret->placement.start = 4000000000U;
    mad_touch(&ret->id, sizeof(*ret) - offsetof(struct nvml_ci_info, id));
    return answer(NVML_SUCCESS);
}

MAD(nvmlDeviceCreateGpuInstanceWithPlacement,
    (nvml_device d, unsigned id, const struct nvml_placement *at, nvml_gi *ret))
{
    (void)d;
    (void)at;
    *ret = handle(GI + id);
    return answer(NVML_SUCCESS);
}

MAD(nvmlGpuInstanceDestroy, (nvml_gi gi))
{
    (void)gi;
    return answer(NVML_SUCCESS);
}

MAD(nvmlGpuInstanceCreateComputeInstance, (nvml_gi gi, unsigned id, nvml_ci *ret))
{
    (void)id;
    *ret = handle(CI + number_of(gi));
    return answer(NVML_SUCCESS);
}

MAD(nvmlGpuInstanceCreateComputeInstanceWithPlacement,
    (nvml_gi gi, unsigned id, const struct nvml_placement *at, nvml_ci *ret))
{
    (void)at;
    return nvmlGpuInstanceCreateComputeInstance(gi, id, ret);
}

MAD(nvmlComputeInstanceDestroy, (nvml_ci ci))
{
    (void)ci;
    return answer(NVML_SUCCESS);
}

/* ---- processes ---- */

/* The last of many is the only one in instance 1. */
static nvml_ret many(unsigned *n, struct nvml_process_info *list)
{
    unsigned room = *n;
    *n = FEW;
    for (unsigned i = 0; room >= FEW && i < FEW; i++)
        list[i] = (struct nvml_process_info){.pid = i + 1000,
                                             .gpuInstanceId = i == FEW - 1 ? 1 : 7,
                                             .computeInstanceId = 0};
    return room < FEW ? NVML_INSUFFICIENT_SIZE : NVML_SUCCESS;
}

MAD(nvmlDeviceGetComputeRunningProcesses_v3,
    (nvml_device d, unsigned *n, struct nvml_process_info *list))
{
    if (is("many processes") && number_of(d) == 1)
        return many(n, list);
    if (is("list that always grows") && number_of(d) == 1) {
        *n += 1;
        return NVML_INSUFFICIENT_SIZE;
    }
    unsigned room = *n;
    unsigned count = mad_number(1);
    for (unsigned i = 0; i < count && i < room && i < FEW; i++) {
        list[i] = (struct nvml_process_info){.pid = 77 + i,
                                             .usedGpuMemory = 1 << 20,
                                             .gpuInstanceId = number_of(d) == 1 ? 7U : ~0U,
                                             .computeInstanceId = number_of(d) == 1 ? 0U : ~0U};
        if (is("process without pid"))
            list[i].pid = 0;
        if (is("process in an instance that cannot be"))
            list[i].gpuInstanceId = 4000000000U;
        mad_touch(&list[i], sizeof(list[i]));
    }
    *n = is("count of processes") && number_of(d) == 1 ? 4000000000U : count;
    return answer(count > room ? NVML_INSUFFICIENT_SIZE : NVML_SUCCESS);
}

MAD(nvmlDeviceGetGraphicsRunningProcesses_v3,
    (nvml_device d, unsigned *n, struct nvml_process_info *list))
{
    (void)d;
    (void)list;
    *n = mad_number(0);
    return answer(*n ? NVML_INSUFFICIENT_SIZE : NVML_SUCCESS);
}

/* ---- events ---- */

MAD(nvmlEventSetCreate, (nvml_event_set * ret))
{
    *ret = handle(1);
    return answer(NVML_SUCCESS);
}

MAD(nvmlEventSetFree, (nvml_event_set set))
{
    (void)set;
    return NVML_SUCCESS;
}

MAD(nvmlDeviceGetSupportedEventTypes, (nvml_device d, unsigned long long *ret))
{
    (void)d;
    *ret = NVML_EVENT_XID;
    mad_touch(ret, sizeof(*ret));
    return answer(NVML_SUCCESS);
}

MAD(nvmlDeviceRegisterEvents, (nvml_device d, unsigned long long types, nvml_event_set set))
{
    (void)d;
    (void)types;
    (void)set;
    return answer(NVML_SUCCESS);
}

/* Ends when nothing is left to be mad about, and before it is paced (nvml_events.c). */
MAD(nvmlEventSetWait_v2, (nvml_event_set set, struct nvml_event_data *ret, unsigned timeout_ms))
{
    (void)set;
    (void)timeout_ms;
    *ret =
        (struct nvml_event_data){.device = handle(1), .eventType = NVML_EVENT_XID, .eventData = 79};
    mad_touch(&ret->eventType, sizeof(*ret) - offsetof(struct nvml_event_data, eventType));
    static unsigned reports;
    reports = mad_bytes.left && reports < 100 ? reports + 1 : 0;
    return reports ? answer(NVML_SUCCESS) : 999;
}

/* ---- for what it measures ---- */

int nvml_mad_is(const char *what)
{
    return is(what);
}

nvml_ret nvml_mad_answer(nvml_ret sane, void *ret, size_t size)
{
    mad_touch(ret, size);
    return answer(sane);
}

unsigned nvml_mad_number(unsigned sane)
{
    return mad_number(sane);
}
