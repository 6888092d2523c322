/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The simulated hardware as plain data: one instant of a machine.
 *
 * Position-independent, no pointers: it lives in the state file, in two copies (state.h). A holder
 * of the state's lock may read the active copy and change the other.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "sim/metax_hw.h"
#include "sim/model.h"

#define HW_MAX_GPUS   16
#define HW_MAX_GI     8
#define HW_MAX_CI     8
#define HW_MAX_PROCS  1280
#define HW_MAX_EVENTS 128
#define HW_MAX_LIMITS 128

/* No such id: of a GPU or compute instance, a card, a slice, a virtual function. */
#define HW_NONE 0xFFFFFFFFU

/* Cards of all vendors have one numbering: NVIDIA's count from 0, MetaX's from here. */
#define HW_METAX 0x100U

/* A `serial` is never used twice, so a handle to a destroyed instance does not reach its
 * successor. */
struct hw_ci {
    uint64_t serial; /* 0: the entry is empty */
    uint32_t id;
    uint32_t profile; /* enum ci_profile_enum */
    uint32_t start, size;
    char uuid[48];
};

/* Work of attached processes on a card, or in an instance: percent of its time since since_ns, and
 * the time that it took before. CLOCK_MONOTONIC. */
struct hw_work {
    uint64_t percent;
    int64_t since_ns, done_ns;
};

/* Why clocks are held down: the card takes what it may, or it is too hot. */
enum hw_hold { HOLD_POWER, HOLD_HEAT, HOLDS };

/* A card's work makes it so much warmer at full load, and from here on it is too hot. */
enum { FULL_LOAD_CELSIUS = 36, SLOWDOWN_CELSIUS = 89 };

struct hw_gi {
    uint64_t serial; /* 0: the entry is empty */
    uint32_t id;
    uint32_t profile; /* enum gi_profile_enum */
    uint32_t start, size;
    struct hw_work work;
    struct hw_ci cis[HW_MAX_CI];
};

struct hw_ecc {
    uint64_t corrected_volatile, corrected_aggregate;
    uint64_t uncorrected_volatile, uncorrected_aggregate;
    uint64_t sram_corrected, sram_uncorrected; /* since the last reset; included in the above */
};

struct hw_remap {
    uint32_t corrected, uncorrected;
    uint32_t pending, failed;
};

/* Errors of a card's NVLinks; all of them happened on the first. */
struct hw_link_errors {
    uint64_t replays, recoveries, crc_flits, crc_data;
};

struct hw_gpu {
    char model[24];
    char uuid[48];
    char serial_number[24];
    uint32_t domain, bus, device;
    uint32_t minor;
    uint32_t numa;
    uint32_t mig_current, mig_pending;
    uint32_t ecc_current, ecc_pending;
    uint32_t compute_mode, persistence, drained, removed;
    uint32_t lost;
    uint32_t recovery_action;
    uint32_t last_xid;
    uint32_t temperature_c; /* without work */
    uint64_t pcie_replays;
    struct hw_ecc ecc;
    struct hw_remap remap;
    struct hw_link_errors link_errors;
    struct hw_work work;
    int64_t held_ns[HOLDS]; /* clocks were held down, until work.since_ns */
    struct hw_gi gis[HW_MAX_GI];
};

/* HIDDEN: it has memory, and no pid that means anything here (cuda_rows.h). */
enum proc_kind { PROC_COMPUTE, PROC_GRAPHICS, PROC_MPS, PROC_HIDDEN };

struct hw_proc {
    uint32_t pid; /* 0: the entry is empty; HW_NONE: hidden */
    uint32_t gpu;
    uint32_t cuda;      /* the row of CUDA's processes that it stands for, + 1; 0: none */
    uint32_t gi, ci;    /* HW_NONE on a card without MIG */
    uint32_t slice, vf; /* on a MetaX card: HW_NONE on the whole card */
    uint32_t kind;
    uint32_t memory_mib;
    uint32_t load; /* attached: percent of the time of its card, or of its instance */
    char name[64];
};

struct hw_event {
    uint64_t sequence;
    uint64_t type, data;
    uint32_t gpu, gi, ci;
    char text[64]; /* the text of MetaX's events */
};

/* What the driver has for limits of a card's memory (memory_limits.h). */
enum limits_kind { LIMITS_NONE, LIMITS_OFF, LIMITS_MISC, LIMITS_DMEM };

/* A limit of a cgroup's memory on a card, and the folder that it was set on. */
struct hw_limit {
    uint32_t used; /* 0: the entry is empty */
    uint32_t gpu;
    uint64_t soft, hard; /* bytes */
    uint64_t device, inode;
    int64_t born_ns;
    char path[320];
};

enum link_kind { LINKS_NONE, LINKS_NVSWITCH, LINKS_MESH };

struct hw_fabric {
    uint32_t state; /* enum nvml_fabric_state */
    uint32_t clique;
    unsigned char cluster_uuid[16];
};

struct hw {
    uint32_t gpu_count; /* number of NVIDIA cards */
    uint32_t mx_count;  /* number of MetaX cards */
    uint32_t numa_nodes, cpus;
    uint32_t links;         /* enum link_kind */
    uint32_t memory_limits; /* enum limits_kind */
    uint32_t boot;          /* number of boots */
    int32_t cuda_version;
    char driver_version[32], nvml_version[32];
    char mx_driver_version[32], maca_version[32];
    char boot_id[40];
    uint64_t serials; /* the last serial given out */
    uint64_t random;  /* state of the UUID generator */
    uint64_t event_sequence;
    struct hw_event events[HW_MAX_EVENTS]; /* ring: event s is at s % HW_MAX_EVENTS */
    struct hw_fabric fabric;
    struct hw_gpu gpus[HW_MAX_GPUS];
    struct mx_card mx_cards[MX_MAX_CARDS];
    struct hw_limit limits[HW_MAX_LIMITS];
    uint32_t cuda_procs; /* number of entries with `cuda` */
    uint32_t proc_reach; /* entries from here on hold nothing that counts */
    struct hw_proc procs[HW_MAX_PROCS];
};

/* The size of the part that was ever used. */
size_t hw_size(const struct hw *hw);

/* An empty entry of the processes; NULL when all are taken. */
struct hw_proc *hw_free_proc(struct hw *hw);

/* The model of a GPU of this hardware; never NULL for a GPU made by hw_init or a fleet. */
const struct model *hw_model(const struct hw_gpu *gpu);

/* True when the machine has NVIDIA's driver: one with only other cards does not. */
bool hw_has_nvidia(const struct hw *hw);

/* A serial that was not given out before. */
uint64_t hw_next_serial(struct hw *hw);

/* Writes a fresh random UUID, "<prefix>xxxxxxxx-xxxx-4xxx-8xxx-xxxxxxxxxxxx". size >= 42. */
void hw_new_uuid(struct hw *hw, const char *prefix, char *ret_uuid, size_t size);

/* Appends an event for waiting clients; gi and ci are HW_NONE when it concerns the whole card. */
void hw_emit(struct hw *hw, uint64_t type, uint64_t data, uint32_t gpu, uint32_t gi, uint32_t ci);

/* The same for a MetaX card, by its index among them. */
void hw_emit_text(struct hw *hw, uint64_t type, const char *text, uint32_t metax);

/* The time that the work took until then; it only grows. */
int64_t hw_work_ns(const struct hw_work *w, int64_t now_ns);

/* True while this load holds the card's clocks down. */
bool hw_is_held(const struct hw_gpu *gpu, uint64_t percent, enum hw_hold why);
/* For how long the work of attached processes held them down until then; it only grows. */
int64_t hw_held_ns(const struct hw_gpu *gpu, enum hw_hold why, int64_t now_ns);

/* Counts the work of an NVIDIA card and its instances anew, after processes came or went. */
void hw_count_work(struct hw *hw, uint32_t gpu, int64_t now_ns);

/* Processes on the card: all of them, or with gi (and ci) not HW_NONE only those inside. */
unsigned int hw_count_procs(const struct hw *hw, uint32_t gpu, uint32_t gi, uint32_t ci);
