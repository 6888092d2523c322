/* SPDX-License-Identifier: Apache-2.0 */
#include "nodeagent/topology_table.h"

#include <stdio.h>

enum { WORD_BYTES = 8 };

/* Two chips of one board sit below one switch. */
static const char *way_word(uint8_t level)
{
    switch ((enum gpu_level)level) {
    case GPU_LEVEL_BOARD:
    case GPU_LEVEL_SWITCH:
        return "PIX";
    case GPU_LEVEL_SWITCHES:
        return "PXB";
    case GPU_LEVEL_HOST_BRIDGE:
        return "PHB";
    case GPU_LEVEL_NODE:
        return "NODE";
    case GPU_LEVEL_SYSTEM:
        return "SYS";
    case GPU_LEVEL_UNKNOWN:
        break;
    }
    return "?";
}

static void pair_word(const struct gpu_inventory *inv, size_t a, size_t b, char ret[WORD_BYTES])
{
    struct gpu_pair p = gpu_pair_between(&inv->topology, a, b);
    if (a == b)
        (void)snprintf(ret, WORD_BYTES, "X");
    else if (p.links)
        (void)snprintf(ret, WORD_BYTES, "NV%u", p.links);
    else
        (void)snprintf(ret, WORD_BYTES, "%s", way_word(p.level));
}

static void add_row(struct sb *out, const struct gpu_inventory *inv, size_t row)
{
    sb_addf(out, "GPU%-4u", inv->cards[row].index);
    for (size_t i = 0; i < inv->n_cards; i++) {
        char word[WORD_BYTES];
        pair_word(inv, row, i, word);
        sb_addf(out, " %-6s", word);
    }
    if (inv->cards[row].numa_node < 0)
        sb_add(out, " -\n");
    else
        sb_addf(out, " %d\n", inv->cards[row].numa_node);
}

void topology_table_add(struct sb *out, const struct gpu_inventory *inv)
{
    sb_addf(out, "%7s", "");
    for (size_t i = 0; i < inv->n_cards; i++)
        sb_addf(out, " GPU%-3u", inv->cards[i].index);
    sb_add(out, " NUMA\n");
    for (size_t i = 0; i < inv->n_cards; i++)
        add_row(out, inv, i);
    sb_add(out, "\nNV#   joined by # NVLinks, straight or through switches\n"
                "PIX   below one PCIe switch          PXB   below several switches\n"
                "PHB   below one host bridge          NODE  on one NUMA node\n"
                "SYS   across NUMA nodes              ?     not known\n");
}
