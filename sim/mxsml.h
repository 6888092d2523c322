/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The simulated part of the ABI of MetaX's libmxsml.so, interface version 2.3.1, x86-64, declared
 * from a description of its symbols, layouts, units and return codes.
 *
 * Enums are passed as unsigned ints. `dev` is a device index: native cards and virtual functions
 * count from 0, the physical functions of virtualised cards from 100. `id` is a slice of a card.
 */
#pragma once

#include <assert.h>
#include <stddef.h>

#define MXSML_API __attribute__((visibility("default")))

enum mxsml_return {
    MXSML_SUCCESS = 0,
    MXSML_FAILURE = 1,
    MXSML_NO_DEVICE = 2,
    MXSML_OPERATION_NOT_SUPPORT = 3,
    MXSML_SYSFS_ERROR = 4,       /* errno has the cause */
    MXSML_SYSFS_WRITE_ERROR = 5, /* errno has the cause */
    MXSML_INVALID_DEVICE_ID = 6,
    MXSML_INVALID_DIE_ID = 7,
    MXSML_PERMISSION_DENIED = 8,
    MXSML_INVALID_INPUT = 9,
    MXSML_INSUFFICIENT_SIZE = 10, /* the size argument then holds the needed size */
    MXSML_IO_CONTROL_FAILURE = 12,
    MXSML_MMAP_FAILURE = 13,
    MXSML_UNMMAP_FAILURE = 14,
    MXSML_INVALID_INPUT_FOR_MMAP = 15,
    MXSML_TARGET_VF_NOT_FOUND = 18,
    MXSML_INVALID_FREQUENCY = 19,
    MXSML_FLR_NOT_READY = 20,
    MXSML_OPEN_DEVICE_FILE_FAILURE = 21,
    MXSML_CLOSE_DEVICE_FILE_FAILURE = 22,
    MXSML_BUSY_DEVICE = 23,
    MXSML_MMIO_NOT_ENOUGH = 24,
    MXSML_GET_PCI_BRIDGE_FAILURE = 25,
    MXSML_LOAD_DLL_FAILURE = 26,
};

enum mxsml_brand { MXSML_BRAND_UNKNOWN, MXSML_BRAND_N, MXSML_BRAND_C, MXSML_BRAND_G };
enum mxsml_mode { MXSML_MODE_NATIVE, MXSML_MODE_PF, MXSML_MODE_VF };
enum mxsml_class { MXSML_BEST_EFFORT, MXSML_FIXED_SHARE, MXSML_BURST_SHARE };
enum mxsml_version_unit { MXSML_VERSION_BIOS, MXSML_VERSION_DRIVER };
enum mxsml_usage { MXSML_USAGE_XCORE = 4 }; /* the compute cores of C-class cards */
enum mxsml_temperature { MXSML_TEMPERATURE_HOTSPOT };
enum mxsml_topology {
    MXSML_TOPOLOGY_INTERNAL,
    MXSML_TOPOLOGY_SINGLE_SWITCH,
    MXSML_TOPOLOGY_SEVERAL_SWITCHES,
    MXSML_TOPOLOGY_HOST_BRIDGE,
    MXSML_TOPOLOGY_NUMA_NODE,
    MXSML_TOPOLOGY_METAXLINK,
    MXSML_TOPOLOGY_SYSTEM,
    MXSML_TOPOLOGY_ETHERNET,
    MXSML_TOPOLOGY_UNDEFINED,
};

#define MXSML_MAX_VIRTUAL  128
#define MXSML_MAX_SLICES   16
#define MXSML_MAX_LINKS    7
#define MXSML_VRAM_STEP_MB 128
#define MXSML_MAX_ALIAS    32
/* MetaX's own samples use this first index of physical functions. */
#define MXSML_FIRST_PF       100
#define MXSML_EVENT_ERROR_ID 1ULL

struct mxsml_device_ids {
    int number;
    int device_id[MXSML_MAX_VIRTUAL];
};

struct mxsml_device_info {
    unsigned int device_id;
    unsigned int type; /* deprecated */
    char bdf_id[32];
    unsigned int gpu_id;
    unsigned int node_id;
    char uuid[96];
    unsigned int brand; /* enum mxsml_brand */
    unsigned int mode;  /* enum mxsml_mode */
    char device_name[32];
};

/* All in KB. */
struct mxsml_memory_info {
    long vis_vram_total, vis_vram_use;
    long vram_total, vram_use;
    long xtt_total, xtt_use;
};

struct mxsml_unavailable_reason {
    int code;
    char reason[64];
};

struct mxsml_sgpu_info {
    unsigned int parent_device_id;
    unsigned int sgpu_id;
    unsigned int vram_quota;        /* MB */
    unsigned int sw_queue_priority; /* 0 low, 1 normal, 2 high */
    unsigned int compute_quota;     /* percent */
    unsigned int minor;
    unsigned int device_queue_priority; /* 0 low, 1 high */
    char uuid[96];
};

struct mxsml_available_quota {
    unsigned int total_vram_quota; /* MB */
    unsigned int vram_quota;       /* MB left */
    unsigned int compute_quota;    /* percent left */
};

/* Bytes. */
struct mxsml_sgpu_memory {
    long total, used, free;
};

struct mxsml_ecc_errors {
    unsigned int sram_ce, sram_ue, dram_ce, dram_ue, retired_page;
};

struct mxsml_process_gpu {
    char bdf_id[32];
    unsigned int gpu_id;
    unsigned long memory; /* bytes */
    unsigned int die_id;
    int sgpu_id; /* -1: no slice */
};

struct mxsml_process {
    unsigned int pid;
    char name[64];
    unsigned int gpu_number;
    struct mxsml_process_gpu gpu[64];
};

struct mxsml_link {
    float speed; /* GT/s */
    unsigned int lanes;
};

struct mxsml_link_remote {
    int device_id;
    char bdf_id[32];
};

struct mxsml_link_topo {
    unsigned int topology_id, socket_id, die_id;
};

struct mxsml_board_power {
    unsigned int voltage; /* mV */
    unsigned int current; /* mA */
    unsigned int power;   /* mW */
};

struct mxsml_event {
    int device_id;
    int type;
    char data[1024];
};

typedef struct mxsml_event_set *mxsml_event_set_t;

static_assert(sizeof(struct mxsml_device_ids) == 516, "ids");
static_assert(sizeof(struct mxsml_device_info) == 184, "info");
static_assert(offsetof(struct mxsml_device_info, type) == 4, "info");
static_assert(offsetof(struct mxsml_device_info, bdf_id) == 8, "info");
static_assert(offsetof(struct mxsml_device_info, gpu_id) == 40, "info");
static_assert(offsetof(struct mxsml_device_info, node_id) == 44, "info");
static_assert(offsetof(struct mxsml_device_info, uuid) == 48, "info");
static_assert(offsetof(struct mxsml_device_info, brand) == 144, "info");
static_assert(offsetof(struct mxsml_device_info, mode) == 148, "info");
static_assert(offsetof(struct mxsml_device_info, device_name) == 152, "info");
static_assert(sizeof(struct mxsml_memory_info) == 48, "memory");
static_assert(sizeof(struct mxsml_unavailable_reason) == 68, "reason");
static_assert(sizeof(struct mxsml_sgpu_info) == 124, "slice");
static_assert(offsetof(struct mxsml_sgpu_info, uuid) == 28, "slice");
static_assert(sizeof(struct mxsml_available_quota) == 12, "quota");
static_assert(sizeof(struct mxsml_sgpu_memory) == 24, "slice memory");
static_assert(sizeof(struct mxsml_ecc_errors) == 20, "ECC");
static_assert(sizeof(struct mxsml_process_gpu) == 56, "process on a card");
static_assert(offsetof(struct mxsml_process_gpu, gpu_id) == 32, "process on a card");
static_assert(offsetof(struct mxsml_process_gpu, memory) == 40, "process on a card");
static_assert(offsetof(struct mxsml_process_gpu, die_id) == 48, "process on a card");
static_assert(offsetof(struct mxsml_process_gpu, sgpu_id) == 52, "process on a card");
static_assert(sizeof(struct mxsml_process) == 3656, "process");
static_assert(offsetof(struct mxsml_process, name) == 4, "process");
static_assert(offsetof(struct mxsml_process, gpu_number) == 68, "process");
static_assert(offsetof(struct mxsml_process, gpu) == 72, "process");
static_assert(sizeof(struct mxsml_link) == 8, "link");
static_assert(sizeof(struct mxsml_link_remote) == 36, "remote end");
static_assert(sizeof(struct mxsml_link_topo) == 12, "link topology");
static_assert(sizeof(struct mxsml_board_power) == 12, "power");
static_assert(sizeof(struct mxsml_event) == 1032, "event");

/* life and inventory */
MXSML_API unsigned int mxSmlInit(void);
MXSML_API unsigned int mxSmlInitWithFlags(unsigned int flags);
MXSML_API unsigned int mxSmlGetDeviceCount(void);
MXSML_API unsigned int mxSmlGetPfDeviceCount(void);
MXSML_API unsigned int mxSmlGetVirtualDevicesByPhysicalId(unsigned int dev,
                                                          struct mxsml_device_ids *ids);
MXSML_API unsigned int mxSmlGetDeviceInfo(unsigned int dev, struct mxsml_device_info *info);
MXSML_API unsigned int mxSmlGetAllLimitedDevices(struct mxsml_device_ids *ids);
MXSML_API unsigned int mxSmlGetLimitedDeviceInfo(unsigned int dev, struct mxsml_device_info *info);
MXSML_API unsigned int mxSmlGetMemoryInfo(unsigned int dev, struct mxsml_memory_info *memory);
MXSML_API unsigned int mxSmlGetDeviceVersion(unsigned int dev, unsigned int unit, char *version,
                                             unsigned int *size);
MXSML_API unsigned int mxSmlGetMacaVersion(char *version, unsigned int *size);
MXSML_API unsigned int mxSmlGetDeviceState(unsigned int dev, int *state);
MXSML_API unsigned int mxSmlGetDeviceUnavailableReason(unsigned int dev,
                                                       struct mxsml_unavailable_reason *reason);
MXSML_API unsigned int mxSmlGetSriovState(unsigned int dev, unsigned int *state);
MXSML_API unsigned int mxSmlGetDeviceSlot(unsigned int dev, unsigned int *slot);
MXSML_API int mxSmlGetDeviceBoardId(unsigned int dev);
MXSML_API unsigned int mxSmlGetDeviceRealPath(unsigned int dev, char *path, unsigned int *size);
MXSML_API const char *mxSmlGetErrorString(unsigned int result);

/* slices */
MXSML_API unsigned int mxSmlGetSgpuToggle(unsigned int dev, unsigned int *toggle);
MXSML_API unsigned int mxSmlSetSgpuToggle(unsigned int dev, unsigned int toggle);
MXSML_API unsigned int mxSmlCreateSgpu(unsigned int dev, unsigned int vram, unsigned int compute,
                                       unsigned int *id);
MXSML_API unsigned int mxSmlRemoveSgpu(unsigned int dev, unsigned int id);
MXSML_API unsigned int mxSmlGetSgpuCount(unsigned int dev);
MXSML_API unsigned int mxSmlGetSgpuInfo(unsigned int dev, unsigned int id,
                                        struct mxsml_sgpu_info *info);
MXSML_API unsigned int mxSmlGetSgpuState(unsigned int dev, unsigned int id, int *state);
MXSML_API unsigned int mxSmlSetSgpuVramQuota(unsigned int dev, unsigned int id, unsigned int vram);
MXSML_API unsigned int mxSmlSetSgpuComputeQuota(unsigned int dev, unsigned int id,
                                                unsigned int compute);
MXSML_API unsigned int mxSmlSetSgpuDeviceQueuePriority(unsigned int dev, unsigned int id,
                                                       unsigned int priority);
MXSML_API unsigned int mxSmlGetSgpuAvailableQuota(unsigned int dev,
                                                  struct mxsml_available_quota *quota);
MXSML_API unsigned int mxSmlGetSgpuUsage(unsigned int dev, unsigned int id, int *usage);
MXSML_API unsigned int mxSmlGetSgpuMemory(unsigned int dev, unsigned int id,
                                          struct mxsml_sgpu_memory *memory);
MXSML_API unsigned int mxSmlGetDeviceTimeslice(unsigned int dev, unsigned int *timeslice);
MXSML_API unsigned int mxSmlSetDeviceTimeslice(unsigned int dev, unsigned int timeslice);
MXSML_API unsigned int mxSmlGetDeviceSchedClass(unsigned int dev, unsigned int *sched_class);
MXSML_API unsigned int mxSmlSetDeviceSchedClass(unsigned int dev, unsigned int sched_class);
MXSML_API unsigned int mxSmlGetSgpuAlias(unsigned int dev, unsigned int id, char *alias,
                                         unsigned int *size);
MXSML_API unsigned int mxSmlSetSgpuAlias(unsigned int dev, unsigned int id, char *alias);
MXSML_API unsigned int mxSmlGetSgpuAnnotationsId(unsigned int dev, unsigned int id, char *text,
                                                 unsigned int *size);

/* health, processes, topology */
MXSML_API unsigned int mxSmlGetEccState(unsigned int dev, unsigned int *state);
MXSML_API unsigned int mxSmlGetTotalEccErrors(unsigned int dev, struct mxsml_ecc_errors *errors);
MXSML_API unsigned int mxSmlGetNumberOfProcess(unsigned int *number);
MXSML_API unsigned int mxSmlGetProcessInfo_v3(unsigned int number, struct mxsml_process *processes);
MXSML_API unsigned int mxSmlGetSingleGpuProcess_v3(unsigned int dev, unsigned int *number,
                                                   struct mxsml_process *processes);
MXSML_API unsigned int mxSmlGetDeviceTopology(unsigned int a, unsigned int b, unsigned int *level);
MXSML_API unsigned int mxSmlGetDeviceDistance(unsigned int a, unsigned int b,
                                              unsigned int *distance);
MXSML_API unsigned int mxSmlGetMetaXLinkInfo_v2(unsigned int dev, unsigned int *number,
                                                struct mxsml_link *links);
MXSML_API unsigned int mxSmlGetMetaXLinkRemoteInfo(unsigned int dev, unsigned int link,
                                                   struct mxsml_link_remote *remote);
MXSML_API unsigned int mxSmlGetMetaXLinkTopo(unsigned int dev, struct mxsml_link_topo *topo);
MXSML_API unsigned int mxSmlGetNodeAffinity(unsigned int dev, unsigned int words,
                                            unsigned int *mask);
MXSML_API unsigned int mxSmlGetCpuAffinity(unsigned int dev, unsigned int words,
                                           unsigned int *mask);
MXSML_API unsigned int mxSmlGetDeviceIpUsage(unsigned int dev, unsigned int ip, int *usage);
MXSML_API unsigned int mxSmlGetBoardPowerInfo(unsigned int dev, unsigned int *number,
                                              struct mxsml_board_power *ways);
MXSML_API unsigned int mxSmlGetBoardPowerLimit(unsigned int dev, unsigned int *limit);
MXSML_API unsigned int mxSmlGetTemperatureInfo(unsigned int dev, unsigned int sensor,
                                               int *temperature);
MXSML_API unsigned int mxSmlReset(unsigned int dev);
MXSML_API unsigned int mxSmlFunctionLevelReset(unsigned int dev);
MXSML_API unsigned int mxSmlEventSetCreate(mxsml_event_set_t *set);
MXSML_API unsigned int mxSmlDeviceRegisterEvents(unsigned int dev, unsigned long long types,
                                                 mxsml_event_set_t set);
MXSML_API unsigned int mxSmlEventSetWait(mxsml_event_set_t set, struct mxsml_event *event);
MXSML_API unsigned int mxSmlEventSetFree(mxsml_event_set_t set);
