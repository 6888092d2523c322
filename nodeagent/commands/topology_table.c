/* SPDX-License-Identifier: Apache-2.0 */
#include "nodeagent/commands/topology_table.h"

#include <stdio.h>
#include <string.h>

#include "base/auto.h"

enum { WORD_BYTES = 8, NAME_BYTES = 32 };

/* The abbreviations of a vendor's own links in nvidia-smi and mx-smi. */
static const struct {
    const char *vendor, *word, *legend;
    bool counted; /* the library reports their number */
} links[] = {
    {"nvidia", "NV", "NV#   joined by # NVLinks, straight or through switches\n", true},
    {"metax", "MX", "MX    joined by MetaXLink\n", false},
    {NULL, "LNK", "LNK   joined by the vendor's own links\n", false},
};

static size_t links_of(const char *vendor)
{
    size_t i = 0;
    while (links[i].vendor && strcmp(links[i].vendor, vendor) != 0)
        i++;
    return i;
}

/* True with cards of several vendors, each of which counts its cards from 0. */
static bool is_mixed(const struct gpu_inventory *inv)
{
    for (size_t i = 1; i < inv->n_cards; i++)
        if (strcmp(inv->cards[i].vendor, inv->cards[0].vendor) != 0)
            return true;
    return false;
}

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
    size_t l = links_of(inv->cards[a].vendor);
    if (a == b)
        (void)snprintf(ret, WORD_BYTES, "X");
    else if (p.links && links[l].counted)
        (void)snprintf(ret, WORD_BYTES, "%s%u", links[l].word, p.links);
    else
        (void)snprintf(ret, WORD_BYTES, "%s", p.links ? links[l].word : way_word(p.level));
}

static void card_name(const struct gpu_inventory *inv, size_t i, char ret[NAME_BYTES])
{
    const struct gpu_card *c = &inv->cards[i];
    (void)snprintf(ret, NAME_BYTES, "%s%u", is_mixed(inv) ? c->vendor : "GPU", c->index);
}

static void add_row(struct sb *out, const struct gpu_inventory *inv, size_t row, int width)
{
    char name[NAME_BYTES];
    card_name(inv, row, name);
    sb_addf(out, "%-*s", width + 1, name);
    for (size_t i = 0; i < inv->n_cards; i++) {
        char word[WORD_BYTES];
        pair_word(inv, row, i, word);
        sb_addf(out, " %-*s", width, word);
    }
    if (inv->cards[row].numa_node < 0)
        sb_add(out, " -\n");
    else
        sb_addf(out, " %d\n", inv->cards[row].numa_node);
}

static void add_legend(struct sb *out, const struct gpu_inventory *inv)
{
    bool said[ARRAY_LEN(links)] = {false};
    sb_add(out, "\n");
    for (size_t i = 0; i < inv->n_cards; i++) {
        size_t l = links_of(inv->cards[i].vendor);
        if (!said[l])
            sb_add(out, links[l].legend);
        said[l] = true;
    }
    sb_add(out, "PIX   below one PCIe switch          PXB   below several switches\n"
                "PHB   below one host bridge          NODE  on one NUMA node\n"
                "SYS   across NUMA nodes              ?     not known\n");
}

void topology_table_add(struct sb *out, const struct gpu_inventory *inv)
{
    int width = is_mixed(inv) ? 9 : 6;
    sb_addf(out, "%*s", width + 1, "");
    for (size_t i = 0; i < inv->n_cards; i++) {
        char name[NAME_BYTES];
        card_name(inv, i, name);
        sb_addf(out, " %-*s", width, name);
    }
    sb_add(out, " NUMA\n");
    for (size_t i = 0; i < inv->n_cards; i++)
        add_row(out, inv, i, width);
    add_legend(out, inv);
}
