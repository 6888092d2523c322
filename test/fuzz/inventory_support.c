/* SPDX-License-Identifier: Apache-2.0 */
#include "test/fuzz/inventory_support.h"

#include <assert.h>
#include <string.h>

#include "base/xalloc.h"

#include "nodeagent/gpu/sound.h"
#include "nodeagent/gpu/telemetry.h"
#include "nodeagent/report/node_status.h"

static void check_part_names(const struct gpu_card *c)
{
    for (unsigned i = 0; i < c->n_partitions; i++) {
        const struct gpu_partition *p = &c->partitions[i];
        ENDS(p->uuid);
        assert(!p->uuid[0] || sound_is_part_name(p->uuid));
        assert(p->instance < c->state.n && p->ci < c->state.items[p->instance].n_cis);
        assert(p->gi_id == c->state.items[p->instance].gi_id);
        assert(p->ci_id == c->state.items[p->instance].cis[p->ci].id);
        for (unsigned k = 0; k < i; k++)
            assert(!p->uuid[0] || strcmp(p->uuid, c->partitions[k].uuid) != 0);
    }
}

static void check_instances(const struct gpu_card *c)
{
    assert(mig_table_check(&c->mig, NULL) == 0);
    assert(c->state.n <= MIG_MAX_INSTANCES && c->n_partitions <= GPU_MAX_PARTITIONS);
    for (unsigned i = 0; i < c->state.n; i++) {
        const struct mig_instance *in = &c->state.items[i];
        assert(in->profile < c->mig.n_profiles && in->n_cis <= MIG_MAX_CIS);
        assert(in->size > 0 && in->start + in->size <= MIG_MAX_MEMORY_SLICES);
        for (unsigned k = 0; k < i; k++)
            assert(c->state.items[k].gi_id != in->gi_id);
    }
    check_part_names(c);
}

static void check_slices(const struct gpu_card *c)
{
    assert(c->sgpu.n <= SGPU_MAX_SLICES && c->n_vfs <= GPU_MAX_VFS);
    for (unsigned i = 0; i < c->sgpu.n; i++) {
        ENDS(c->slices[i].uuid);
        ENDS(c->slices[i].alias);
        assert(c->sgpu.items[i].quota.compute_percent <= 100);
    }
    for (unsigned i = 0; i < c->n_vfs; i++) {
        ENDS(c->vfs[i].uuid);
        ENDS(c->vfs[i].pci_bus_id);
        ENDS(c->vfs[i].unhealthy_message);
    }
}

static void check_processes(const struct gpu_card *c)
{
    assert(c->n_users <= GPU_MAX_PROCESSES && !c->n_users == !c->users);
    for (unsigned i = 0; i < c->n_users; i++) {
        ENDS(c->users[i].name);
        assert(c->users[i].pid != 0 && c->users[i].part >= -1);
    }
}

void check_card(const struct gpu_card *c)
{
    ENDS(c->uuid);
    ENDS(c->model);
    ENDS(c->pci_bus_id);
    ENDS(c->pcie_root);
    ENDS(c->fabric);
    ENDS(c->unhealthy_reason);
    ENDS(c->unhealthy_message);
    assert(!c->uuid[0] || sound_is_name(c->uuid));
    assert(!c->pci_bus_id[0] || sound_is_bus_id(c->pci_bus_id));
    assert(!c->unread || !c->healthy);
    assert(c->memory_mib <= MIG_MAX_MEMORY_MIB);
    check_instances(c);
    check_slices(c);
    check_processes(c);
}

/* As the agent publishes it. */
static void check_status(const struct gpu_inventory *inv)
{
    auto_free struct card_view *views = xcalloc(inv->n_cards, sizeof(*views));
    for (size_t i = 0; i < inv->n_cards; i++) {
        views[i].card = inv->cards[i];
        views[i].pods = xcalloc(inv->cards[i].n_users, sizeof(*views[i].pods));
    }
    const struct device_spec spec = {0};
    const struct node_state state = {.inventory = inv,
                                     .cards = views,
                                     .n_cards = inv->n_cards,
                                     .spec = &spec,
                                     .spec_seen = true,
                                     .agent_version = "v1"};
    auto_node_offer struct node_offer offer;
    auto_device_status struct device_status made = {0};
    auto_device_status struct device_status got = {0};
    node_offer_build(&state, /* now_ms= */ 1700000000000, &offer);
    node_status_build(&state, &offer, /* prev= */ NULL, /* now_ms= */ 1700000000000, &made);
    auto_json json_t *obj = json_pack("{s:o}", "status", device_status_encode(&made));
    auto_err struct err e = {0};
    if (device_status_decode(obj, &got, &e) < 0)
        fprintf(stderr, "%s\n", err_msg(&e));
    assert(!e.kind);
    for (size_t i = 0; i < inv->n_cards; i++)
        free(views[i].pods);
}

void check_inventory(const struct gpu_inventory *inv)
{
    assert(inv->n_cards <= GPU_MAX_CARDS && inv->n_drivers <= GPU_MAX_VENDORS);
    ENDS(inv->drivers[0].version);
    ENDS(inv->drivers[0].cuda_version);
    for (size_t i = 0; i < inv->n_cards; i++) {
        check_card(&inv->cards[i]);
        for (size_t k = 0; k < i; k++)
            assert(!inv->cards[i].uuid[0] || strcmp(inv->cards[i].uuid, inv->cards[k].uuid) != 0);
    }
    check_status(inv);
}

void check_measure(struct gpu *g, const char *uuid)
{
    static struct telemetry_card card;
    if (g->ops->measure(g, uuid, TELEMETRY_ALL, &card, NULL) < 0)
        return;
    assert(card.n_parts <= TELEMETRY_MAX_PARTS && card.n_processes <= TELEMETRY_MAX_PROCESSES);
    assert(!(card.values.of[TELEMETRY_UTILIZATION] > 100));
    assert(!(card.values.of[TELEMETRY_MEMORY_USED] > card.values.of[TELEMETRY_MEMORY_TOTAL]));
    for (size_t i = 0; i < TELEMETRY_VALUES; i++)
        assert(!(card.values.of[i] < 0));
}
