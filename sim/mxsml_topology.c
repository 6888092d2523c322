/* SPDX-License-Identifier: Apache-2.0 */
/*
 * MXSML: MetaXLink, NUMA and PCIe topology. Contracts are MXSML's own.
 *
 * The machine: cards of a group are joined by MetaXLink, each with every other; cards of one NUMA
 * node hang on host bridges of it; each node has an equal range of CPUs.
 */
#include <limits.h>
#include <string.h>

#include "sim/metax.h"
#include "sim/mxsml_session.h"

static unsigned int group_size(const struct hw *hw, const struct mx_card *card)
{
    unsigned int size = 0;
    for (uint32_t i = 0; card->group != 0 && i < hw->mx_count; i++)
        size += hw->mx_cards[i].group == card->group;
    return size;
}

static unsigned int level_between(const struct hw *hw, uint32_t a, uint32_t b)
{
    const struct mx_card *x = &hw->mx_cards[a];
    const struct mx_card *y = &hw->mx_cards[b];
    if (a == b)
        return MXSML_TOPOLOGY_INTERNAL;
    if (x->group != 0 && x->group == y->group)
        return MXSML_TOPOLOGY_METAXLINK;
    return x->numa == y->numa ? MXSML_TOPOLOGY_NUMA_NODE : MXSML_TOPOLOGY_SYSTEM;
}

/* Assumed: the values of the kernel's tables of such cards: a link's hop weighs 15, a node's bus
 * 20, and the path through the other node 52. */
static unsigned int distance_between(const struct hw *hw, uint32_t a, uint32_t b)
{
    switch (level_between(hw, a, b)) {
    case MXSML_TOPOLOGY_INTERNAL:
        return 0;
    case MXSML_TOPOLOGY_METAXLINK:
        return 15;
    case MXSML_TOPOLOGY_NUMA_NODE:
        return 20;
    default:
        return 52;
    }
}

typedef unsigned int between_fn(const struct hw *hw, uint32_t a, uint32_t b);

static unsigned int ask_between(unsigned int call, unsigned int a, unsigned int b, between_fn *ask,
                                unsigned int *ret)
{
    struct mx_device other = {0};
    struct mx_call c = {.id = call};
    int rc = mx_enter(&c, a, MX_ON_DEVICE);
    struct mx_inventory inv = mx_inventory();
    bool known = mx_device_at(&inv, b, &other);
    if (rc == MXSML_SUCCESS && (!known || other.metax >= c.hw->mx_count))
        rc = MXSML_INVALID_DEVICE_ID;
    if (rc == MXSML_SUCCESS && ret == NULL)
        rc = MXSML_INVALID_INPUT;
    if (rc == MXSML_SUCCESS)
        *ret = ask(c.hw, c.metax, other.metax);
    return mx_leave(&c, rc);
}

unsigned int mxSmlGetDeviceTopology(unsigned int a, unsigned int b, unsigned int *level)
{
    return ask_between(CALL_mxSmlGetDeviceTopology, a, b, level_between, level);
}

unsigned int mxSmlGetDeviceDistance(unsigned int a, unsigned int b, unsigned int *distance)
{
    return ask_between(CALL_mxSmlGetDeviceDistance, a, b, distance_between, distance);
}

/* Links are distributed over the other cards of the group in turn; the remaining ones have no
 * peer. */
static unsigned int links_in_use(const struct hw *hw, const struct mx_card *card)
{
    unsigned int others = group_size(hw, card);
    others = others > 0 ? others - 1 : 0;
    return others > 0 ? MXSML_MAX_LINKS / others * others : 0;
}

/* Assumed: the speed and width of an active link; of an inactive one both are 0. */
unsigned int mxSmlGetMetaXLinkInfo_v2(unsigned int dev, unsigned int *number,
                                      struct mxsml_link *links)
{
    struct mx_call c = {.id = CALL_mxSmlGetMetaXLinkInfo_v2};
    int rc = mx_enter(&c, dev, MX_ON_DEVICE);
    if (rc == MXSML_SUCCESS && number == NULL)
        rc = MXSML_INVALID_INPUT;
    if (rc == MXSML_SUCCESS && *number < MXSML_MAX_LINKS) {
        *number = MXSML_MAX_LINKS;
        rc = MXSML_INSUFFICIENT_SIZE;
    }
    if (rc == MXSML_SUCCESS && links == NULL)
        rc = MXSML_INVALID_INPUT;
    if (rc == MXSML_SUCCESS) {
        unsigned int up = links_in_use(c.hw, c.card);
        *number = MXSML_MAX_LINKS;
        for (unsigned int i = 0; i < MXSML_MAX_LINKS; i++)
            links[i] =
                i < up ? (struct mxsml_link){.speed = 32.0F, .lanes = 16} : (struct mxsml_link){0};
    }
    return mx_leave(&c, rc);
}

/* The card at that position of a group. */
static uint32_t at_place(const struct hw *hw, uint32_t group, uint32_t place)
{
    for (uint32_t i = 0; i < hw->mx_count; i++) {
        if (hw->mx_cards[i].group == group && hw->mx_cards[i].place == place)
            return i;
    }
    return HW_NONE;
}

static uint32_t peer_of(const struct mx_call *c, unsigned int link)
{
    unsigned int size = group_size(c->hw, c->card);
    if (link == 0 || link > links_in_use(c->hw, c->card))
        return HW_NONE;
    unsigned int hop = 1 + (link - 1) % (size - 1);
    return at_place(c->hw, c->card->group, (c->card->place + hop) % size);
}

/* Links count from 1, as in the output of MetaX's own samples. */
unsigned int mxSmlGetMetaXLinkRemoteInfo(unsigned int dev, unsigned int link,
                                         struct mxsml_link_remote *remote)
{
    struct mx_call c = {.id = CALL_mxSmlGetMetaXLinkRemoteInfo};
    int rc = mx_enter(&c, dev, MX_ON_DEVICE);
    uint32_t peer = rc == MXSML_SUCCESS ? peer_of(&c, link) : HW_NONE;
    if (rc == MXSML_SUCCESS && (remote == NULL || link > MXSML_MAX_LINKS))
        rc = MXSML_INVALID_INPUT;
    if (rc == MXSML_SUCCESS && peer == HW_NONE)
        rc = MXSML_NO_DEVICE;
    if (rc == MXSML_SUCCESS) {
        struct mx_inventory inv = mx_inventory();
        *remote = (struct mxsml_link_remote){.device_id = (int)mx_index_of(&inv, peer)};
        mx_bdf(&c.hw->mx_cards[peer], HW_NONE, remote->bdf_id, sizeof(remote->bdf_id));
    }
    return mx_leave(&c, rc);
}

/* Assumed: groups count from 1 and 0 is none; a card is a socket of its group, with one die. */
unsigned int mxSmlGetMetaXLinkTopo(unsigned int dev, struct mxsml_link_topo *topo)
{
    struct mx_call c = {.id = CALL_mxSmlGetMetaXLinkTopo};
    int rc = mx_enter(&c, dev, MX_ON_DEVICE);
    if (rc == MXSML_SUCCESS && topo == NULL)
        rc = MXSML_INVALID_INPUT;
    if (rc == MXSML_SUCCESS)
        *topo = (struct mxsml_link_topo){.topology_id = c.card->group, .socket_id = c.card->place};
    return mx_leave(&c, rc);
}

static unsigned int nodes_of(const struct hw *hw)
{
    return hw->numa_nodes > 0 ? hw->numa_nodes : 1;
}

/* Assumed: CPUs beyond the given words are left out. */
static unsigned int affinity(unsigned int call, unsigned int dev, unsigned int words,
                             unsigned int *mask)
{
    static const unsigned int width = sizeof(*mask) * CHAR_BIT;
    struct mx_call c = {.id = call};
    int rc = mx_enter(&c, dev, MX_ON_DEVICE);
    if (rc == MXSML_SUCCESS && (mask == NULL || words == 0 || words > 1024))
        rc = MXSML_INVALID_INPUT;
    if (rc == MXSML_SUCCESS) {
        unsigned int each = call == CALL_mxSmlGetCpuAffinity ? c.hw->cpus / nodes_of(c.hw) : 1;
        unsigned int first = c.card->numa * each;
        memset(mask, 0, words * sizeof(*mask));
        for (unsigned int bit = first; bit < first + each && bit / width < words; bit++)
            mask[bit / width] |= 1U << bit % width;
    }
    return mx_leave(&c, rc);
}

unsigned int mxSmlGetNodeAffinity(unsigned int dev, unsigned int words, unsigned int *mask)
{
    return affinity(CALL_mxSmlGetNodeAffinity, dev, words, mask);
}

unsigned int mxSmlGetCpuAffinity(unsigned int dev, unsigned int words, unsigned int *mask)
{
    return affinity(CALL_mxSmlGetCpuAffinity, dev, words, mask);
}
