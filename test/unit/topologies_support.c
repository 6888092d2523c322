/* SPDX-License-Identifier: Apache-2.0 */
#include "test/unit/topologies_support.h"

#include "base/rng.h"

static int no_numa(unsigned card)
{
    (void)card;
    return -1;
}

static int by_fours(unsigned card)
{
    return (int)(card / 4);
}

static int by_eights(unsigned card)
{
    return (int)(card / 8);
}

static struct gpu_pair pcie_tree(unsigned a, unsigned b)
{
    enum gpu_level level = a / 2 == b / 2   ? GPU_LEVEL_SWITCH
                           : a / 4 == b / 4 ? GPU_LEVEL_SWITCHES
                           : a / 8 == b / 8 ? GPU_LEVEL_NODE
                                            : GPU_LEVEL_SYSTEM;
    return (struct gpu_pair){.level = (uint8_t)level};
}

static struct gpu_pair switched(unsigned a, unsigned b)
{
    return (struct gpu_pair){.level = (uint8_t)(a / 4 == b / 4 ? GPU_LEVEL_NODE : GPU_LEVEL_SYSTEM),
                             .links = 18};
}

static struct gpu_pair switched_by_eights(unsigned a, unsigned b)
{
    return (struct gpu_pair){.level = (uint8_t)(a / 8 == b / 8 ? GPU_LEVEL_NODE : GPU_LEVEL_SYSTEM),
                             .links = 18};
}

/* Two quads, all joined within, each card to its opposite: six links a card, as in a DGX-1. */
static struct gpu_pair cube_mesh(unsigned a, unsigned b)
{
    static const uint8_t links[8][8] = {
        {0, 1, 1, 2, 2, 0, 0, 0}, {1, 0, 2, 1, 0, 2, 0, 0}, {1, 2, 0, 2, 0, 0, 1, 0},
        {2, 1, 2, 0, 0, 0, 0, 1}, {2, 0, 0, 0, 0, 1, 1, 2}, {0, 2, 0, 0, 1, 0, 2, 1},
        {0, 0, 1, 0, 1, 2, 0, 2}, {0, 0, 0, 1, 2, 1, 2, 0},
    };
    struct gpu_pair p = {.level = GPU_LEVEL_SYSTEM, .links = links[a % 8][b % 8]};
    if (a / 8 != b / 8)
        p.links = 0;
    if (a / 4 == b / 4)
        p.level = a / 2 == b / 2 ? GPU_LEVEL_SWITCH : GPU_LEVEL_HOST_BRIDGE;
    return p;
}

/* Bridges over pairs of cards, nothing else tells them apart. */
static struct gpu_pair bridged(unsigned a, unsigned b)
{
    return (struct gpu_pair){.level = GPU_LEVEL_NODE, .links = a % 4 == b % 4 ? 6 : 0};
}

static struct gpu_pair unknown(unsigned a, unsigned b)
{
    (void)a;
    (void)b;
    return (struct gpu_pair){.level = GPU_LEVEL_UNKNOWN};
}

static struct gpu_pair all_alike(unsigned a, unsigned b)
{
    (void)a;
    (void)b;
    return (struct gpu_pair){.level = GPU_LEVEL_NODE};
}

/* Each card with two links to each of its neighbours in a circle: no two can stand for each other,
 * and every set has as many equals as there are cards. */
static struct gpu_pair circle(unsigned a, unsigned b)
{
    unsigned apart = (a + 16 - b) % 16;
    return (struct gpu_pair){.level = GPU_LEVEL_NODE, .links = apart == 1 || apart == 15 ? 2 : 0};
}

/* The corners of a cube of four dimensions. */
static struct gpu_pair hypercube(unsigned a, unsigned b)
{
    return (struct gpu_pair){.level = GPU_LEVEL_NODE,
                             .links = __builtin_popcount(a ^ b) == 1 ? 1 : 0};
}

const struct machine machines_of_8[] = {
    {"NVSwitch", 8, switched, by_fours},      {"cube mesh", 8, cube_mesh, by_fours},
    {"PCIe", 8, pcie_tree, no_numa},          {"bridges", 8, bridged, by_fours},
    {"two NUMA nodes", 8, unknown, by_fours}, {"NUMA tie", 8, all_alike, by_fours},
    {"nothing known", 8, unknown, no_numa},   {.name = NULL},
};

const struct machine machines_of_16[] = {
    {"NVSwitch", 16, switched_by_eights, by_eights},
    {"two cube meshes", 16, cube_mesh, by_eights},
    {"PCIe", 16, pcie_tree, by_eights},
    {"bridges", 16, bridged, by_eights},
    {"circle", 16, circle, no_numa},
    {"hypercube", 16, hypercube, no_numa},
    {"nothing known", 16, unknown, no_numa},
    {.name = NULL},
};

const struct machine machine_of_64 = {"NVSwitch", 64, switched_by_eights, by_eights};

void machine_scores(const struct machine *m, struct card_scores *ret)
{
    struct gpu_topology t;
    int numa[GPU_MAX_CARDS];
    gpu_topology_init(&t, m->n);
    for (unsigned a = 0; a < m->n; a++) {
        numa[a] = m->numa(a);
        for (unsigned b = 0; b < a; b++)
            *gpu_topology_at(&t, a, b) = m->pair(a, b);
    }
    card_scores_init(ret, &t, numa);
    gpu_topology_done(&t);
}

void random_scores(unsigned n, unsigned bound, uint64_t seed, struct card_scores *ret)
{
    struct rng rng;
    rng_init(&rng, seed);
    *ret = (struct card_scores){.numa = {0}};
    for (unsigned a = 0; a < n; a++) {
        ret->numa[a] = (int16_t)rng_below(&rng, 2);
        for (unsigned b = 0; b < a; b++)
            ret->pair[a][b] = ret->pair[b][a] = (uint16_t)rng_below(&rng, bound);
    }
}
