/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The part of NVIDIA's NVML ABI (API 13, x86-64) that the simulator implements.
 *
 * Written from the facts of the ABI: names, argument types, sizes, offsets, constants. nvml_abi.c
 * asserts every size and offset. Names are NVIDIA's and not in our style, because clients look them
 * up by name; handles are typedef'd pointers for the same reason.
 */
#pragma once

#define NVML_API __attribute__((visibility("default")))

enum nvml_return {
    NVML_SUCCESS = 0,
    NVML_ERROR_UNINITIALIZED = 1,
    NVML_ERROR_INVALID_ARGUMENT = 2,
    NVML_ERROR_NOT_SUPPORTED = 3,
    NVML_ERROR_NO_PERMISSION = 4,
    NVML_ERROR_ALREADY_INITIALIZED = 5,
    NVML_ERROR_NOT_FOUND = 6,
    NVML_ERROR_INSUFFICIENT_SIZE = 7,
    NVML_ERROR_INSUFFICIENT_POWER = 8,
    NVML_ERROR_DRIVER_NOT_LOADED = 9,
    NVML_ERROR_TIMEOUT = 10,
    NVML_ERROR_IRQ_ISSUE = 11,
    NVML_ERROR_LIBRARY_NOT_FOUND = 12,
    NVML_ERROR_FUNCTION_NOT_FOUND = 13,
    NVML_ERROR_CORRUPTED_INFOROM = 14,
    NVML_ERROR_GPU_IS_LOST = 15,
    NVML_ERROR_RESET_REQUIRED = 16,
    NVML_ERROR_OPERATING_SYSTEM = 17,
    NVML_ERROR_LIB_RM_VERSION_MISMATCH = 18,
    NVML_ERROR_IN_USE = 19,
    NVML_ERROR_MEMORY = 20,
    NVML_ERROR_NO_DATA = 21,
    NVML_ERROR_VGPU_ECC_NOT_SUPPORTED = 22,
    NVML_ERROR_INSUFFICIENT_RESOURCES = 23,
    NVML_ERROR_FREQ_NOT_SUPPORTED = 24,
    NVML_ERROR_ARGUMENT_VERSION_MISMATCH = 25,
    NVML_ERROR_DEPRECATED = 26,
    NVML_ERROR_NOT_READY = 27,
    NVML_ERROR_GPU_NOT_FOUND = 28,
    NVML_ERROR_INVALID_STATE = 29,
    NVML_ERROR_RESET_TYPE_NOT_SUPPORTED = 30,
    NVML_ERROR_UNKNOWN = 999,
};
typedef int nvmlReturn_t;

typedef struct nvml_handle *nvmlDevice_t;
typedef struct nvml_handle *nvmlGpuInstance_t;
typedef struct nvml_handle *nvmlComputeInstance_t;
typedef struct nvml_event_set *nvmlEventSet_t;
typedef struct nvml_gpm_sample *nvmlGpmSample_t;

/* `version = sizeof | N << 24`; a callee refuses any other value. */
#define NVML_STRUCT_VERSION(size, n)        ((unsigned int)(size) | ((n) << 24U))
#define NVML_NO_INSTANCE                    0xFFFFFFFFU
#define NVML_GPU_INSTANCE_PROFILE_COUNT     0x12U
#define NVML_GPU_INSTANCE_CAPS_P2P          0x1U
#define NVML_GPU_INSTANCE_CAPS_GFX          0x2U
#define NVML_COMPUTE_INSTANCE_CAPS_GFX      0x1U
#define NVML_COMPUTE_INSTANCE_PROFILE_COUNT 0x9U
#define NVML_INIT_FLAG_ALL                  0x7U
#define NVML_FABRIC_HEALTH_SUMMARY_OK       1U

enum gi_profile_enum {
    GI_1_SLICE = 0x0,
    GI_2_SLICE = 0x1,
    GI_3_SLICE = 0x2,
    GI_4_SLICE = 0x3,
    GI_7_SLICE = 0x4,
    GI_8_SLICE = 0x5,
    GI_6_SLICE = 0x6,
    GI_1_SLICE_REV1 = 0x7,
    GI_2_SLICE_REV1 = 0x8,
    GI_1_SLICE_REV2 = 0x9,
    GI_1_SLICE_GFX = 0x0A,
    GI_2_SLICE_GFX = 0x0B,
    GI_4_SLICE_GFX = 0x0C,
    GI_1_SLICE_NO_ME = 0x0D,
    GI_2_SLICE_NO_ME = 0x0E,
    GI_1_SLICE_ALL_ME = 0x0F,
    GI_2_SLICE_ALL_ME = 0x10,
    GI_3_SLICE_GFX = 0x11,
};

enum ci_profile_enum {
    CI_1_SLICE = 0x0,
    CI_2_SLICE = 0x1,
    CI_3_SLICE = 0x2,
    CI_4_SLICE = 0x3,
    CI_7_SLICE = 0x4,
    CI_8_SLICE = 0x5,
    CI_6_SLICE = 0x6,
    CI_1_SLICE_REV1 = 0x7,
    CI_7_SLICE_NVL = 0x8,
};

enum nvml_event_type {
    EVENT_SINGLE_BIT_ECC = 0x1,
    EVENT_DOUBLE_BIT_ECC = 0x2,
    EVENT_PSTATE = 0x4,
    EVENT_XID = 0x8,
    EVENT_CLOCK = 0x10,
    EVENT_POWER_SOURCE = 0x80,
    EVENT_MIG_CONFIG_CHANGE = 0x100,
    EVENT_SINGLE_BIT_ECC_STORM = 0x200,
    EVENT_DRAM_RETIREMENT = 0x400,
    EVENT_DRAM_RETIREMENT_FAILURE = 0x800,
    EVENT_POISON_NONFATAL = 0x1000,
    EVENT_POISON_FATAL = 0x2000,
    EVENT_GPU_UNAVAILABLE = 0x4000,
    EVENT_RECOVERY_ACTION = 0x8000,
};

enum nvml_arch {
    ARCH_TURING = 6,
    ARCH_AMPERE = 7,
    ARCH_ADA = 8,
    ARCH_HOPPER = 9,
    ARCH_BLACKWELL = 10,
};

enum nvml_brand { BRAND_TESLA = 2, BRAND_NVIDIA_RTX = 13, BRAND_NVIDIA = 14 };

enum nvml_value_type {
    VALUE_DOUBLE = 0,
    VALUE_UINT = 1,
    VALUE_ULONG = 2,
    VALUE_ULONGLONG = 3,
    VALUE_SLONGLONG = 4,
    VALUE_SINT = 5,
    VALUE_USHORT = 6,
};

enum nvml_topology {
    TOPOLOGY_INTERNAL = 0,
    TOPOLOGY_SINGLE = 10,
    TOPOLOGY_MULTIPLE = 20,
    TOPOLOGY_HOSTBRIDGE = 30,
    TOPOLOGY_NODE = 40,
    TOPOLOGY_SYSTEM = 50,
};

enum nvml_fabric_state {
    FABRIC_NOT_SUPPORTED,
    FABRIC_NOT_STARTED,
    FABRIC_IN_PROGRESS,
    FABRIC_COMPLETED
};

enum nvml_field {
    FI_ECC_CURRENT = 1,
    FI_ECC_PENDING = 2,
    FI_ECC_SBE_VOL_TOTAL = 3,
    FI_ECC_DBE_VOL_TOTAL = 4,
    FI_ECC_SBE_AGG_TOTAL = 5,
    FI_ECC_DBE_AGG_TOTAL = 6,
    FI_RETIRED_SBE = 29,
    FI_RETIRED_DBE = 30,
    FI_RETIRED_PENDING = 31,
    FI_NVLINK_CRC_FLIT_TOTAL = 38,
    FI_NVLINK_CRC_DATA_TOTAL = 45,
    FI_NVLINK_REPLAY_TOTAL = 52,
    FI_NVLINK_RECOVERY_TOTAL = 59,
    FI_PERF_POLICY_POWER = 74,
    FI_PERF_POLICY_THERMAL = 75,
    FI_MEMORY_TEMP = 82,
    FI_TOTAL_ENERGY = 83,
    FI_NVLINK_LINK_COUNT = 91,
    FI_PCIE_REPLAY_COUNTER = 94,
    FI_NVLINK_DATA_TX = 138,
    FI_NVLINK_DATA_RX = 139,
    FI_REMAPPED_COR = 142,
    FI_REMAPPED_UNC = 143,
    FI_REMAPPED_PENDING = 144,
    FI_REMAPPED_FAILURE = 145,
    FI_POWER_INSTANT = 186,
    FI_RESET_STATUS = 226,
    FI_DRAIN_AND_RESET_STATUS = 227,
    FI_GPU_RECOVERY_ACTION = 230,
};

typedef struct {
    char busIdLegacy[16];
    unsigned int domain;
    unsigned int bus;
    unsigned int device;
    unsigned int pciDeviceId;
    unsigned int pciSubSystemId;
    char busId[32];
} nvmlPciInfo_t;

typedef struct {
    unsigned int version;
    unsigned int domain;
    unsigned int bus;
    unsigned int device;
    unsigned int pciDeviceId;
    unsigned int pciSubSystemId;
    unsigned int baseClass;
    unsigned int subClass;
    char busId[32];
} nvmlPciInfoExt_t;

typedef struct {
    unsigned int gpu;
    unsigned int memory;
} nvmlUtilization_t;

typedef struct {
    unsigned long long total;
    unsigned long long free;
    unsigned long long used;
} nvmlMemory_t;

typedef struct {
    unsigned int version;
    unsigned long long total;
    unsigned long long reserved;
    unsigned long long free;
    unsigned long long used;
} nvmlMemory_v2_t;

/* nameSpace: the folder of a cgroup. No limit: soft 0, hard MAX. */
#define NVML_DEVICE_MEMORY_LIMIT_MAX (~0ULL)

typedef struct {
    const char *nameSpace;
    unsigned long long softLimit;
    unsigned long long hardLimit;
} nvmlSetMemoryLimits_v1_t;

typedef struct {
    const char *nameSpace;
    unsigned long long softLimit;
    unsigned long long hardLimit;
    unsigned long long currentUsed;
} nvmlGetMemoryLimits_v1_t;

typedef struct {
    unsigned long long bar1Total;
    unsigned long long bar1Free;
    unsigned long long bar1Used;
} nvmlBAR1Memory_t;

typedef struct {
    unsigned int pid;
    unsigned long long usedGpuMemory;
} nvmlProcessInfo_v1_t;

typedef struct {
    unsigned int pid;
    unsigned long long usedGpuMemory;
    unsigned int gpuInstanceId;
    unsigned int computeInstanceId;
} nvmlProcessInfo_t;

typedef struct {
    unsigned int pid;
    unsigned long long usedGpuMemory;
    unsigned int gpuInstanceId;
    unsigned int computeInstanceId;
    unsigned long long usedGpuCcProtectedMemory;
} nvmlProcessDetail_v1_t;

typedef struct {
    unsigned int version;
    unsigned int mode;
    unsigned int numProcArrayEntries;
    nvmlProcessDetail_v1_t *procArray;
} nvmlProcessDetailList_t;

typedef struct {
    unsigned int multiprocessorCount;
    unsigned int sharedCopyEngineCount;
    unsigned int sharedDecoderCount;
    unsigned int sharedEncoderCount;
    unsigned int sharedJpegCount;
    unsigned int sharedOfaCount;
    unsigned int gpuInstanceSliceCount;
    unsigned int computeInstanceSliceCount;
    unsigned long long memorySizeMB;
} nvmlDeviceAttributes_t;

typedef struct {
    unsigned int version;
    unsigned int value;
} nvmlDeviceAddressingMode_t;

typedef struct {
    unsigned int start;
    unsigned int size;
} nvmlGpuInstancePlacement_t;

typedef struct {
    unsigned int id;
    unsigned int isP2pSupported;
    unsigned int sliceCount;
    unsigned int instanceCount;
    unsigned int multiprocessorCount;
    unsigned int copyEngineCount;
    unsigned int decoderCount;
    unsigned int encoderCount;
    unsigned int jpegCount;
    unsigned int ofaCount;
    unsigned long long memorySizeMB;
} nvmlGpuInstanceProfileInfo_t;

typedef struct {
    unsigned int version;
    unsigned int id;
    unsigned int isP2pSupported;
    unsigned int sliceCount;
    unsigned int instanceCount;
    unsigned int multiprocessorCount;
    unsigned int copyEngineCount;
    unsigned int decoderCount;
    unsigned int encoderCount;
    unsigned int jpegCount;
    unsigned int ofaCount;
    unsigned long long memorySizeMB;
    char name[96];
} nvmlGpuInstanceProfileInfo_v2_t;

typedef struct {
    unsigned int version;
    unsigned int id;
    unsigned int sliceCount;
    unsigned int instanceCount;
    unsigned int multiprocessorCount;
    unsigned int copyEngineCount;
    unsigned int decoderCount;
    unsigned int encoderCount;
    unsigned int jpegCount;
    unsigned int ofaCount;
    unsigned long long memorySizeMB;
    char name[96];
    unsigned int capabilities;
} nvmlGpuInstanceProfileInfo_v3_t;

typedef struct {
    nvmlDevice_t device;
    unsigned int id;
    unsigned int profileId;
    nvmlGpuInstancePlacement_t placement;
} nvmlGpuInstanceInfo_t;

typedef struct {
    unsigned int start;
    unsigned int size;
} nvmlComputeInstancePlacement_t;

typedef struct {
    unsigned int id;
    unsigned int sliceCount;
    unsigned int instanceCount;
    unsigned int multiprocessorCount;
    unsigned int sharedCopyEngineCount;
    unsigned int sharedDecoderCount;
    unsigned int sharedEncoderCount;
    unsigned int sharedJpegCount;
    unsigned int sharedOfaCount;
} nvmlComputeInstanceProfileInfo_t;

typedef struct {
    unsigned int version;
    unsigned int id;
    unsigned int sliceCount;
    unsigned int instanceCount;
    unsigned int multiprocessorCount;
    unsigned int sharedCopyEngineCount;
    unsigned int sharedDecoderCount;
    unsigned int sharedEncoderCount;
    unsigned int sharedJpegCount;
    unsigned int sharedOfaCount;
    char name[96];
} nvmlComputeInstanceProfileInfo_v2_t;

typedef struct {
    unsigned int version;
    unsigned int id;
    unsigned int sliceCount;
    unsigned int instanceCount;
    unsigned int multiprocessorCount;
    unsigned int sharedCopyEngineCount;
    unsigned int sharedDecoderCount;
    unsigned int sharedEncoderCount;
    unsigned int sharedJpegCount;
    unsigned int sharedOfaCount;
    char name[96];
    unsigned int capabilities;
} nvmlComputeInstanceProfileInfo_v3_t;

/* The part of the struct below that the unversioned call of old clients has. */
typedef struct {
    nvmlDevice_t device;
    nvmlGpuInstance_t gpuInstance;
    unsigned int id;
    unsigned int profileId;
} nvmlComputeInstanceInfo_v1_t;

typedef struct {
    nvmlDevice_t device;
    nvmlGpuInstance_t gpuInstance;
    unsigned int id;
    unsigned int profileId;
    nvmlComputeInstancePlacement_t placement;
} nvmlComputeInstanceInfo_t;

/* Filled by the unversioned nvmlEventSetWait. */
typedef struct {
    nvmlDevice_t device;
    unsigned long long eventType;
    unsigned long long eventData;
} nvmlEventData_v1_t;

typedef struct {
    nvmlDevice_t device;
    unsigned long long eventType;
    unsigned long long eventData;
    unsigned int gpuInstanceId;
    unsigned int computeInstanceId;
} nvmlEventData_t;

typedef union {
    double dVal;
    int siVal;
    unsigned int uiVal;
    unsigned long ulVal;
    unsigned long long ullVal;
    long long sllVal;
    unsigned short usVal;
} nvmlValue_t;

typedef struct {
    unsigned int fieldId;
    unsigned int scopeId;
    long long timestamp;
    long long latencyUsec;
    int valueType;
    nvmlReturn_t nvmlReturn;
    nvmlValue_t value;
} nvmlFieldValue_t;

typedef struct {
    unsigned int pid;
    unsigned long long timeStamp;
    unsigned int smUtil;
    unsigned int memUtil;
    unsigned int encUtil;
    unsigned int decUtil;
} nvmlProcessUtilizationSample_t;

typedef struct {
    unsigned char clusterUuid[16];
    nvmlReturn_t status;
    unsigned int cliqueId;

    unsigned int state;
} nvmlGpuFabricInfo_t;

typedef struct {
    unsigned int version;
    unsigned char clusterUuid[16];
    nvmlReturn_t status;
    unsigned int cliqueId;
    unsigned int state;
    unsigned int healthMask;
} nvmlGpuFabricInfo_v2_t;

typedef struct {
    unsigned int version;
    unsigned char clusterUuid[16];
    nvmlReturn_t status;
    unsigned int cliqueId;
    unsigned int state;
    unsigned int healthMask;
    unsigned char healthSummary;
} nvmlGpuFabricInfo_v3_t;

typedef struct {
    unsigned int version;
    unsigned long long aggregateUncParity;
    unsigned long long aggregateUncSecDed;
    unsigned long long aggregateCor;
    unsigned long long volatileUncParity;
    unsigned long long volatileUncSecDed;
    unsigned long long volatileCor;
    unsigned long long aggregateUncBucketL2;
    unsigned long long aggregateUncBucketSm;
    unsigned long long aggregateUncBucketPcie;
    unsigned long long aggregateUncBucketMcu;
    unsigned long long aggregateUncBucketOther;
    unsigned int bThresholdExceeded;
} nvmlEccSramErrorStatus_t;

typedef struct {
    unsigned int version;
    int sensorType;
    int temperature;
} nvmlTemperature_t;

/* How long clocks were held back, in ns, and the time until which that was counted, in us. */
typedef struct {
    unsigned long long referenceTime;
    unsigned long long violationTime;
} nvmlViolationTime_t;

typedef union {
    char str[41];
    unsigned char bytes[16];
} nvmlUUIDValue_t;

typedef struct {
    unsigned int version;
    unsigned int type;
    nvmlUUIDValue_t value;
} nvmlUUID_t;

enum { UUID_TYPE_NONE, UUID_TYPE_ASCII, UUID_TYPE_BINARY };

/* GPM: the mean of a card's counters between two samples. Its structs have plain versions. */
#define NVML_GPM_VERSION    1U
#define NVML_GPM_METRIC_MAX 333U /* 98 in the first headers; no more than numMetrics are there */

typedef struct {
    unsigned int version;
    unsigned int isSupportedDevice;
} nvmlGpmSupport_t;

typedef struct {
    unsigned int metricId;
    nvmlReturn_t nvmlReturn;
    double value;
    struct {
        const char *shortName;
        const char *longName;
        const char *unit;
    } metricInfo;
} nvmlGpmMetric_t;

typedef struct {
    unsigned int version;
    unsigned int numMetrics;
    nvmlGpmSample_t sample1;
    nvmlGpmSample_t sample2;
    nvmlGpmMetric_t metrics[NVML_GPM_METRIC_MAX];
} nvmlGpmMetricsGet_t;
