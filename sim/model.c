/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The tables. Sources: `nvidia-smi mig -lgip/-lgipp/-lcip` prints, NVIDIA's MIG user guide (v580),
 * and for A100 memory go-nvml. What no print shows is derived, and says so on its line.
 * -lgip prints GiB with two digits; here are the MiB that print so.
 */
#include "sim/model.h"

#include <stdio.h>
#include <string.h>

#include "sim/nvml.h"

/* Engines in the order of the prints: copy, decoder, encoder, JPEG, OFA. */
#define E(ce, dec, enc, jpeg, ofa)                                                                 \
    {                                                                                              \
        ce, dec, enc, jpeg, ofa                                                                    \
    }
#define STARTS(...)                                                                                \
    .starts = {__VA_ARGS__},                                                                       \
    .start_count = sizeof((const unsigned int[]){__VA_ARGS__}) / sizeof(unsigned int)
#define PROFILE(enum_, id_, g, gb_, attr, sms_, mib, ...)                                          \
    .enumeration = GI_##enum_, .id = (id_), .slices = (g), .gb = (gb_), .attribute = (attr),       \
    .sms = (sms_), .memory_mib = (mib), .engines = __VA_ARGS__

/* Seven compute slices over eight memory slots: ids, placements and counts are the family's. */
#define SEVEN_1G(gb, sms, mib, ...)                                                                \
    {                                                                                              \
        PROFILE(1_SLICE, 19, 1, gb, "", sms, mib, __VA_ARGS__), .size = 1, .max_count = 7,         \
                                                                STARTS(0, 1, 2, 3, 4, 5, 6)        \
    }
#define SEVEN_1G_ME(gb, sms, mib, ...)                                                             \
    {                                                                                              \
        PROFILE(1_SLICE_REV1, 20, 1, gb, "+me", sms, mib, __VA_ARGS__),                            \
            .size = 1, .max_count = 1, STARTS(0, 1, 2, 3, 4, 5, 6)                                 \
    }
#define SEVEN_1G_WIDE(gb, sms, mib, ...)                                                           \
    {                                                                                              \
        PROFILE(1_SLICE_REV2, 15, 1, gb, "", sms, mib, __VA_ARGS__), .size = 2, .max_count = 4,    \
                                                                     STARTS(0, 2, 4, 6)            \
    }
#define SEVEN_2G(gb, sms, mib, ...)                                                                \
    {                                                                                              \
        PROFILE(2_SLICE, 14, 2, gb, "", sms, mib, __VA_ARGS__), .size = 2, .max_count = 3,         \
                                                                STARTS(0, 2, 4)                    \
    }
#define SEVEN_3G(gb, sms, mib, ...)                                                                \
    {                                                                                              \
        PROFILE(3_SLICE, 9, 3, gb, "", sms, mib, __VA_ARGS__), .size = 4, .max_count = 2,          \
                                                               STARTS(0, 4)                        \
    }
#define SEVEN_4G(gb, sms, mib, ...)                                                                \
    {                                                                                              \
        PROFILE(4_SLICE, 5, 4, gb, "", sms, mib, __VA_ARGS__), .size = 4, .max_count = 1,          \
                                                               STARTS(0)                           \
    }
#define SEVEN_7G(gb, sms, mib, ...)                                                                \
    {                                                                                              \
        PROFILE(7_SLICE, 0, 7, gb, "", sms, mib, __VA_ARGS__), .size = 8, .max_count = 1,          \
                                                               STARTS(0)                           \
    }

static const struct gi_profile a100_40[] = {
    SEVEN_1G(5, 14, 4864, E(1, 0, 0, 0, 0)),       SEVEN_1G_ME(5, 14, 4864, E(1, 1, 0, 1, 1)),
    SEVEN_1G_WIDE(10, 14, 9856, E(1, 1, 0, 0, 0)), SEVEN_2G(10, 28, 9856, E(2, 1, 0, 0, 0)),
    SEVEN_3G(20, 42, 19968, E(3, 2, 0, 0, 0)),     SEVEN_4G(20, 56, 19968, E(4, 2, 0, 0, 0)),
    SEVEN_7G(40, 98, 40192, E(7, 5, 0, 1, 1)),
};

/* Engines as on the 40 GB board. go-nvml's one decoder for 1g cannot be: seven would need seven. */
static const struct gi_profile a100_80[] = {
    SEVEN_1G(10, 14, 9856, E(1, 0, 0, 0, 0)),       SEVEN_1G_ME(10, 14, 9856, E(1, 1, 0, 1, 1)),
    SEVEN_1G_WIDE(20, 14, 19968, E(1, 1, 0, 0, 0)), SEVEN_2G(20, 28, 19968, E(2, 1, 0, 0, 0)),
    SEVEN_3G(40, 42, 40192, E(3, 2, 0, 0, 0)),      SEVEN_4G(40, 56, 40192, E(4, 2, 0, 0, 0)),
    SEVEN_7G(80, 98, 80384, E(7, 5, 0, 1, 1)),
};

static const struct gi_profile h100_80[] = {
    SEVEN_1G(10, 16, 9984, E(1, 1, 0, 1, 0)),       SEVEN_1G_ME(10, 16, 9984, E(1, 1, 0, 1, 1)),
    SEVEN_1G_WIDE(20, 26, 20096, E(1, 1, 0, 1, 0)), SEVEN_2G(20, 32, 20096, E(2, 2, 0, 2, 0)),
    SEVEN_3G(40, 60, 40448, E(3, 3, 0, 3, 0)),      SEVEN_4G(40, 64, 40448, E(4, 4, 0, 4, 0)),
    SEVEN_7G(80, 132, 81152, E(8, 7, 0, 7, 1)),
};

static const struct gi_profile h100_nvl[] = {
    SEVEN_1G(12, 16, 11008, E(1, 1, 0, 1, 0)),      SEVEN_1G_ME(12, 16, 11008, E(1, 1, 0, 1, 1)),
    SEVEN_1G_WIDE(24, 26, 22144, E(1, 1, 0, 1, 0)), SEVEN_2G(24, 32, 22144, E(2, 2, 0, 2, 0)),
    SEVEN_3G(47, 60, 47488, E(3, 3, 0, 3, 0)),      SEVEN_4G(47, 64, 47488, E(4, 4, 0, 4, 0)),
    SEVEN_7G(94, 132, 95360, E(8, 7, 0, 7, 1)),
};

static const struct gi_profile h200[] = {
    SEVEN_1G(18, 16, 16384, E(1, 1, 0, 1, 0)),      SEVEN_1G_ME(18, 16, 16384, E(1, 1, 0, 1, 1)),
    SEVEN_1G_WIDE(35, 26, 33024, E(1, 1, 0, 1, 0)), SEVEN_2G(35, 32, 33024, E(2, 2, 0, 2, 0)),
    SEVEN_3G(71, 60, 71168, E(3, 3, 0, 3, 0)),      SEVEN_4G(71, 64, 71168, E(4, 4, 0, 4, 0)),
    SEVEN_7G(141, 132, 143360, E(8, 7, 0, 7, 1)),
};

/*
 * 3g, 4g and 7g are not in any print. Derived: memory as twice the next smaller plus a quarter GiB
 * (the step on H100 80GB), 4g SMs twice 2g's, 3g SMs in the 60:64 ratio of H100 rounded to pairs,
 * decoders and JPEG one a slice as 1g and 2g have them.
 */
static const struct gi_profile b200[] = {
    SEVEN_1G(23, 18, 22528, E(2, 1, 0, 1, 0)),      SEVEN_1G_ME(23, 18, 22528, E(2, 1, 0, 1, 1)),
    SEVEN_1G_WIDE(45, 30, 45312, E(2, 1, 0, 1, 0)), SEVEN_2G(45, 36, 45312, E(4, 2, 0, 2, 0)),
    SEVEN_3G(90, 68, 90880, E(6, 3, 0, 3, 0)),      SEVEN_4G(90, 72, 90880, E(8, 4, 0, 4, 0)),
    SEVEN_7G(180, 148, 182016, E(16, 7, 0, 7, 1)),
};

/* The decoder of 1g is lgip's; the guide's table prints 0. */
static const struct gi_profile a30[] = {
    {PROFILE(1_SLICE, 14, 1, 6, "", 14, 5952, E(1, 1, 0, 0, 0)), .size = 1, .max_count = 4,
     STARTS(0, 1, 2, 3)},
    {PROFILE(1_SLICE_REV1, 21, 1, 6, "+me", 14, 5952, E(1, 1, 0, 1, 1)), .size = 1, .max_count = 1,
     STARTS(0, 1, 2, 3)},
    {PROFILE(2_SLICE, 5, 2, 12, "", 28, 11968, E(2, 2, 0, 0, 0)), .size = 2, .max_count = 2,
     STARTS(0, 2)},
    {PROFILE(2_SLICE_REV1, 6, 2, 12, "+me", 28, 11968, E(2, 2, 0, 1, 1)), .size = 2, .max_count = 1,
     STARTS(0, 2)},
    {PROFILE(4_SLICE, 0, 4, 24, "", 56, 24000, E(4, 4, 0, 1, 1)), .size = 4, .max_count = 1,
     STARTS(0)},
};

/* Server Edition: memory with ECC on. Engines of the gfx profiles are derived from their twins. */
#define RTX_1G(enum_, id, attr, ...)                                                               \
    PROFILE(enum_, id, 1, 24, attr, 46, 23680, __VA_ARGS__), .size = 3, STARTS(0, 3, 6, 9)
#define RTX_2G(enum_, id, attr, ...)                                                               \
    PROFILE(enum_, id, 2, 48, attr, 94, 47616, __VA_ARGS__), .size = 6, STARTS(0, 6)
#define RTX_4G(enum_, id, attr, ...)                                                               \
    PROFILE(enum_, id, 4, 96, attr, 188, 95616, __VA_ARGS__), .size = 12, STARTS(0)
static const struct gi_profile rtx_pro_6000[] = {
    {RTX_1G(1_SLICE, 14, "", E(1, 1, 1, 1, 0)), .max_count = 4},
    {RTX_1G(1_SLICE_REV1, 21, "+me", E(1, 1, 1, 1, 1)), .max_count = 1},
    {RTX_1G(1_SLICE_GFX, 47, "+gfx", E(1, 1, 1, 1, 0)), .max_count = 4, .graphics = true},
    {RTX_1G(1_SLICE_ALL_ME, 65, "+me.all", E(1, 4, 4, 4, 1)), .max_count = 1},
    {RTX_1G(1_SLICE_NO_ME, 67, "-me", E(1, 0, 0, 0, 0)), .max_count = 4},
    {RTX_2G(2_SLICE, 5, "", E(2, 2, 2, 2, 0)), .max_count = 2},
    {RTX_2G(2_SLICE_GFX, 35, "+gfx", E(2, 2, 2, 2, 0)), .max_count = 2, .graphics = true},
    {RTX_2G(2_SLICE_ALL_ME, 64, "+me.all", E(2, 4, 4, 4, 1)), .max_count = 1},
    {RTX_2G(2_SLICE_NO_ME, 66, "-me", E(2, 0, 0, 0, 0)), .max_count = 2},
    {RTX_4G(4_SLICE, 0, "", E(4, 4, 4, 4, 1)), .max_count = 1},
    {RTX_4G(4_SLICE_GFX, 32, "+gfx", E(4, 4, 4, 4, 1)), .max_count = 1, .graphics = true},
};

#define PROFILES(t) .profiles = (t), .profile_count = sizeof(t) / sizeof((t)[0])
#define AMPERE                                                                                     \
    .arch = ARCH_AMPERE, .cc_major = 8, .cc_minor = 0, .brand = BRAND_NVIDIA, .cores_per_sm = 64,  \
    .mig = MIG_AFTER_RESET, .ecc_default = true, .row_remapping = true, .pcie_generation = 4
#define HOPPER                                                                                     \
    .arch = ARCH_HOPPER, .cc_major = 9, .cc_minor = 0, .brand = BRAND_NVIDIA, .cores_per_sm = 128, \
    .mig = MIG_AT_ONCE, .ecc_default = true, .row_remapping = true, .pcie_generation = 5,          \
    .grid = 8, .slices = 7, .engines = E(8, 7, 0, 7, 1), .sms = 132

/* Totals are what nvmlDeviceGetMemoryInfo gives; they yield the GB of the profile names. */
static const struct model models[] = {
    {.key = "a100-40",
     .name = "NVIDIA A100-SXM4-40GB",
     AMPERE,
     PROFILES(a100_40),
     .pci_device_id = 0x20B010DE,
     .pci_subsystem_id = 0x134F10DE,
     .memory_mib = 40960,
     .reserved_mib = 425,
     .bar1_mib = 65536,
     .sms = 108,
     .grid = 8,
     .slices = 7,
     .engines = E(7, 5, 0, 1, 1),
     .power_limit_w = 400,
     .clock_sm_mhz = 1410,
     .clock_memory_mhz = 1215,
     .nvlinks = 12,
     .nvswitch = true,
     .vbios = "92.00.19.00.10",
     .part_number = "692-2G506-0200-002"},
    {.key = "a100-80",
     .name = "NVIDIA A100-SXM4-80GB",
     AMPERE,
     PROFILES(a100_80),
     .pci_device_id = 0x20B210DE,
     .pci_subsystem_id = 0x147F10DE,
     .memory_mib = 81920,
     .reserved_mib = 869,
     .bar1_mib = 131072,
     .sms = 108,
     .grid = 8,
     .slices = 7,
     .engines = E(7, 5, 0, 1, 1),
     .power_limit_w = 400,
     .clock_sm_mhz = 1410,
     .clock_memory_mhz = 1593,
     .nvlinks = 12,
     .nvswitch = true,
     .vbios = "92.00.45.00.06",
     .part_number = "692-2G506-0210-002"},
    {.key = "a30",
     .name = "NVIDIA A30",
     AMPERE,
     PROFILES(a30),
     .pci_device_id = 0x20B710DE,
     .pci_subsystem_id = 0x153210DE,
     .memory_mib = 24576,
     .reserved_mib = 319,
     .bar1_mib = 32768,
     .sms = 56,
     .grid = 4,
     .slices = 4,
     .engines = E(4, 4, 0, 1, 1),
     .power_limit_w = 165,
     .clock_sm_mhz = 1440,
     .clock_memory_mhz = 1215,
     .vbios = "92.00.66.00.09",
     .part_number = "900-21001-0040-000"},
    {.key = "h100-80",
     .name = "NVIDIA H100 80GB HBM3",
     HOPPER,
     PROFILES(h100_80),
     .pci_device_id = 0x233010DE,
     .pci_subsystem_id = 0x16C110DE,
     .memory_mib = 81559,
     .reserved_mib = 551,
     .bar1_mib = 131072,
     .power_limit_w = 700,
     .clock_sm_mhz = 1980,
     .clock_memory_mhz = 2619,
     .nvlinks = 18,
     .nvswitch = true,
     .vbios = "96.00.74.00.01",
     .part_number = "692-2G520-0200-000"},
    {.key = "h100-nvl",
     .name = "NVIDIA H100 NVL",
     HOPPER,
     PROFILES(h100_nvl),
     .pci_device_id = 0x232110DE,
     .pci_subsystem_id = 0x183910DE,
     .memory_mib = 95830,
     .reserved_mib = 609,
     .bar1_mib = 131072,
     .power_limit_w = 400,
     .clock_sm_mhz = 1785,
     .clock_memory_mhz = 2619,
     .nvlinks = 12,
     .vbios = "96.00.88.00.11",
     .part_number = "900-21010-0020-000"},
    {.key = "h200",
     .name = "NVIDIA H200",
     HOPPER,
     PROFILES(h200),
     .pci_device_id = 0x233510DE,
     .pci_subsystem_id = 0x18BE10DE,
     .memory_mib = 143771,
     .reserved_mib = 613,
     .bar1_mib = 262144,
     .power_limit_w = 700,
     .clock_sm_mhz = 1980,
     .clock_memory_mhz = 3201,
     .nvlinks = 18,
     .nvswitch = true,
     .vbios = "96.00.A0.00.04",
     .part_number = "692-2G520-0280-000"},
    {.key = "b200",
     .name = "NVIDIA B200",
     PROFILES(b200),
     .pci_device_id = 0x290110DE,
     .pci_subsystem_id = 0x199910DE,
     .arch = ARCH_BLACKWELL,
     .cc_major = 10,
     .cc_minor = 0,
     .brand = BRAND_NVIDIA,
     .memory_mib = 183359,
     .reserved_mib = 703,
     .bar1_mib = 262144,
     .sms = 148,
     .cores_per_sm = 128,
     .power_limit_w = 1000,
     .clock_sm_mhz = 1965,
     .clock_memory_mhz = 3996,
     .nvlinks = 18,
     .nvswitch = true,
     .pcie_generation = 6,
     .ecc_default = true,
     .row_remapping = true,
     .mig = MIG_AT_ONCE,
     .grid = 8,
     .slices = 7,
     .engines = E(16, 7, 0, 7, 1),
     .vbios = "97.00.5F.00.08",
     .part_number = "692-2G525-0220-000"},
    {.key = "rtx-pro-6000",
     .name = "NVIDIA RTX PRO 6000 Blackwell Server Edition",
     PROFILES(rtx_pro_6000),
     .pci_device_id = 0x2BB510DE,
     .pci_subsystem_id = 0x204E10DE,
     .arch = ARCH_BLACKWELL,
     .cc_major = 12,
     .cc_minor = 0,
     .brand = BRAND_NVIDIA_RTX,
     .memory_mib = 97887,
     .reserved_mib = 637,
     .bar1_mib = 131072,
     .sms = 188,
     .cores_per_sm = 128,
     .power_limit_w = 600,
     .clock_sm_mhz = 2430,
     .clock_memory_mhz = 12481,
     .pcie_generation = 5,
     .ecc_default = true,
     .row_remapping = true,
     .mig = MIG_AT_ONCE,
     .grid = 12,
     .slices = 4,
     .engines = E(4, 4, 4, 4, 1),
     .vbios = "98.02.6A.00.02",
     .part_number = "900-2G153-0000-000"},
    {.key = "l4",
     .name = "NVIDIA L4",
     .pci_device_id = 0x27B810DE,
     .pci_subsystem_id = 0x16CA10DE,
     .arch = ARCH_ADA,
     .cc_major = 8,
     .cc_minor = 9,
     .brand = BRAND_NVIDIA,
     .memory_mib = 23034,
     .reserved_mib = 427,
     .bar1_mib = 32768,
     .sms = 58,
     .cores_per_sm = 128,
     .power_limit_w = 72,
     .clock_sm_mhz = 2040,
     .clock_memory_mhz = 6251,
     .pcie_generation = 4,
     .ecc_default = true,
     .row_remapping = true,
     .engines = E(2, 4, 2, 4, 1),
     .vbios = "95.04.29.00.06",
     .part_number = "900-2G193-0000-000"},
    {.key = "t4",
     .name = "Tesla T4",
     .pci_device_id = 0x1EB810DE,
     .pci_subsystem_id = 0x12A210DE,
     .arch = ARCH_TURING,
     .cc_major = 7,
     .cc_minor = 5,
     .brand = BRAND_TESLA,
     .memory_mib = 15360,
     .reserved_mib = 449,
     .bar1_mib = 256,
     .sms = 40,
     .cores_per_sm = 64,
     .power_limit_w = 70,
     .clock_sm_mhz = 1590,
     .clock_memory_mhz = 5001,
     .pcie_generation = 3,
     .ecc_default = true,
     .engines = E(3, 2, 1, 0, 0),
     .vbios = "90.04.38.00.03",
     .part_number = "900-2G183-0000-001"},
};

const struct model *model_at(size_t index)
{
    return index < sizeof(models) / sizeof(models[0]) ? &models[index] : NULL;
}

const struct model *model_find(const char *key)
{
    for (size_t i = 0; i < sizeof(models) / sizeof(models[0]); i++) {
        if (strcmp(models[i].key, key) == 0)
            return &models[i];
    }
    return NULL;
}

const struct gi_profile *model_profile_by_enum(const struct model *m, unsigned int enumeration)
{
    for (size_t i = 0; i < m->profile_count; i++) {
        if (m->profiles[i].enumeration == enumeration)
            return &m->profiles[i];
    }
    return NULL;
}

const struct gi_profile *model_profile_by_id(const struct model *m, unsigned int id)
{
    for (size_t i = 0; i < m->profile_count; i++) {
        if (m->profiles[i].id == id)
            return &m->profiles[i];
    }
    return NULL;
}

void gi_profile_name(const struct gi_profile *p, char *ret_name, size_t size)
{
    (void)snprintf(ret_name, size, "MIG %ug.%ugb%s", p->slices, p->gb, p->attribute);
}

void gi_profile_short_name(const struct gi_profile *p, char *ret_name, size_t size)
{
    (void)snprintf(ret_name, size, "%ug.%ugb%s", p->slices, p->gb, p->attribute);
}

/*
 * The compute instance shapes each GPU instance size offers (the guide's tables; -lcip). Starts of
 * the split shapes inside 7g are in no print: taken as the aligned positions that give the counts
 * the guide states (2c three times, 3c twice, 4c once).
 */
static const struct {
    unsigned int gi_slices;
    struct ci_profile ci;
} ci_table[] = {
    {1, {CI_1_SLICE, 1, STARTS(0)}},          {2, {CI_1_SLICE, 1, STARTS(0, 1)}},
    {2, {CI_2_SLICE, 2, STARTS(0)}},          {3, {CI_1_SLICE, 1, STARTS(0, 1, 2)}},
    {3, {CI_2_SLICE, 2, STARTS(0)}},          {3, {CI_3_SLICE, 3, STARTS(0)}},
    {4, {CI_1_SLICE, 1, STARTS(0, 1, 2, 3)}}, {4, {CI_2_SLICE, 2, STARTS(0, 2)}},
    {4, {CI_4_SLICE, 4, STARTS(0)}},          {7, {CI_1_SLICE, 1, STARTS(0, 1, 2, 3, 4, 5, 6)}},
    {7, {CI_2_SLICE, 2, STARTS(0, 2, 4)}},    {7, {CI_3_SLICE, 3, STARTS(0, 4)}},
    {7, {CI_4_SLICE, 4, STARTS(0)}},          {7, {CI_7_SLICE, 7, STARTS(0)}},
};

bool ci_profile_get(const struct gi_profile *gi, unsigned int enumeration, struct ci_profile *ret)
{
    bool media = enumeration == CI_1_SLICE_REV1;
    unsigned int wanted = media ? CI_1_SLICE : enumeration;
    for (size_t i = 0; i < sizeof(ci_table) / sizeof(ci_table[0]); i++) {
        if (ci_table[i].gi_slices != gi->slices || ci_table[i].ci.enumeration != wanted)
            continue;
        *ret = ci_table[i].ci;
        ret->enumeration = enumeration;
        ret->media = media;
        return true;
    }
    return false;
}

/* SMs come in pairs (TPCs); a part of an instance gets its share rounded down to pairs. */
unsigned int ci_profile_sms(const struct gi_profile *gi, const struct ci_profile *ci)
{
    if (ci->slices == gi->slices)
        return gi->sms;
    return gi->sms * ci->slices / gi->slices / 2 * 2;
}

void ci_profile_short_name(const struct gi_profile *gi, const struct ci_profile *ci, char *ret_name,
                           size_t size)
{
    char whole[64];
    gi_profile_short_name(gi, whole, sizeof(whole));
    const char *media = ci->media ? "+me" : "";
    if (ci->slices == gi->slices && !ci->media)
        (void)snprintf(ret_name, size, "%s", whole);
    else
        (void)snprintf(ret_name, size, "%uc.%s%s", ci->slices, whole, media);
}
