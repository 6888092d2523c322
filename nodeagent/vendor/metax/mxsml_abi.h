/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <assert.h>
#include <stddef.h>

/*
 * MetaX's libmxsml.so, interface version 2.3.1, x86-64: the part that Cleave calls, declared from
 * facts about its symbols and layouts. Enums are unsigned ints; calls return mxsml_ret unless
 * noted.
 */
typedef unsigned mxsml_ret;

enum {
    MXSML_SUCCESS = 0,
    MXSML_NO_DEVICE = 2,
    MXSML_NOT_SUPPORTED = 3,
    MXSML_SYSFS_ERROR = 4,       /* see errno */
    MXSML_SYSFS_WRITE_ERROR = 5, /* see errno */
    MXSML_INVALID_DEVICE = 6,
    MXSML_PERMISSION_DENIED = 8,
    MXSML_INVALID_INPUT = 9,
    MXSML_INSUFFICIENT_SIZE = 10, /* the size argument holds the needed size */
    MXSML_NO_VF = 18,
    MXSML_BUSY = 23,
    /* Cleave's own code: the library lacks the function. */
    MXSML_NO_FUNCTION = 0x10000,
};

enum { MXSML_MODE_BARE, MXSML_MODE_PF, MXSML_MODE_VF };
enum { MXSML_UNIT_DRIVER = 1 };
enum { MXSML_INIT_AGAIN = 1 };

/* mxSmlGetDeviceTopology */
enum {
    MXSML_TOPO_INTERNAL,
    MXSML_TOPO_SWITCH,
    MXSML_TOPO_SWITCHES,
    MXSML_TOPO_HOST_BRIDGE,
    MXSML_TOPO_NODE,
    MXSML_TOPO_METAXLINK,
    MXSML_TOPO_SYSTEM,
};

enum { MXSML_SENSOR_HOTSPOT = 0 }; /* mxSmlGetTemperatureInfo */
enum { MXSML_IP_CORES = 4 };       /* mxSmlGetDeviceIpUsage: of C-class cards */

#define MXSML_MAX_LINKS     7
#define MXSML_FIRST_PF      100 /* numbers of cards with virtual functions start here */
#define MXSML_VERSION_BYTES 64
#define MXSML_ALIAS_BYTES   33

struct mxsml_info {
    unsigned device_id, type;
    char bdf[32];
    unsigned gpu_id, node_id;
    char uuid[96];
    unsigned brand, mode;
    char name[32];
};
static_assert(sizeof(struct mxsml_info) == 184 && offsetof(struct mxsml_info, uuid) == 48 &&
                  offsetof(struct mxsml_info, name) == 152,
              "mxSmlGetDeviceInfo");

struct mxsml_ids {
    int n;
    int ids[128];
};
static_assert(sizeof(struct mxsml_ids) == 516, "mxSmlGetVirtualDevicesByPhysicalId");

struct mxsml_memory { /* KB */
    long visible_total, visible_used, vram_total, vram_used, xtt_total, xtt_used;
};
static_assert(sizeof(struct mxsml_memory) == 48, "mxSmlGetMemoryInfo");

struct mxsml_unavailable {
    int code;
    char reason[64];
};
static_assert(sizeof(struct mxsml_unavailable) == 68, "mxSmlGetDeviceUnavailableReason");

struct mxsml_slice {
    unsigned device_id, id, vram_mb, sw_priority, compute_percent, minor, device_priority;
    char uuid[96];
};
static_assert(sizeof(struct mxsml_slice) == 124 && offsetof(struct mxsml_slice, uuid) == 28,
              "mxSmlGetSgpuInfo");

struct mxsml_quota {
    unsigned vram_total_mb, vram_left_mb, compute_left_percent;
};

struct mxsml_ecc {
    unsigned sram_corrected, sram_uncorrected, dram_corrected, dram_uncorrected, retired_pages;
};

/* A way of power into the board. */
struct mxsml_power {
    unsigned mv, ma, mw;
};
static_assert(sizeof(struct mxsml_power) == 12, "mxSmlGetBoardPowerInfo");

struct mxsml_process {
    unsigned pid;
    char name[64];
    unsigned n_gpus;
    struct mxsml_process_gpu {
        char bdf[32];
        unsigned gpu_id;
        unsigned long memory_bytes;
        unsigned die_id;
        int slice_id; /* -1: none */
    } gpus[64];
};
static_assert(sizeof(struct mxsml_process) == 3656 && offsetof(struct mxsml_process, gpus) == 72 &&
                  sizeof(struct mxsml_process_gpu) == 56,
              "mxSmlGetSingleGpuProcess_v3");
