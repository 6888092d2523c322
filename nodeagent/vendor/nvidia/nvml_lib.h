/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/err.h"

#include "nodeagent/vendor/nvidia/nvml_abi.h"

/*
 * The library as a table of functions. Each symbol is looked up separately, the newest name first.
 * A symbol that the driver lacks is NULL; then a feature is missing, but the agent works.
 * nvml_lib_open checks the needed ones. X(member, needed, newest name, older name or NULL,
 * arguments)
 */
#define NVML_FUNCTIONS(X)                                                                          \
    X(init, 1, "nvmlInit_v2", "nvmlInit", (void))                                                  \
    X(shutdown, 1, "nvmlShutdown", NULL, (void))                                                   \
    X(driver_version, 0, "nvmlSystemGetDriverVersion", NULL, (char *, unsigned))                   \
    X(cuda_version, 0, "nvmlSystemGetCudaDriverVersion_v2", "nvmlSystemGetCudaDriverVersion",      \
      (int *))                                                                                     \
    X(count, 1, "nvmlDeviceGetCount_v2", "nvmlDeviceGetCount", (unsigned *))                       \
    X(by_index, 1, "nvmlDeviceGetHandleByIndex_v2", "nvmlDeviceGetHandleByIndex",                  \
      (unsigned, nvml_device *))                                                                   \
    X(index, 0, "nvmlDeviceGetIndex", NULL, (nvml_device, unsigned *))                             \
    X(uuid, 1, "nvmlDeviceGetUUID", NULL, (nvml_device, char *, unsigned))                         \
    X(name, 0, "nvmlDeviceGetName", NULL, (nvml_device, char *, unsigned))                         \
    X(minor, 0, "nvmlDeviceGetMinorNumber", NULL, (nvml_device, unsigned *))                       \
    X(pci, 1, "nvmlDeviceGetPciInfo_v3", "nvmlDeviceGetPciInfo_v2",                                \
      (nvml_device, struct nvml_pci_info *))                                                       \
    X(pci_ext, 0, "nvmlDeviceGetPciInfoExt", NULL, (nvml_device, struct nvml_pci_info_ext *))      \
    X(compute, 0, "nvmlDeviceGetCudaComputeCapability", NULL, (nvml_device, int *, int *))         \
    X(fabric_v, 0, "nvmlDeviceGetGpuFabricInfoV", NULL, (nvml_device, struct nvml_fabric_v2 *))    \
    X(fabric, 0, "nvmlDeviceGetGpuFabricInfo", NULL, (nvml_device, struct nvml_fabric *))          \
    X(attributes, 0, "nvmlDeviceGetAttributes_v2", "nvmlDeviceGetAttributes",                      \
      (nvml_device, struct nvml_attributes *))                                                     \
    X(architecture, 0, "nvmlDeviceGetArchitecture", NULL, (nvml_device, unsigned *))               \
    X(memory, 0, "nvmlDeviceGetMemoryInfo", NULL, (nvml_device, struct nvml_memory *))             \
    X(numa_node, 0, "nvmlDeviceGetNumaNodeId", NULL, (nvml_device, unsigned *))                    \
    X(common_ancestor, 0, "nvmlDeviceGetTopologyCommonAncestor", NULL,                             \
      (nvml_device, nvml_device, unsigned *))                                                      \
    X(nvlink_state, 0, "nvmlDeviceGetNvLinkState", NULL, (nvml_device, unsigned, unsigned *))      \
    X(nvlink_remote_type, 0, "nvmlDeviceGetNvLinkRemoteDeviceType", NULL,                          \
      (nvml_device, unsigned, unsigned *))                                                         \
    X(nvlink_remote_pci, 0, "nvmlDeviceGetNvLinkRemotePciInfo_v2", NULL,                           \
      (nvml_device, unsigned, struct nvml_pci_info *))                                             \
    X(field_values, 0, "nvmlDeviceGetFieldValues", NULL,                                           \
      (nvml_device, int, struct nvml_field_value *))                                               \
    X(mig_mode, 0, "nvmlDeviceGetMigMode", NULL, (nvml_device, unsigned *, unsigned *))            \
    X(set_mig_mode, 0, "nvmlDeviceSetMigMode", NULL, (nvml_device, unsigned, nvml_ret *))          \
    X(compute_mode, 0, "nvmlDeviceGetComputeMode", NULL, (nvml_device, unsigned *))                \
    X(persistence, 0, "nvmlDeviceGetPersistenceMode", NULL, (nvml_device, unsigned *))             \
    X(set_compute_mode, 0, "nvmlDeviceSetComputeMode", NULL, (nvml_device, unsigned))              \
    X(gi_profile, 0, "nvmlDeviceGetGpuInstanceProfileInfo", NULL,                                  \
      (nvml_device, unsigned, struct nvml_gi_profile *))                                           \
    X(gi_profile_v, 0, "nvmlDeviceGetGpuInstanceProfileInfoV", NULL,                               \
      (nvml_device, unsigned, void *))                                                             \
    X(gi_placements, 0, "nvmlDeviceGetGpuInstancePossiblePlacements_v2",                           \
      "nvmlDeviceGetGpuInstancePossiblePlacements",                                                \
      (nvml_device, unsigned, struct nvml_placement *, unsigned *))                                \
    X(gi_create_at, 0, "nvmlDeviceCreateGpuInstanceWithPlacement", NULL,                           \
      (nvml_device, unsigned, const struct nvml_placement *, nvml_gi *))                           \
    X(gi_destroy, 0, "nvmlGpuInstanceDestroy", NULL, (nvml_gi))                                    \
    X(gi_list, 0, "nvmlDeviceGetGpuInstances", NULL,                                               \
      (nvml_device, unsigned, nvml_gi *, unsigned *))                                              \
    X(gi_by_id, 0, "nvmlDeviceGetGpuInstanceById", NULL, (nvml_device, unsigned, nvml_gi *))       \
    X(gi_info, 0, "nvmlGpuInstanceGetInfo", NULL, (nvml_gi, struct nvml_gi_info *))                \
    X(ci_profile, 0, "nvmlGpuInstanceGetComputeInstanceProfileInfo", NULL,                         \
      (nvml_gi, unsigned, unsigned, struct nvml_ci_profile *))                                     \
    X(ci_create, 0, "nvmlGpuInstanceCreateComputeInstance", NULL, (nvml_gi, unsigned, nvml_ci *))  \
    X(ci_create_at, 0, "nvmlGpuInstanceCreateComputeInstanceWithPlacement", NULL,                  \
      (nvml_gi, unsigned, const struct nvml_placement *, nvml_ci *))                               \
    X(ci_destroy, 0, "nvmlComputeInstanceDestroy", NULL, (nvml_ci))                                \
    X(ci_list, 0, "nvmlGpuInstanceGetComputeInstances", NULL,                                      \
      (nvml_gi, unsigned, nvml_ci *, unsigned *))                                                  \
    X(ci_by_id, 0, "nvmlGpuInstanceGetComputeInstanceById", NULL, (nvml_gi, unsigned, nvml_ci *))  \
    X(ci_info, 0, "nvmlComputeInstanceGetInfo_v2", "nvmlComputeInstanceGetInfo",                   \
      (nvml_ci, struct nvml_ci_info *))                                                            \
    X(compute_processes, 0, "nvmlDeviceGetComputeRunningProcesses_v3",                             \
      "nvmlDeviceGetComputeRunningProcesses_v2",                                                   \
      (nvml_device, unsigned *, struct nvml_process_info *))                                       \
    X(graphics_processes, 0, "nvmlDeviceGetGraphicsRunningProcesses_v3",                           \
      "nvmlDeviceGetGraphicsRunningProcesses_v2",                                                  \
      (nvml_device, unsigned *, struct nvml_process_info *))                                       \
    X(event_set_create, 0, "nvmlEventSetCreate", NULL, (nvml_event_set *))                         \
    X(event_set_free, 0, "nvmlEventSetFree", NULL, (nvml_event_set))                               \
    X(event_types, 0, "nvmlDeviceGetSupportedEventTypes", NULL,                                    \
      (nvml_device, unsigned long long *))                                                         \
    X(event_register, 0, "nvmlDeviceRegisterEvents", NULL,                                         \
      (nvml_device, unsigned long long, nvml_event_set))                                           \
    X(event_wait, 0, "nvmlEventSetWait_v2", NULL,                                                  \
      (nvml_event_set, struct nvml_event_data *, unsigned))                                        \
    X(limits_set, 0, "nvmlDeviceSetMemoryLimits_v1", NULL,                                         \
      (nvml_device, struct nvml_limits_set *))                                                     \
    X(limits_get, 0, "nvmlDeviceGetMemoryLimits_v1", NULL,                                         \
      (nvml_device, struct nvml_limits_get *))                                                     \
    X(mps_processes, 0, "nvmlDeviceGetMPSComputeRunningProcesses_v3",                              \
      "nvmlDeviceGetMPSComputeRunningProcesses_v2",                                                \
      (nvml_device, unsigned *, struct nvml_process_info *))                                       \
    X(process_samples, 0, "nvmlDeviceGetProcessUtilization", NULL,                                 \
      (nvml_device, struct nvml_process_sample *, unsigned *, unsigned long long))                 \
    X(clock, 0, "nvmlDeviceGetClockInfo", NULL, (nvml_device, unsigned, unsigned *))               \
    X(temperature, 0, "nvmlDeviceGetTemperature", NULL, (nvml_device, unsigned, unsigned *))       \
    X(power, 0, "nvmlDeviceGetPowerUsage", NULL, (nvml_device, unsigned *))                        \
    X(power_limit, 0, "nvmlDeviceGetEnforcedPowerLimit", NULL, (nvml_device, unsigned *))          \
    X(fan, 0, "nvmlDeviceGetFanSpeed", NULL, (nvml_device, unsigned *))                            \
    X(pstate, 0, "nvmlDeviceGetPerformanceState", NULL, (nvml_device, unsigned *))                 \
    X(clock_reasons, 0, "nvmlDeviceGetCurrentClocksEventReasons",                                  \
      "nvmlDeviceGetCurrentClocksThrottleReasons", (nvml_device, unsigned long long *))            \
    X(pcie, 0, "nvmlDeviceGetPcieThroughput", NULL, (nvml_device, unsigned, unsigned *))           \
    X(utilization, 0, "nvmlDeviceGetUtilizationRates", NULL,                                       \
      (nvml_device, struct nvml_utilization *))                                                    \
    X(encoder, 0, "nvmlDeviceGetEncoderUtilization", NULL, (nvml_device, unsigned *, unsigned *))  \
    X(decoder, 0, "nvmlDeviceGetDecoderUtilization", NULL, (nvml_device, unsigned *, unsigned *))  \
    X(memory_v2, 0, "nvmlDeviceGetMemoryInfo_v2", NULL, (nvml_device, struct nvml_memory_v2 *))    \
    X(mig_count, 0, "nvmlDeviceGetMaxMigDeviceCount", NULL, (nvml_device, unsigned *))             \
    X(mig_device, 0, "nvmlDeviceGetMigDeviceHandleByIndex", NULL,                                  \
      (nvml_device, unsigned, nvml_device *))                                                      \
    X(gi_id, 0, "nvmlDeviceGetGpuInstanceId", NULL, (nvml_device, unsigned *))                     \
    X(gpm_support, 0, "nvmlGpmQueryDeviceSupport", NULL, (nvml_device, struct nvml_gpm_support *)) \
    X(gpm_alloc, 0, "nvmlGpmSampleAlloc", NULL, (nvml_gpm_sample *))                               \
    X(gpm_free, 0, "nvmlGpmSampleFree", NULL, (nvml_gpm_sample))                                   \
    X(gpm_get, 0, "nvmlGpmSampleGet", NULL, (nvml_device, nvml_gpm_sample))                        \
    X(gpm_get_part, 0, "nvmlGpmMigSampleGet", NULL, (nvml_device, unsigned, nvml_gpm_sample))      \
    X(gpm_metrics, 0, "nvmlGpmMetricsGet", NULL, (struct nvml_gpm_metrics *))

#define NVML_MEMBER(member, needed, newest, older, args) nvml_ret(*member) args;

#define NVML_NAME(member, needed, newest, older, args) const char *member;

struct nvml_lib {
    void *dl;
    const char *(*error_string)(nvml_ret);
    NVML_FUNCTIONS(NVML_MEMBER)
};

/* The functions' names, for messages and the watchdog. */
struct nvml_names {
    NVML_FUNCTIONS(NVML_NAME)
};
extern const struct nvml_names nvml_names;

/* Loads the library (NULL: libnvidia-ml.so.1 by the loader's rules). Caller closes. ERR_NOT_FOUND:
 * no library; ERR_PROTOCOL: it lacks a needed function. */
int nvml_lib_open(const char *path, struct nvml_lib *ret, struct err *e) MUST_CHECK;
void nvml_lib_close(struct nvml_lib *lib);

/* NVML's text for a return code; static or the library's. */
const char *nvml_lib_text(const struct nvml_lib *lib, nvml_ret rc);

/* Sets e from a return code: a kind, a CamelCase reason, the call's name and NVML's text. A missing
 * function is NVML_FUNCTION_NOT_FOUND. Returns -kind. */
int nvml_lib_error(const struct nvml_lib *lib, const char *call, nvml_ret rc, struct err *e);
