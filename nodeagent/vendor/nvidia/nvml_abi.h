/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stddef.h>

/*
 * The part of NVML's binary interface (API 13, x86-64) that this back end calls, declared from its
 * documented names, struct layouts and constants. Field names are NVML's. The layouts are frozen by
 * the assertions at the end: NVML never changes a published struct, it adds a new version.
 */

typedef int nvml_ret; /* nvmlReturn_t */

/* Handles are pointers passed by value. */
typedef struct nvml_device_opaque *nvml_device;
typedef struct nvml_gi_opaque *nvml_gi;
typedef struct nvml_ci_opaque *nvml_ci;
typedef struct nvml_event_set_opaque *nvml_event_set;
typedef struct nvml_gpm_sample_opaque *nvml_gpm_sample;

enum {
    NVML_SUCCESS = 0,
    NVML_UNINITIALIZED = 1,
    NVML_INVALID_ARGUMENT = 2,
    NVML_NOT_SUPPORTED = 3,
    NVML_NO_PERMISSION = 4,
    NVML_NOT_FOUND = 6,
    NVML_INSUFFICIENT_SIZE = 7,
    NVML_DRIVER_NOT_LOADED = 9,
    NVML_TIMEOUT = 10,
    NVML_LIBRARY_NOT_FOUND = 12,
    NVML_FUNCTION_NOT_FOUND = 13,
    NVML_GPU_IS_LOST = 15,
    NVML_RESET_REQUIRED = 16,
    NVML_LIB_RM_VERSION_MISMATCH = 18,
    NVML_IN_USE = 19,
    NVML_INSUFFICIENT_RESOURCES = 23,
    NVML_ARGUMENT_VERSION_MISMATCH = 25,
    NVML_NOT_READY = 27,
    NVML_GPU_NOT_FOUND = 28,
    NVML_INVALID_STATE = 29,
};

/* GPU instance profiles by enumeration value; the attribute in a profile's name follows from it. */
enum {
    NVML_GI_1_SLICE = 0x0,
    NVML_GI_1_SLICE_REV1 = 0x7,
    NVML_GI_2_SLICE_REV1 = 0x8,
    NVML_GI_1_SLICE_REV2 = 0x9,
    NVML_GI_1_SLICE_GFX = 0xa,
    NVML_GI_2_SLICE_GFX = 0xb,
    NVML_GI_4_SLICE_GFX = 0xc,
    NVML_GI_1_SLICE_NO_ME = 0xd,
    NVML_GI_2_SLICE_NO_ME = 0xe,
    NVML_GI_1_SLICE_ALL_ME = 0xf,
    NVML_GI_2_SLICE_ALL_ME = 0x10,
    NVML_GI_3_SLICE_GFX = 0x11,
};

/* The compute instance profile that comes with its own media engines; same slices as profile 0. */
enum { NVML_CI_1_SLICE_REV1 = 0x7, NVML_CI_PROFILE_COUNT = 0x9, NVML_CI_ENGINE_SHARED = 0x0 };

enum { NVML_MIG_DISABLE = 0, NVML_MIG_ENABLE = 1 };

/* Field ids: ECC errors since the last reset (VOL) and ever (AGG); page retirement and row
 * remapping; the errors of all NVLinks; how long clocks were held back; what went through NVLinks; the recovery action that the
 * driver asks for, with its values. */
enum {
    NVML_FI_ECC_SBE_VOL_TOTAL = 3,
    NVML_FI_ECC_DBE_VOL_TOTAL = 4,
    NVML_FI_ECC_SBE_AGG_TOTAL = 5,
    NVML_FI_ECC_DBE_AGG_TOTAL = 6,
    NVML_FI_RETIRED_SBE = 29,
    NVML_FI_RETIRED_DBE = 30,
    NVML_FI_RETIRED_PENDING = 31,
    NVML_FI_NVLINK_CRC_FLIT_ERRORS = 38,
    NVML_FI_NVLINK_CRC_DATA_ERRORS = 45,
    NVML_FI_NVLINK_REPLAYS = 52,
    NVML_FI_NVLINK_RECOVERIES = 59,
    NVML_FI_PERF_POLICY_POWER = 74,
    NVML_FI_PERF_POLICY_THERMAL = 75,
    NVML_FI_MEMORY_TEMP = 82,
    NVML_FI_TOTAL_ENERGY = 83,
    NVML_FI_PCIE_REPLAYS = 94,
    NVML_FI_NVLINK_DATA_TX = 138,
    NVML_FI_NVLINK_DATA_RX = 139,
    NVML_FI_REMAPPED_COR = 142,
    NVML_FI_REMAPPED_UNC = 143,
    NVML_FI_REMAPPED_PENDING = 144,
    NVML_FI_REMAPPED_FAILURE = 145,
    NVML_FI_RECOVERY_ACTION = 230,
};
enum {
    NVML_RECOVERY_NONE = 0,
    NVML_RECOVERY_RESET = 1,
    NVML_RECOVERY_REBOOT = 2,
    NVML_RECOVERY_DRAIN_P2P = 3,
    NVML_RECOVERY_DRAIN_AND_RESET = 4,
    NVML_RECOVERY_IMEX_DOMAIN = 5,
    NVML_RECOVERY_BUS_RESET = 6,
    NVML_RECOVERY_SYSTEM_REBOOT = 7,
};

/* The scope of a field of NVLinks is a link's number, or this: all links. */
#define NVML_ALL_LINKS 0xffffffffU

/* nvmlValueType_t. */
enum {
    NVML_VALUE_DOUBLE = 0,
    NVML_VALUE_UNSIGNED_INT = 1,
    NVML_VALUE_UNSIGNED_LONG = 2,
    NVML_VALUE_UNSIGNED_LONG_LONG = 3,
    NVML_VALUE_SIGNED_LONG_LONG = 4,
    NVML_VALUE_SIGNED_INT = 5,
    NVML_VALUE_UNSIGNED_SHORT = 6,
};

enum { NVML_CLOCK_SM = 1, NVML_CLOCK_MEMORY = 2 };
enum { NVML_TEMPERATURE_GPU = 0 };
enum { NVML_PCIE_TX = 0, NVML_PCIE_RX = 1 };

/* GPM's metrics: of the time between two samples, in percent, or in MiB a second. */
enum {
    NVML_GPM_GRAPHICS = 1,
    NVML_GPM_SM = 2,
    NVML_GPM_SM_OCCUPANCY = 3,
    NVML_GPM_TENSOR = 5,
    NVML_GPM_DRAM = 10,
    NVML_GPM_FP64 = 11,
    NVML_GPM_FP32 = 12,
    NVML_GPM_FP16 = 13,
    NVML_GPM_PCIE_TX = 20,
    NVML_GPM_PCIE_RX = 21,
    NVML_GPM_NVLINK_RX = 60,
    NVML_GPM_NVLINK_TX = 61,
};

/* Event types. */
enum {
    NVML_EVENT_DOUBLE_BIT_ECC = 0x2,
    NVML_EVENT_XID = 0x8,
    NVML_EVENT_DRAM_RETIREMENT = 0x400,
    NVML_EVENT_DRAM_RETIREMENT_FAILURE = 0x800,
    NVML_EVENT_FATAL_POISON = 0x2000,
    NVML_EVENT_GPU_UNAVAILABLE = 0x4000,
    NVML_EVENT_RECOVERY_ACTION = 0x8000,
};

/* The common ancestor of two cards, from near to far. */
enum {
    NVML_TOPOLOGY_INTERNAL = 0,
    NVML_TOPOLOGY_SINGLE = 10,
    NVML_TOPOLOGY_MULTIPLE = 20,
    NVML_TOPOLOGY_HOSTBRIDGE = 30,
    NVML_TOPOLOGY_NODE = 40,
    NVML_TOPOLOGY_SYSTEM = 50,
};

/* nvmlComputeMode_t. */
enum { NVML_COMPUTE_DEFAULT = 0, NVML_COMPUTE_EXCLUSIVE_PROCESS = 3 };

/* The type of an NVLink's other end. */
enum { NVML_NVLINK_GPU = 0, NVML_NVLINK_SWITCH = 2, NVML_NVLINK_UNKNOWN = 255 };
enum { NVML_NVLINK_MAX_LINKS = 36 };

#define NVML_NO_INSTANCE 0xffffffffU /* a process's gpuInstanceId outside MIG */
#define NVML_MEMORY_UNKNOWN                                                                        \
    (~0ULL) /* usedGpuMemory where the driver does not report                                      \
               it */
#define NVML_NUMA_NONE               0xffffffffU
#define NVML_NAME_BYTES              96
#define NVML_UUID_BYTES              96
#define NVML_DRIVER_BYTES            80
#define NVML_STRUCT_VERSION(type, n) ((unsigned)(sizeof(type) | ((unsigned)(n) << 24)))

struct nvml_pci_info {
    char busIdLegacy[16];
    unsigned domain, bus, device;
    unsigned pciDeviceId, pciSubSystemId;
    char busId[32];
};

struct nvml_pci_info_ext {
    unsigned version;
    unsigned domain, bus, device;
    unsigned pciDeviceId, pciSubSystemId;
    unsigned baseClass, subClass;
    char busId[32];
};

/* A card's membership in an NVLink fabric. The first version of the versioned struct is number
 * 2. */
enum { NVML_FABRIC_NOT_SUPPORTED = 0, NVML_FABRIC_COMPLETED = 3 };
struct nvml_fabric {
    unsigned char clusterUuid[16];
    nvml_ret status;
    unsigned cliqueId, state;
};

struct nvml_fabric_v2 {
    unsigned version;
    unsigned char clusterUuid[16];
    nvml_ret status;
    unsigned cliqueId, state, healthMask;
};

/* A MIG device's. */
struct nvml_attributes {
    unsigned multiprocessorCount;
    unsigned sharedCopyEngineCount, sharedDecoderCount, sharedEncoderCount, sharedJpegCount;
    unsigned sharedOfaCount;
    unsigned gpuInstanceSliceCount, computeInstanceSliceCount;
    unsigned long long memorySizeMB;
};

struct nvml_field_value {
    unsigned fieldId, scopeId;
    long long timestamp, latencyUsec;
    int valueType;
    nvml_ret nvmlReturn;
    union {
        double dVal;
        int siVal;
        unsigned uiVal;
        unsigned long long ullVal;
        long long sllVal;
        unsigned short usVal;
    } value;
};

struct nvml_event_data {
    nvml_device device;
    unsigned long long eventType, eventData;
    unsigned gpuInstanceId, computeInstanceId;
};

struct nvml_memory {
    unsigned long long total, free, used;
};

struct nvml_memory_v2 {
    unsigned version;
    unsigned long long total, reserved, free, used;
};

struct nvml_utilization {
    unsigned gpu, memory;
};

/* What a process did until timeStamp, in microseconds. */
struct nvml_process_sample {
    unsigned pid;
    unsigned long long timeStamp;
    unsigned smUtil, memUtil, encUtil, decUtil;
};

/* GPM's structs have plain versions. Only numMetrics metrics are looked at; the first headers had
 * room for 98 (CUDA 12.0, nvml.h), later ones for more. */
#define NVML_GPM_VERSION 1U
struct nvml_gpm_support {
    unsigned version, isSupportedDevice;
};

struct nvml_gpm_metric {
    unsigned metricId;
    nvml_ret nvmlReturn;
    double value;
    const char *shortName, *longName, *unit;
};

struct nvml_gpm_metrics {
    unsigned version, numMetrics;
    nvml_gpm_sample sample1, sample2;
    struct nvml_gpm_metric metrics[98];
};

/* Of a cgroup's memory on a card. nameSpace: the cgroup's folder. Without a limit the soft one is 0,
 * and the hard one the largest number. */
struct nvml_limits_set {
    const char *nameSpace;
    unsigned long long softLimit, hardLimit;
};

struct nvml_limits_get {
    const char *nameSpace;
    unsigned long long softLimit, hardLimit, currentUsed;
};

struct nvml_process_info {
    unsigned pid;
    unsigned long long usedGpuMemory;
    unsigned gpuInstanceId, computeInstanceId;
};

struct nvml_placement {
    unsigned start, size;
};

struct nvml_gi_profile {
    unsigned id, isP2pSupported, sliceCount, instanceCount, multiprocessorCount;
    unsigned copyEngineCount, decoderCount, encoderCount, jpegCount, ofaCount;
    unsigned long long memorySizeMB;
};

struct nvml_gi_profile_v2 {
    unsigned version;
    unsigned id, isP2pSupported, sliceCount, instanceCount, multiprocessorCount;
    unsigned copyEngineCount, decoderCount, encoderCount, jpegCount, ofaCount;
    unsigned long long memorySizeMB;
    char name[96];
};

struct nvml_gi_profile_v3 {
    unsigned version;
    unsigned id, sliceCount, instanceCount, multiprocessorCount;
    unsigned copyEngineCount, decoderCount, encoderCount, jpegCount, ofaCount;
    unsigned long long memorySizeMB;
    char name[96];
    unsigned capabilities;
};

struct nvml_gi_info {
    nvml_device device;
    unsigned id, profileId;
    struct nvml_placement placement;
};

struct nvml_ci_profile {
    unsigned id, sliceCount, instanceCount, multiprocessorCount;
    unsigned sharedCopyEngineCount, sharedDecoderCount, sharedEncoderCount, sharedJpegCount;
    unsigned sharedOfaCount;
};

struct nvml_ci_info {
    nvml_device device; /* the MIG device: a handle for its UUID */
    nvml_gi gpuInstance;
    unsigned id, profileId;
    struct nvml_placement placement;
};

#define NVML_LAYOUT(type, bytes) _Static_assert(sizeof(struct type) == (bytes), #type)
#define NVML_OFFSET(type, member, bytes)                                                           \
    _Static_assert(offsetof(struct type, member) == (bytes), #type "." #member)

NVML_LAYOUT(nvml_pci_info, 68);
NVML_OFFSET(nvml_pci_info, domain, 16);
NVML_OFFSET(nvml_pci_info, pciDeviceId, 28);
NVML_OFFSET(nvml_pci_info, pciSubSystemId, 32);
NVML_OFFSET(nvml_pci_info, busId, 36);
NVML_LAYOUT(nvml_pci_info_ext, 64);
NVML_OFFSET(nvml_pci_info_ext, baseClass, 24);
NVML_OFFSET(nvml_pci_info_ext, busId, 32);
NVML_LAYOUT(nvml_fabric, 28);
NVML_OFFSET(nvml_fabric, state, 24);
NVML_LAYOUT(nvml_fabric_v2, 36);
NVML_OFFSET(nvml_fabric_v2, clusterUuid, 4);
NVML_OFFSET(nvml_fabric_v2, state, 28);
NVML_LAYOUT(nvml_attributes, 40);
NVML_OFFSET(nvml_attributes, memorySizeMB, 32);
NVML_LAYOUT(nvml_field_value, 40);
NVML_OFFSET(nvml_field_value, timestamp, 8);
NVML_OFFSET(nvml_field_value, valueType, 24);
NVML_OFFSET(nvml_field_value, nvmlReturn, 28);
NVML_OFFSET(nvml_field_value, value, 32);
NVML_LAYOUT(nvml_event_data, 32);
NVML_OFFSET(nvml_event_data, eventData, 16);
NVML_OFFSET(nvml_event_data, gpuInstanceId, 24);
NVML_LAYOUT(nvml_memory, 24);
NVML_LAYOUT(nvml_memory_v2, 40);
NVML_OFFSET(nvml_memory_v2, total, 8);
NVML_OFFSET(nvml_memory_v2, used, 32);
NVML_LAYOUT(nvml_utilization, 8);
NVML_LAYOUT(nvml_process_sample, 32);
NVML_OFFSET(nvml_process_sample, timeStamp, 8);
NVML_OFFSET(nvml_process_sample, smUtil, 16);
NVML_LAYOUT(nvml_gpm_support, 8);
NVML_LAYOUT(nvml_gpm_metric, 40);
NVML_OFFSET(nvml_gpm_metric, value, 8);
NVML_OFFSET(nvml_gpm_metrics, sample1, 8);
NVML_OFFSET(nvml_gpm_metrics, metrics, 24);
NVML_LAYOUT(nvml_limits_set, 24);
NVML_OFFSET(nvml_limits_set, softLimit, 8);
NVML_OFFSET(nvml_limits_set, hardLimit, 16);
NVML_LAYOUT(nvml_limits_get, 32);
NVML_OFFSET(nvml_limits_get, currentUsed, 24);
NVML_LAYOUT(nvml_process_info, 24);
NVML_OFFSET(nvml_process_info, usedGpuMemory, 8);
NVML_OFFSET(nvml_process_info, gpuInstanceId, 16);
NVML_OFFSET(nvml_process_info, computeInstanceId, 20);
NVML_LAYOUT(nvml_placement, 8);
NVML_LAYOUT(nvml_gi_profile, 48);
NVML_OFFSET(nvml_gi_profile, multiprocessorCount, 16);
NVML_OFFSET(nvml_gi_profile, ofaCount, 36);
NVML_OFFSET(nvml_gi_profile, memorySizeMB, 40);
NVML_LAYOUT(nvml_gi_profile_v2, 152);
NVML_OFFSET(nvml_gi_profile_v2, sliceCount, 12);
NVML_OFFSET(nvml_gi_profile_v2, ofaCount, 40);
NVML_OFFSET(nvml_gi_profile_v2, memorySizeMB, 48);
NVML_OFFSET(nvml_gi_profile_v2, name, 56);
NVML_LAYOUT(nvml_gi_profile_v3, 152);
NVML_OFFSET(nvml_gi_profile_v3, sliceCount, 8);
NVML_OFFSET(nvml_gi_profile_v3, ofaCount, 36);
NVML_OFFSET(nvml_gi_profile_v3, memorySizeMB, 40);
NVML_OFFSET(nvml_gi_profile_v3, name, 48);
NVML_OFFSET(nvml_gi_profile_v3, capabilities, 144);
NVML_LAYOUT(nvml_gi_info, 24);
NVML_OFFSET(nvml_gi_info, id, 8);
NVML_OFFSET(nvml_gi_info, placement, 16);
NVML_LAYOUT(nvml_ci_profile, 36);
NVML_LAYOUT(nvml_ci_info, 32);
NVML_OFFSET(nvml_ci_info, id, 16);
NVML_OFFSET(nvml_ci_info, placement, 24);
