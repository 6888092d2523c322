/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The tables. Sources: `nvidia-smi mig -lgip/-lgipp/-lcip` prints, NVIDIA's MIG user guide (v580),
 * and for A100 memory go-nvml. Values that are in no print are derived, and marked on their line.
 * -lgip prints GiB with two digits; here are the MiB that print so.
 */
#include "sim/model.h"

#include <stdio.h>
#include <string.h>

#include "sim/nvml.h"

/* Tables are read by column. */
/* clang-format off */

/* Seven compute slices over eight memory slices: A100, H100, H200, B200. */
/* enumeration, driver's id, G, attribute, max, since, size, how many starts, which */
static const struct gi_shape
    seven_1g      = {GI_1_SLICE,      19, 1, "",    7,   0,  1, 7, {0, 1, 2, 3, 4, 5, 6}},
    seven_1g_me   = {GI_1_SLICE_REV1, 20, 1, "+me", 1, 470,  1, 7, {0, 1, 2, 3, 4, 5, 6}},
    seven_1g_wide = {GI_1_SLICE_REV2, 15, 1, "",    4, 525,  2, 4, {0, 2, 4, 6}},
    seven_2g      = {GI_2_SLICE,      14, 2, "",    3,   0,  2, 3, {0, 2, 4}},
    seven_3g      = {GI_3_SLICE,       9, 3, "",    2,   0,  4, 2, {0, 4}},
    seven_4g      = {GI_4_SLICE,       5, 4, "",    1,   0,  4, 1, {0}},
    seven_7g      = {GI_7_SLICE,       0, 7, "",    1,   0,  8, 1, {0}};

/* shape, GB, SMs, MiB, engines: copy, decoder, encoder, JPEG, OFA */
static const struct gi_profile a100_40[] = {
    {&seven_1g,        5,  14,   4864, { 1, 0, 0, 0, 0}},
    {&seven_1g_me,     5,  14,   4864, { 1, 1, 0, 1, 1}},
    {&seven_1g_wide,  10,  14,   9856, { 1, 1, 0, 0, 0}},
    {&seven_2g,       10,  28,   9856, { 2, 1, 0, 0, 0}},
    {&seven_3g,       20,  42,  19968, { 3, 2, 0, 0, 0}},
    {&seven_4g,       20,  56,  19968, { 4, 2, 0, 0, 0}},
    {&seven_7g,       40,  98,  40192, { 7, 5, 0, 1, 1}},
};

/* Engines as on the 40 GB board. go-nvml's one decoder for 1g cannot be right: seven instances
 * would need seven. */
static const struct gi_profile a100_80[] = {
    {&seven_1g,       10,  14,   9856, { 1, 0, 0, 0, 0}},
    {&seven_1g_me,    10,  14,   9856, { 1, 1, 0, 1, 1}},
    {&seven_1g_wide,  20,  14,  19968, { 1, 1, 0, 0, 0}},
    {&seven_2g,       20,  28,  19968, { 2, 1, 0, 0, 0}},
    {&seven_3g,       40,  42,  40192, { 3, 2, 0, 0, 0}},
    {&seven_4g,       40,  56,  40192, { 4, 2, 0, 0, 0}},
    {&seven_7g,       80,  98,  80384, { 7, 5, 0, 1, 1}},
};

static const struct gi_profile h100_80[] = {
    {&seven_1g,       10,  16,   9984, { 1, 1, 0, 1, 0}},
    {&seven_1g_me,    10,  16,   9984, { 1, 1, 0, 1, 1}},
    {&seven_1g_wide,  20,  26,  20096, { 1, 1, 0, 1, 0}},
    {&seven_2g,       20,  32,  20096, { 2, 2, 0, 2, 0}},
    {&seven_3g,       40,  60,  40448, { 3, 3, 0, 3, 0}},
    {&seven_4g,       40,  64,  40448, { 4, 4, 0, 4, 0}},
    {&seven_7g,       80, 132,  81152, { 8, 7, 0, 7, 1}},
};

static const struct gi_profile h100_nvl[] = {
    {&seven_1g,       12,  16,  11008, { 1, 1, 0, 1, 0}},
    {&seven_1g_me,    12,  16,  11008, { 1, 1, 0, 1, 1}},
    {&seven_1g_wide,  24,  26,  22144, { 1, 1, 0, 1, 0}},
    {&seven_2g,       24,  32,  22144, { 2, 2, 0, 2, 0}},
    {&seven_3g,       47,  60,  47488, { 3, 3, 0, 3, 0}},
    {&seven_4g,       47,  64,  47488, { 4, 4, 0, 4, 0}},
    {&seven_7g,       94, 132,  95360, { 8, 7, 0, 7, 1}},
};

static const struct gi_profile h200[] = {
    {&seven_1g,       18,  16,  16384, { 1, 1, 0, 1, 0}},
    {&seven_1g_me,    18,  16,  16384, { 1, 1, 0, 1, 1}},
    {&seven_1g_wide,  35,  26,  33024, { 1, 1, 0, 1, 0}},
    {&seven_2g,       35,  32,  33024, { 2, 2, 0, 2, 0}},
    {&seven_3g,       71,  60,  71168, { 3, 3, 0, 3, 0}},
    {&seven_4g,       71,  64,  71168, { 4, 4, 0, 4, 0}},
    {&seven_7g,      141, 132, 143360, { 8, 7, 0, 7, 1}},
};

/*
 * 3g, 4g and 7g are not in any print. Derived: memory as twice the next smaller plus a quarter GiB
 * (the step on H100 80GB), 4g SMs twice 2g's, 3g SMs in the 60:64 ratio of H100 rounded to pairs,
 * decoders and JPEG one a slice as 1g and 2g have them.
 */
static const struct gi_profile b200[] = {
    {&seven_1g,       23,  18,  22528, { 2, 1, 0, 1, 0}},
    {&seven_1g_me,    23,  18,  22528, { 2, 1, 0, 1, 1}},
    {&seven_1g_wide,  45,  30,  45312, { 2, 1, 0, 1, 0}},
    {&seven_2g,       45,  36,  45312, { 4, 2, 0, 2, 0}},
    {&seven_3g,       90,  68,  90880, { 6, 3, 0, 3, 0}},
    {&seven_4g,       90,  72,  90880, { 8, 4, 0, 4, 0}},
    {&seven_7g,      180, 148, 182016, {16, 7, 0, 7, 1}},
};

/* Four compute slices over four memory slices. */
static const struct gi_shape a30_1g = {GI_1_SLICE, 14, 1, "", 4, 0, 1, 4, {0, 1, 2, 3}},
                             a30_1g_me = {GI_1_SLICE_REV1, 21, 1, "+me", 1, 470, 1, 4,
                                          {0, 1, 2, 3}},
                             a30_2g = {GI_2_SLICE, 5, 2, "", 2, 0, 2, 2, {0, 2}},
                             a30_2g_me = {GI_2_SLICE_REV1, 6, 2, "+me", 1, 525, 2, 2, {0, 2}},
                             a30_4g = {GI_4_SLICE, 0, 4, "", 1, 0, 4, 1, {0}};

/* The decoder of 1g is from -lgip; the guide's table prints 0. */
static const struct gi_profile a30[] = {
    {&a30_1g,      6,  14,   5952, { 1, 1, 0, 0, 0}},
    {&a30_1g_me,   6,  14,   5952, { 1, 1, 0, 1, 1}},
    {&a30_2g,     12,  28,  11968, { 2, 2, 0, 0, 0}},
    {&a30_2g_me,  12,  28,  11968, { 2, 2, 0, 1, 1}},
    {&a30_4g,     24,  56,  24000, { 4, 4, 0, 1, 1}},
};

/* Four compute slices over twelve memory slices: RTX PRO 6000 Blackwell. */
/* enumeration, driver's id, G, attribute, max, since, size, how many starts, which */
static const struct gi_shape
    rtx_1g        = {GI_1_SLICE,        14, 1, "",        4,   0,  3, 4, {0, 3, 6, 9}},
    rtx_1g_me     = {GI_1_SLICE_REV1,   21, 1, "+me",     1,   0,  3, 4, {0, 3, 6, 9}},
    rtx_1g_gfx    = {GI_1_SLICE_GFX,    47, 1, "+gfx",    4,   0,  3, 4, {0, 3, 6, 9}},
    rtx_1g_all_me = {GI_1_SLICE_ALL_ME, 65, 1, "+me.all", 1,   0,  3, 4, {0, 3, 6, 9}},
    rtx_1g_no_me  = {GI_1_SLICE_NO_ME,  67, 1, "-me",     4,   0,  3, 4, {0, 3, 6, 9}},
    rtx_2g        = {GI_2_SLICE,         5, 2, "",        2,   0,  6, 2, {0, 6}},
    rtx_2g_gfx    = {GI_2_SLICE_GFX,    35, 2, "+gfx",    2,   0,  6, 2, {0, 6}},
    rtx_2g_all_me = {GI_2_SLICE_ALL_ME, 64, 2, "+me.all", 1,   0,  6, 2, {0, 6}},
    rtx_2g_no_me  = {GI_2_SLICE_NO_ME,  66, 2, "-me",     2,   0,  6, 2, {0, 6}},
    rtx_4g        = {GI_4_SLICE,         0, 4, "",        1,   0, 12, 1, {0}},
    rtx_4g_gfx    = {GI_4_SLICE_GFX,    32, 4, "+gfx",    1,   0, 12, 1, {0}};

/* Server Edition: memory with ECC on. Engines of the gfx profiles are derived from their twins. */
static const struct gi_profile rtx_pro_6000[] = {
    {&rtx_1g,         24,  46,  23680, { 1, 1, 1, 1, 0}},
    {&rtx_1g_me,      24,  46,  23680, { 1, 1, 1, 1, 1}},
    {&rtx_1g_gfx,     24,  46,  23680, { 1, 1, 1, 1, 0}},
    {&rtx_1g_all_me,  24,  46,  23680, { 1, 4, 4, 4, 1}},
    {&rtx_1g_no_me,   24,  46,  23680, { 1, 0, 0, 0, 0}},
    {&rtx_2g,         48,  94,  47616, { 2, 2, 2, 2, 0}},
    {&rtx_2g_gfx,     48,  94,  47616, { 2, 2, 2, 2, 0}},
    {&rtx_2g_all_me,  48,  94,  47616, { 2, 4, 4, 4, 1}},
    {&rtx_2g_no_me,   48,  94,  47616, { 2, 0, 0, 0, 0}},
    {&rtx_4g,         96, 188,  95616, { 4, 4, 4, 4, 1}},
    {&rtx_4g_gfx,     96, 188,  95616, { 4, 4, 4, 4, 1}},
};

/* clang-format on */

#define E(...)                                                                                     \
    {                                                                                              \
        __VA_ARGS__                                                                                \
    }
#define PROFILES(t) .profiles = (t), .profile_count = sizeof(t) / sizeof((t)[0])
#define AMPERE                                                                                     \
    .arch = ARCH_AMPERE, .cc_major = 8, .cc_minor = 0, .brand = BRAND_NVIDIA, .cores_per_sm = 64,  \
    .mig = MIG_AFTER_RESET, .ecc_default = true, .row_remapping = true, .pcie_generation = 4
#define HOPPER                                                                                     \
    .arch = ARCH_HOPPER, .cc_major = 9, .cc_minor = 0, .brand = BRAND_NVIDIA, .cores_per_sm = 128, \
    .mig = MIG_AT_ONCE, .ecc_default = true, .row_remapping = true, .pcie_generation = 5,          \
    .grid = 8, .slices = 7, .engines = E(8, 7, 0, 7, 1), .sms = 132

/* Totals are those of nvmlDeviceGetMemoryInfo; the GB of the profile names follow from them. */
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
     .idle_memory_mhz = 405,
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
     .idle_memory_mhz = 405,
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
     .idle_memory_mhz = 405,
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
        if (m->profiles[i].shape->enumeration == enumeration)
            return &m->profiles[i];
    }
    return NULL;
}

const struct gi_profile *model_profile_by_id(const struct model *m, unsigned int id)
{
    for (size_t i = 0; i < m->profile_count; i++) {
        if (m->profiles[i].shape->id == id)
            return &m->profiles[i];
    }
    return NULL;
}

bool gi_profile_draws(const struct gi_profile *p)
{
    return strcmp(p->shape->attribute, "+gfx") == 0;
}

void gi_profile_name(const struct gi_profile *p, char *ret_name, size_t size)
{
    (void)snprintf(ret_name, size, "MIG %ug.%ugb%s", p->shape->slices, p->gb, p->shape->attribute);
}

void gi_profile_short_name(const struct gi_profile *p, char *ret_name, size_t size)
{
    (void)snprintf(ret_name, size, "%ug.%ugb%s", p->shape->slices, p->gb, p->shape->attribute);
}

/*
 * The compute instance shapes of each GPU instance size (the guide's tables; -lcip). Starts of the
 * split shapes inside 7g are in no print: assumed to be the aligned positions that give the guide's
 * counts (2c three times, 3c twice, 4c once).
 */
static const struct {
    unsigned int gi_slices;
    struct ci_profile ci;
} ci_table[] = {
    /* clang-format off */
    {1, {CI_1_SLICE, 1, {0}, 1, false}},
    {2, {CI_1_SLICE, 1, {0, 1}, 2, false}},
    {2, {CI_2_SLICE, 2, {0}, 1, false}},
    {3, {CI_1_SLICE, 1, {0, 1, 2}, 3, false}},
    {3, {CI_2_SLICE, 2, {0}, 1, false}},
    {3, {CI_3_SLICE, 3, {0}, 1, false}},
    {4, {CI_1_SLICE, 1, {0, 1, 2, 3}, 4, false}},
    {4, {CI_2_SLICE, 2, {0, 2}, 2, false}},
    {4, {CI_4_SLICE, 4, {0}, 1, false}},
    {7, {CI_1_SLICE, 1, {0, 1, 2, 3, 4, 5, 6}, 7, false}},
    {7, {CI_2_SLICE, 2, {0, 2, 4}, 3, false}},
    {7, {CI_3_SLICE, 3, {0, 4}, 2, false}},
    {7, {CI_4_SLICE, 4, {0}, 1, false}},
    {7, {CI_7_SLICE, 7, {0}, 1, false}},
    /* clang-format on */
};

bool ci_profile_get(const struct gi_profile *gi, unsigned int enumeration, struct ci_profile *ret)
{
    bool media = enumeration == CI_1_SLICE_REV1;
    unsigned int wanted = media ? CI_1_SLICE : enumeration;
    for (size_t i = 0; i < sizeof(ci_table) / sizeof(ci_table[0]); i++) {
        if (ci_table[i].gi_slices != gi->shape->slices || ci_table[i].ci.enumeration != wanted)
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
    if (ci->slices == gi->shape->slices)
        return gi->sms;
    return gi->sms * ci->slices / gi->shape->slices / 2 * 2;
}

void ci_profile_short_name(const struct gi_profile *gi, const struct ci_profile *ci, char *ret_name,
                           size_t size)
{
    char whole[64];
    gi_profile_short_name(gi, whole, sizeof(whole));
    const char *media = ci->media ? "+me" : "";
    if (ci->slices == gi->shape->slices && !ci->media)
        (void)snprintf(ret_name, size, "%s", whole);
    else
        (void)snprintf(ret_name, size, "%uc.%s%s", ci->slices, whole, media);
}
