/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>
#include <string.h>
#include <strings.h>

#include "base/sb.h"
#include "base/xalloc.h"

#include "nodeagent/vendor/nvidia/nvml_session.h"

/* Questions without an answer are repeated at least this often, in readings. */
#define LONGEST_PAUSE 64

/* One round of questions. Cards by index in the inventory; device NULL: not asked. */
struct survey {
    struct nvml *n;
    const struct gpu_inventory *inv;
    nvml_device device[GPU_MAX_CARDS];
    uint8_t to_switch[GPU_MAX_CARDS];              /* its NVLinks to a switch */
    uint8_t to_card[GPU_MAX_CARDS][GPU_MAX_CARDS]; /* its NVLinks to another card */
    bool settled;
};

/* True for a final answer: no link, no such call. Other return codes may change. */
static bool is_answer(nvml_ret rc)
{
    return rc == NVML_NOT_SUPPORTED || rc == NVML_FUNCTION_NOT_FOUND || rc == NVML_INVALID_ARGUMENT;
}

static enum gpu_level level_of(unsigned nvml_level)
{
    switch (nvml_level) {
    case NVML_TOPOLOGY_INTERNAL:
        return GPU_LEVEL_BOARD;
    case NVML_TOPOLOGY_SINGLE:
        return GPU_LEVEL_SWITCH;
    case NVML_TOPOLOGY_MULTIPLE:
        return GPU_LEVEL_SWITCHES;
    case NVML_TOPOLOGY_HOSTBRIDGE:
        return GPU_LEVEL_HOST_BRIDGE;
    case NVML_TOPOLOGY_NODE:
        return GPU_LEVEL_NODE;
    case NVML_TOPOLOGY_SYSTEM:
        return GPU_LEVEL_SYSTEM;
    default:
        return GPU_LEVEL_UNKNOWN;
    }
}

static enum gpu_level ask_level(struct survey *s, size_t a, size_t b)
{
    struct nvml *n = s->n;
    unsigned level = 0;
    if (!s->device[a] || !s->device[b])
        return GPU_LEVEL_UNKNOWN;
    nvml_ret rc = NVML_CALL(n, common_ancestor, s->device[a], s->device[b], &level);
    if (rc == NVML_SUCCESS)
        return level_of(level);
    s->settled = s->settled && is_answer(rc);
    return GPU_LEVEL_UNKNOWN;
}

/* The card at a bus id; n_cards: not a card of this inventory. */
static size_t card_at(const struct gpu_inventory *inv, const char *bus_id)
{
    size_t i = 0;
    while (i < inv->n_cards && strcasecmp(inv->cards[i].pci_bus_id, bus_id) != 0)
        i++;
    return i;
}

/* Drivers before 470 do not report a link's other end; one that is no card of the inventory then
 * counts as a switch. */
static void follow_link(struct survey *s, size_t card, unsigned link)
{
    struct nvml *n = s->n;
    unsigned type = NVML_NVLINK_UNKNOWN;
    struct nvml_pci_info far = {.domain = 0};
    (void)NVML_CALL(n, nvlink_remote_type, s->device[card], link, &type);
    if (type == NVML_NVLINK_SWITCH) {
        s->to_switch[card]++;
        return;
    }
    nvml_ret rc = NVML_CALL(n, nvlink_remote_pci, s->device[card], link, &far);
    if (rc != NVML_SUCCESS) {
        s->settled = s->settled && is_answer(rc);
        return;
    }
    far.busId[sizeof(far.busId) - 1] = '\0';
    size_t other = card_at(s->inv, far.busId);
    if (other < s->inv->n_cards)
        s->to_card[card][other]++;
    else if (type == NVML_NVLINK_UNKNOWN)
        s->to_switch[card]++;
}

/* A link may come up late, when the fabric manager starts. */
static void follow_links(struct survey *s, size_t card)
{
    struct nvml *n = s->n;
    for (unsigned link = 0; link < NVML_NVLINK_MAX_LINKS; link++) {
        unsigned active = 0;
        nvml_ret rc = NVML_CALL(n, nvlink_state, s->device[card], link, &active);
        if (rc == NVML_SUCCESS && active)
            follow_link(s, card, link);
        else
            s->settled = s->settled && is_answer(rc);
    }
}

/* One end of a link may report more than the other. Through switches, each pair is connected by all
 * links that both cards have. */
static uint8_t links_between(const struct survey *s, size_t a, size_t b)
{
    uint8_t out = s->to_card[a][b];
    uint8_t back = s->to_card[b][a];
    uint8_t straight = out > back ? out : back;
    uint8_t switched = s->to_switch[a] < s->to_switch[b] ? s->to_switch[a] : s->to_switch[b];
    return (uint8_t)(straight + switched);
}

/* True when the card can have NVLinks. MIG switches them off (NVIDIA's MIG user guide: no peer
 * access, PCIe or NVLink). */
static bool has_links(const struct survey *s, size_t card)
{
    return s->device[card] && s->inv->cards[card].mode == GPU_NATIVE;
}

static void ask_pairs(struct survey *s, struct gpu_topology *ret)
{
    for (size_t i = 0; i < s->inv->n_cards; i++)
        if (has_links(s, i))
            follow_links(s, i);
    for (size_t a = 0; a < s->inv->n_cards; a++) {
        for (size_t b = 0; b < a; b++) {
            struct gpu_pair *p = gpu_topology_at(ret, a, b);
            p->level = (uint8_t)ask_level(s, a, b);
            p->links = has_links(s, a) && has_links(s, b) ? links_between(s, a, b) : 0;
        }
    }
}

static void ask_all(struct nvml *n, const struct gpu_inventory *inv)
{
    struct nvml_topology *t = &n->topology;
    struct survey s = {.n = n, .inv = inv, .settled = true};
    assert(inv->n_cards <= ARRAY_LEN(s.device));
    for (size_t i = 0; i < inv->n_cards; i++) {
        if (!inv->cards[i].unread)
            s.device[i] = nvml_facts_device(n, inv->cards[i].uuid);
    }
    struct gpu_topology pairs;
    gpu_topology_init(&pairs, inv->n_cards);
    if (inv->n_cards > 1)
        ask_pairs(&s, &pairs);
    t->settled = s.settled;
    HOLD(&n->holds.mu);
    gpu_topology_done(&t->pairs);
    t->pairs = pairs;
}

/* The facts on which the answers depend, as text. */
static char *describe(const struct nvml *n, const struct gpu_inventory *inv)
{
    auto_sb struct sb text = SB_INIT(GPU_MAX_CARDS * (GPU_UUID_BYTES + 8) + 32);
    sb_addf(&text, "%u", n->session);
    for (size_t i = 0; i < inv->n_cards; i++) {
        const struct gpu_card *c = &inv->cards[i];
        sb_addf(&text, " %s%s", c->unread ? "!" : c->mode == GPU_MIG ? "/" : "", c->uuid);
    }
    return sb_take(&text);
}

static bool is_due(struct nvml_topology *t, const char *now)
{
    if (!t->of || strcmp(t->of, now) != 0) {
        t->pause = 1;
        return true;
    }
    assert(t->settled || (t->left > 0 && t->left <= LONGEST_PAUSE));
    if (t->settled || --t->left > 0)
        return false;
    t->pause = t->pause < LONGEST_PAUSE ? 2 * t->pause : LONGEST_PAUSE;
    return true;
}

/* With a card that another thread works on, nothing is asked: the answers would depend on what that
 * thread does. */
static bool may_ask(struct nvml *n, const struct gpu_inventory *inv)
{
    for (size_t i = 0; i < inv->n_cards; i++)
        if (inv->cards[i].busy)
            return false;
    HOLD(&n->holds.mu);
    bool mine = !n->topology.asked;
    n->topology.asked = true;
    return mine;
}

static void ask_when_due(struct nvml *n, const struct gpu_inventory *inv)
{
    struct nvml_topology *t = &n->topology;
    auto_free char *now = describe(n, inv);
    if (is_due(t, now)) {
        ask_all(n, inv);
        free(t->of);
        t->of = TAKE(now);
        t->left = t->pause;
    }
    HOLD(&n->holds.mu);
    t->asked = false;
}

void nvml_topology_read(struct nvml *n, struct gpu_inventory *inv)
{
    const struct gpu_topology *last = &n->topology.pairs;
    if (may_ask(n, inv))
        ask_when_due(n, inv);
    HOLD(&n->holds.mu);
    if (last->n_cards == inv->n_cards)
        inv->topology = gpu_topology_copy(last);
    else
        gpu_topology_init(&inv->topology, inv->n_cards);
}
