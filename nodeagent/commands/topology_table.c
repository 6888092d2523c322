/* SPDX-License-Identifier: Apache-2.0 */
#include "nodeagent/commands/topology_table.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "base/auto.h"

#include "nodeagent/vendor/vendors.h"

enum { WORD_BYTES = 8, NAME_BYTES = 32 };

/* Cards of a vendor without words of its own for their links. */
static const struct vendor_links plain = {"LNK", "LNK   joined by the vendor's own links\n", false};

static const struct vendor_links *links_of(const char *vendor)
{
    const struct vendor_backend *b = vendor_backend_find(vendor);
    return b && b->links ? b->links : &plain;
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
    const struct vendor_links *l = links_of(inv->cards[a].vendor);
    if (a == b)
        (void)snprintf(ret, WORD_BYTES, "X");
    else if (p.links && l->counted)
        (void)snprintf(ret, WORD_BYTES, "%s%u", l->abbreviation, p.links);
    else
        (void)snprintf(ret, WORD_BYTES, "%s", p.links ? l->abbreviation : way_word(p.level));
}

static void card_name(const struct gpu_inventory *inv, size_t i, char ret[NAME_BYTES])
{
    const struct gpu_card *c = &inv->cards[i];
    (void)snprintf(ret, NAME_BYTES, "%s%u", is_mixed(inv) ? c->vendor : "GPU", c->index);
}

static void add_row(struct sb *out, const struct gpu_inventory *inv, size_t row, int width)
{
    assert(row < inv->n_cards && width >= 0);
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

static bool is_first_of(const struct gpu_inventory *inv, size_t card)
{
    const struct vendor_links *l = links_of(inv->cards[card].vendor);
    for (size_t i = 0; i < card; i++)
        if (links_of(inv->cards[i].vendor) == l)
            return false;
    return true;
}

static void add_legend(struct sb *out, const struct gpu_inventory *inv)
{
    sb_add(out, "\n");
    for (size_t i = 0; i < inv->n_cards; i++)
        if (is_first_of(inv, i))
            sb_add(out, links_of(inv->cards[i].vendor)->legend);
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
