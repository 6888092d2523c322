/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/cuda_traits.h"

#include <string.h>

#define KIB 1024U
#define MIB 1048576U

static const struct traits capabilities[] = {
    {7, 5, 1024, 16, 64 * KIB, 64 * KIB, 0, 32},
    {8, 0, 2048, 32, 164 * KIB, 163 * KIB, 1024, 2},
    {8, 9, 1536, 24, 100 * KIB, 99 * KIB, 1024, 64},
    {9, 0, 2048, 32, 228 * KIB, 227 * KIB, 1024, 2},
    {10, 0, 2048, 32, 228 * KIB, 227 * KIB, 1024, 2},
    {12, 0, 1536, 24, 100 * KIB, 99 * KIB, 1024, 64},
};

static const struct {
    const char *key;
    unsigned int l2_mib, bus_bits;
} boards[] = {
    {"a100-40", 40, 5120},  {"a100-80", 40, 5120}, {"a30", 24, 3072},   {"h100-80", 50, 5120},
    {"h100-nvl", 50, 6016}, {"h200", 50, 6144},    {"b200", 126, 8192}, {"rtx-pro-6000", 128, 512},
    {"l4", 48, 192},        {"t4", 4, 256},
};

const struct traits *traits_of(const struct model *m)
{
    size_t count = sizeof(capabilities) / sizeof(capabilities[0]);
    for (size_t i = 0; i < count; i++) {
        if (capabilities[i].cc_major == m->cc_major && capabilities[i].cc_minor == m->cc_minor)
            return &capabilities[i];
    }
    return &capabilities[count - 1];
}

static size_t board_of(const struct model *m)
{
    size_t i = sizeof(boards) / sizeof(boards[0]) - 1;
    while (i > 0 && strcmp(boards[i].key, m->key) != 0)
        i--;
    return i;
}

size_t traits_l2_bytes(const struct model *m)
{
    return (size_t)boards[board_of(m)].l2_mib * MIB;
}

size_t traits_persisting_l2_bytes(const struct model *m)
{
    return m->cc_major >= 8 ? traits_l2_bytes(m) / 8 * 5 : 0;
}

unsigned int traits_bus_bits(const struct model *m)
{
    return boards[board_of(m)].bus_bits;
}
