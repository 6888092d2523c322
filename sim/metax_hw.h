/* SPDX-License-Identifier: Apache-2.0 */
/* The simulated MetaX cards as plain data; part of struct hw (hw.h), and position-independent like
 * it. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#define MX_MAX_CARDS  16
#define MX_MAX_SLICES 16
#define MX_MAX_VFS    8
#define MX_STEP_MIB   128
#define MX_MAX_LINKED 8 /* cards joined by MetaXLink: seven links each */

/* A slice; its id is its index in the card. */
struct mx_slice {
    uint32_t there; /* 0: the entry is empty */
    uint32_t vram_mib, compute_pct;
    uint32_t sw_priority, priority;
    uint32_t unavailable;
    char uuid[48];
    char alias[33];
    char annotations[97];
};

struct mx_ecc {
    uint32_t sram_ce, sram_ue, dram_ce, dram_ue, retired_pages;
};

struct mx_card {
    char model[24];
    char uuid[48];
    uint32_t domain, bus, device;
    uint32_t numa;
    uint32_t group, place; /* MetaXLink: the group (0: none), and the card's position in it */
    uint32_t toggle, sched_class, timeslice_ms;
    uint32_t ecc_on;
    uint32_t unavailable; /* then reason_code and reason are set */
    uint32_t limited;     /* the library cannot manage it: it has another driver */
    uint32_t vf_count;    /* > 0: divided into virtual functions */
    int32_t reason_code;
    char reason[64];
    struct mx_ecc ecc;
    char vf_uuids[MX_MAX_VFS][48];
    struct mx_slice slices[MX_MAX_SLICES];
};

struct mx_model {
    const char *key;        /* its name in fleets */
    const char *name;       /* its name in the library */
    uint32_t pci_device_id; /* device in the upper half, vendor in the lower */
    uint32_t vram_mib;
    uint32_t power_limit_w;
};

/* Every model, in a fixed order; NULL after the last. */
const struct mx_model *mx_model_at(uint32_t index);

/* The model of that key, or NULL. */
const struct mx_model *mx_model_find(const char *key);
