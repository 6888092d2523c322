/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "base/auto.h"
#include "base/sb.h"
#include "base/xalloc.h"
#include "base/yaml.h"

#include "gpu_fake_support.h"
#include "nodeagent/container/container_vendor.h"
#include "nodeagent/container/slot_pool.h"
#include "nodeagent/offer/card_holders.h"
#include "nodeagent/offer/node_offer.h"
#include "nodeagent/offer/plugin_config_build.h"
#include "nodeagent/vendor/metax/container_metax.h"

static const unsigned whole_1g[] = {1, 0};
static const unsigned whole_3g[] = {3, 0};
static const unsigned thirds[] = {1, 1, 1, 0};

struct node {
    struct fake_hw hw;
    struct gpu_inventory inventory;
    struct card_view views[FAKE_MAX_CARDS];
    struct device_spec spec;
    struct node_state state;
};

static void node_done(struct node *n)
{
    for (size_t i = 0; i < FAKE_MAX_CARDS; i++)
        card_view_done(&n->views[i]);
    device_spec_done(&n->spec);
}

AUTO_DEFINE(node, struct node, node_done)
#define auto_node AUTO(node)

static void node_init_with(struct node *n, enum fake_model model, unsigned n_cards,
                           const char *spec)
{
    auto_json json_t *doc = NULL;
    auto_err struct err e = {0};
    *n = (struct node){0};
    cr_assert_eq(yaml_load(spec, strlen(spec), &doc, &e), 0, "%s", err_msg(&e));
    cr_assert_eq(device_spec_decode(doc, &n->spec, &e), 0, "%s", err_msg(&e));
    for (unsigned i = 0; i < n_cards; i++)
        fake_add(&n->hw, model);
}

static void node_init(struct node *n, unsigned n_cards, const char *spec)
{
    node_init_with(n, FAKE_H100, n_cards, spec);
}

static void node_read(struct node *n)
{
    auto_gpu struct gpu *g = gpu_fake_open(&n->hw);
    cr_assert_eq(g->ops->read(g, &n->inventory, NULL), 0);
    for (size_t i = 0; i < n->inventory.n_cards; i++)
        n->views[i].card = n->inventory.cards[i];
    free(TAKE(n->inventory.cards));
    n->state = (struct node_state){
        .inventory = &n->inventory,
        .cards = n->views,
        .n_cards = n->inventory.n_cards,
        .spec = &n->spec,
        .spec_seen = true,
        .means.publisher = API_PUBLISHER_KUBELET,
    };
    n->inventory.n_cards = 0;
}

static void cut(struct node *n, unsigned card)
{
    struct gpu_card *c = &n->hw.cards[card].card;
    c->mode = c->pending_mode = GPU_MIG;
}

static void build(const struct node_state *s, struct device_table *ret)
{
    struct node_offer o;
    node_offer_build(s, /* now_ms= */ 0, &o);
    *ret = o.table;
    o.table = (struct device_table){0};
    node_offer_done(&o);
}

/* "nvidia.com/gpu: GPU-…a! GPU-…b x4": each resource on a line, '!' what may not be granted. */
static void check(struct node *n, const char *expected)
{
    auto_sb struct sb text = SB_INIT(4096);
    struct device_table t;
    build(&n->state, &t);
    for (size_t i = 0; i < t.n_resources; i++) {
        sb_addf(&text, "%s:", t.resources[i].name);
        for (size_t k = 0; k < t.resources[i].n_devices; k++) {
            const struct table_device *d = &t.resources[i].devices[k];
            sb_addf(&text, " %s%s", d->id, d->healthy ? "" : "!");
            if (d->replicas > 1)
                sb_addf(&text, " x%d", (int)d->replicas);
            cr_expect_lt(strlen(d->id) + strlen("::255"), 63 + 1, "the API's bound on an id");
        }
        sb_add(&text, "\n");
    }
    cr_expect_str_eq(sb_str(&text), expected);
    device_table_done(&t);
}

#define A "GPU-00000000-fake"
#define B "GPU-00000001-fake"

Test(device_table, partitions_are_named_by_card_profile_and_place)
{
    auto_node struct node n;
    node_init(&n, 2, "spec: {}");
    cut(&n, 0);
    fake_put(&n.hw.cards[0], "1g.10gb", 6, whole_1g);
    fake_put(&n.hw.cards[0], "1g.10gb", 0, whole_1g);
    fake_put(&n.hw.cards[0], "1g.10gb+me", 5, whole_1g);
    node_read(&n);
    check(&n, "nvidia.com/gpu: " B "\n"
              "nvidia.com/mig-1g.10gb: " A "/1g.10gb@0 " A "/1g.10gb@6\n"
              "nvidia.com/mig-1g.10gb.me: " A "/1g.10gb+me@5\n");
}

Test(device_table, compute_instances_apart_are_told_apart)
{
    auto_node struct node n;
    node_init(&n, 1, "spec: {}");
    cut(&n, 0);
    fake_put(&n.hw.cards[0], "3g.40gb", 4, thirds);
    node_read(&n);
    check(&n, "nvidia.com/mig-1c.3g.40gb: " A "/1c.3g.40gb@4.0 " A "/1c.3g.40gb@4.1 " A
              "/1c.3g.40gb@4.2\n");
}

/* Not its place among those that are offered, nor the order of our reading. */
Test(device_table, partitions_keep_the_index_that_the_driver_knows_them_by)
{
    auto_node struct node n;
    auto_device_table struct device_table t = {0};
    node_init(&n, 1, "spec: {}");
    cut(&n, 0);
    fake_put(&n.hw.cards[0], "1g.10gb", 6, whole_1g);
    fake_put(&n.hw.cards[0], "3g.40gb", 0, whole_3g);
    node_read(&n);
    n.views[0].card.partitions[0].mig_index = 1;
    n.views[0].card.partitions[1].mig_index = 0;
    build(&n.state, &t);
    cr_assert_eq(t.n_resources, 2);
    cr_expect_str_eq(t.resources[0].devices[0].id, A "/1g.10gb@6");
    cr_expect_eq(t.resources[0].devices[0].entry.mig_index, 1);
    cr_expect_eq(t.resources[1].devices[0].entry.mig_index, 0);
}

Test(device_table, card_that_is_to_be_cut_stays_listed_and_is_not_granted)
{
    auto_node struct node n;
    node_init(&n, 1,
              "spec: {devices: [{uuid: " A ", mode: mig, mig: {profiles: [{profile: 3g.40gb, "
              "count: 1}]}}]}");
    node_read(&n);
    check(&n, "nvidia.com/gpu: " A "!\n");
}

Test(device_table, sick_partition_is_not_granted_and_its_neighbour_is)
{
    auto_node struct node n;
    node_init(&n, 1, "spec: {}");
    cut(&n, 0);
    fake_put(&n.hw.cards[0], "3g.40gb", 0, whole_3g);
    fake_put(&n.hw.cards[0], "3g.40gb", 4, whole_3g);
    node_read(&n);
    n.views[0].card.partitions[0].healthy = false;
    check(&n, "nvidia.com/mig-3g.40gb: " A "/3g.40gb@0! " A "/3g.40gb@4\n");
}

Test(device_table, single_names_partitions_as_cards)
{
    auto_node struct node n;
    node_init(&n, 1, "spec: {migStrategy: single}");
    cut(&n, 0);
    fake_put(&n.hw.cards[0], "3g.40gb", 4, whole_3g);
    node_read(&n);
    check(&n, "nvidia.com/gpu: " A "/3g.40gb@4\n");
}

Test(device_table, single_keeps_its_name_while_all_is_cut_anew)
{
    static const struct busy_card busy = {.uuid = A, .changes = true};
    auto_node struct node n;
    auto_node_offer struct node_offer o;
    node_init(&n, 1, "spec: {migStrategy: single}");
    cut(&n, 0);
    fake_put(&n.hw.cards[0], "3g.40gb", 4, whole_3g);
    node_read(&n);
    n.state.busy = &busy;
    n.state.n_busy = 1;
    node_offer_build(&n.state, 0, &o);
    cr_expect_not(o.mixed_instead_of_single);
    check(&n, "nvidia.com/gpu: " A "/3g.40gb@4!\n");
}

/* A job for slots may have a card in hand that is being drained. */
Test(device_table, a_job_that_changes_no_layout_puts_nothing_back_on_offer)
{
    static const struct busy_card busy = {.uuid = A, .offer = {.whole = true}};
    auto_node struct node n;
    node_init(&n, 1, "spec: {}");
    node_read(&n);
    n.state.busy = &busy;
    n.state.n_busy = 1;
    check(&n, "nvidia.com/gpu: " A "\n");
    n.views[0].outdated = true;
    check(&n, "nvidia.com/gpu: " A "!\n");
}

Test(device_table, shared_cards_may_have_a_name_of_their_own)
{
    auto_node struct node n;
    node_init(&n, 2,
              "spec: {devices: [{uuid: " A ", mode: native, sharing: {timeSlicing: {replicas: 4, "
              "renameByDefault: true}}}]}");
    node_read(&n);
    check(&n, "nvidia.com/gpu: " B "\nnvidia.com/gpu.shared: " A " x4\n");
}

Test(device_table, configuration_of_nvidias_plugin_decides_over_what_no_source_governs)
{
    static const char file[] =
        "sharing: {timeSlicing: {renameByDefault: true, resources: [{name: nvidia.com/gpu, "
        "replicas: 3}, {name: nvidia.com/mig-3g.40gb, replicas: 2}]}}";
    const struct plugin_config_source src = {.file_text = file, .file_bytes = strlen(file)};
    auto_plugin_config struct plugin_config config = {0};
    auto_node struct node n;
    cr_assert_eq(plugin_config_build(&src, &config, NULL), 0);
    node_init(&n, 3,
              "spec: {devices: [{uuid: " B ", mode: native, source: {kind: GPUProfile, name: p, "
              "generation: 1}}]}");
    cut(&n, 0);
    fake_put(&n.hw.cards[0], "3g.40gb", 4, whole_3g);
    node_read(&n);
    n.state.config = &config;
    check(&n, "nvidia.com/gpu: " B "\n"
              "nvidia.com/gpu.shared: GPU-00000002-fake x3\n"
              "nvidia.com/mig-3g.40gb.shared: " A "/3g.40gb@4 x2\n");
}

Test(device_table, what_mps_shares_is_told_with_the_memory_to_be_shared)
{
    auto_node struct node n;
    struct device_table t;
    node_init(&n, 2,
              "spec: {devices: [{uuid: " A ", mode: mig, sharing: {mps: {replicas: 2}}, mig: "
              "{profiles: [{profile: 3g.40gb, count: 1}]}}]}");
    cut(&n, 0);
    fake_put(&n.hw.cards[0], "3g.40gb", 4, whole_3g);
    node_read(&n);
    build(&n.state, &t);
    const struct table_resource *half = device_table_resource(&t, "nvidia.com/mig-3g.40gb");
    const struct table_resource *whole = device_table_resource(&t, "nvidia.com/gpu");
    cr_assert(half && whole && half->n_devices == 1 && whole->n_devices == 1);
    cr_expect(half->devices[0].mps && half->devices[0].replicas == 2);
    cr_expect(half->devices[0].memory_mib > 0 && half->devices[0].memory_mib < 80 * 1024);
    cr_expect_not(whole->devices[0].mps);
    device_table_done(&t);
}

/* One pod that was given this. */
static void hold(struct node *n, struct holders *h, const char *id, const char *resource)
{
    struct holder *items = NULL;
    size_t n_items = 0;
    *XPUSH(items, n_items) = (struct holder){
        .id = xstrdup(id),
        .ns = xstrdup("team"),
        .pod = xstrdup("pod-1"),
        .container = xstrdup("main"),
        .resource = xstrdup(resource),
    };
    (void)holders_list(h, items, n_items, 1);
    n->state.holders = h;
}

static void check_held(const char *spec, const char *id, const char *resource, const char *expected)
{
    auto_node struct node n;
    auto_holders struct holders h = {0};
    node_init(&n, 1, spec);
    cut(&n, 0);
    fake_put(&n.hw.cards[0], "3g.40gb", 4, whole_3g);
    node_read(&n);
    hold(&n, &h, id, resource);
    check(&n, expected);
}

Test(device_table, what_is_held_under_another_name_is_not_given_twice)
{
    static const char single[] = "spec: {migStrategy: single}";
    check_held(single, A "/3g.40gb@4", "nvidia.com/gpu", "nvidia.com/gpu: " A "/3g.40gb@4\n");
    check_held(single, A "/3g.40gb@4", "nvidia.com/mig-3g.40gb",
               "nvidia.com/gpu: " A "/3g.40gb@4!\n");
}

Test(device_table, parts_of_what_is_held_as_a_whole_are_not_given_and_the_other_way_round)
{
    check_held("spec: {}", A, "nvidia.com/gpu", "nvidia.com/mig-3g.40gb: " A "/3g.40gb@4!\n");
    check_held("spec: {migStrategy: none}", A "/3g.40gb@4", "nvidia.com/mig-3g.40gb",
               "nvidia.com/gpu: " A "!\n");
}

Test(device_table, what_is_held_alone_is_not_shared_and_the_other_way_round)
{
    static const char shared[] =
        "spec: {devices: [{uuid: " A ", mode: mig, mig: {profiles: [{profile: 3g.40gb, count: 1}]},"
        " sharing: {timeSlicing: {replicas: 2}}}]}";
    static const char name[] = "nvidia.com/mig-3g.40gb";
    check_held(shared, A "/3g.40gb@4", name, "nvidia.com/mig-3g.40gb: " A "/3g.40gb@4! x2\n");
    check_held(shared, A "/3g.40gb@4::1", name, "nvidia.com/mig-3g.40gb: " A "/3g.40gb@4 x2\n");
    check_held("spec: {}", A "/3g.40gb@4::1", name, "nvidia.com/mig-3g.40gb: " A "/3g.40gb@4!\n");
}

Test(device_table, partition_is_known_by_the_id_of_nvidias_plugin)
{
    auto_node struct node n;
    struct device_table t;
    node_init(&n, 1, "spec: {}");
    cut(&n, 0);
    fake_put(&n.hw.cards[0], "3g.40gb", 4, whole_3g);
    node_read(&n);
    build(&n.state, &t);
    auto_free char *theirs = xasprintf("%s::1", n.views[0].card.partitions[0].uuid);
    auto_free char *ours = device_table_translate(&t, theirs);
    cr_expect_str_eq(ours, A "/3g.40gb@4::1");
    cr_expect_null(device_table_translate(&t, "MIG-other"));
    cr_expect_null(device_table_translate(&t, A));
    device_table_done(&t);
    check(&n, "nvidia.com/mig-3g.40gb: " A "/3g.40gb@4\n");
}

/* --- Slices --- */

#define LISTED                                                                                     \
    "spec: {devices: [{uuid: " A ", mode: sgpu, sgpu: {qosPolicy: fixed-share, slices: "           \
    "[{alias: small, memoryMiB: 1024, computePercent: 5, count: 2}]}}]}"
#define FOR_PODS "spec: {devices: [{uuid: " A ", mode: sgpu, sgpu: {qosPolicy: fixed-share}}]}"

static void put_slice(struct node *n, const char *alias, bool foreign)
{
    struct gpu_card *c = &n->views[0].card;
    c->mode = c->pending_mode = GPU_SGPU;
    c->slices[c->sgpu.n] = (struct gpu_slice){.minor = 40 + c->sgpu.n, .healthy = true};
    (void)snprintf(c->slices[c->sgpu.n].alias, sizeof(c->slices[0].alias), "cleave.%s", alias);
    struct sgpu_slice *s = &c->sgpu.items[c->sgpu.n];
    *s = (struct sgpu_slice){.id = c->sgpu.n, .quota = {1024, 5}, .foreign = foreign};
    (void)snprintf(s->alias, sizeof(s->alias), "%s", alias);
    c->sgpu.n++;
}

Test(device_table, slices_that_stand_are_named_by_card_and_alias_and_offered_by_kind)
{
    auto_node struct node n;
    node_init_with(&n, FAKE_C500, 2, LISTED);
    node_read(&n);
    put_slice(&n, "small-1", false);
    put_slice(&n, "theirs", true);
    put_slice(&n, "small-0", false);
    check(&n, "metax-tech.com/gpu: " B "\n"
              "metax-tech.com/sgpu-small: " A "/small-0 " A "/small-1\n");
}

/* People can give two slices one alias. The kubelet would count one device twice, and either pod
 * could get the other's slice. */
Test(device_table, two_slices_with_one_alias_are_one_device_that_is_not_granted)
{
    auto_node struct node n;
    node_init_with(&n, FAKE_C500, 1, LISTED);
    node_read(&n);
    put_slice(&n, "small-0", false);
    put_slice(&n, "small-0", false);
    put_slice(&n, "small-1", false);
    auto_device_table struct device_table t = {0};
    build(&n.state, &t);
    const struct table_resource *r = device_table_resource(&t, "metax-tech.com/sgpu-small");
    cr_assert(r && r->n_devices == 2, "%zu devices", r ? r->n_devices : 0);
    cr_expect_str_eq(r->devices[0].id, A "/small-0");
    cr_expect(!r->devices[0].healthy);
    cr_expect(r->devices[1].healthy);
}

Test(device_table, a_slice_says_what_its_container_has_to_know)
{
    auto_node struct node n;
    node_init_with(&n, FAKE_C500, 1, LISTED);
    node_read(&n);
    put_slice(&n, "small-1", false);
    put_slice(&n, "small-0", false);
    auto_device_table struct device_table t = {0};
    build(&n.state, &t);
    const struct table_resource *r = device_table_resource(&t, "metax-tech.com/sgpu-small");
    cr_assert(r && r->n_devices == 2);
    const struct entry_device *d = &r->devices[0].entry;
    cr_expect_str_eq(d->cdi_name, A "-slice-small-0");
    cr_expect_str_eq(d->vendor, "metax");
    cr_expect_str_eq(d->pci_bus_id, n.views[0].card.pci_bus_id);
    cr_expect(d->has_slice && !d->is_slot && !d->mig);
    cr_expect_eq(d->slice.id, 1);
    cr_expect_eq(d->slice.minor, 41);
    cr_expect_eq(d->slice.memory_mib, 1024);
    cr_expect_eq(d->slice.compute_percent, 5);
    cr_expect_str_eq(d->slice.alias, "cleave.small-0", "as the driver has it");
    check(&n, "metax-tech.com/sgpu-small: " A "/small-0 " A "/small-1\n");
}

/* Its name stays, and what it means in the CDI file is another slice. */
Test(device_table, a_slice_that_was_made_again_is_another_table)
{
    auto_node struct node n;
    node_init_with(&n, FAKE_C500, 1, LISTED);
    node_read(&n);
    put_slice(&n, "small-0", false);
    auto_device_table struct device_table before = {0};
    auto_device_table struct device_table same = {0};
    auto_device_table struct device_table after = {0};
    build(&n.state, &before);
    build(&n.state, &same);
    n.views[0].card.sgpu.items[0].id = 7;
    build(&n.state, &after);
    cr_expect(device_table_equal(&before, &same));
    cr_expect_not(device_table_equal(&before, &after));
    check(&n, "metax-tech.com/sgpu-small: " A "/small-0\n");
}

Test(device_table, a_card_whose_slices_are_made_for_pods_has_places_for_sixteen)
{
    auto_node struct node n;
    node_init_with(&n, FAKE_C500, 1, FOR_PODS);
    node_read(&n);
    put_slice(&n, "slot.3", false);
    put_slice(&n, "theirs", true);
    struct device_table t;
    build(&n.state, &t);
    const struct table_resource *r = device_table_resource(&t, "metax-tech.com/sgpu");
    cr_assert(r && t.n_resources == 1 && r->n_devices == 16);
    cr_expect_str_eq(r->devices[3].id, "sgpu@3");
    cr_expect_str_eq(r->devices[3].entry.cdi_name, "slot.3");
    cr_expect(r->devices[3].entry.is_slot && !r->devices[3].entry.has_slice);
    cr_expect(r->devices[3].entry.is_slot);
    cr_expect(r->devices[14].healthy);
    cr_expect_not(r->devices[15].healthy, "somebody else's slice takes a place");
    device_table_done(&t);
    check(&n, "metax-tech.com/sgpu: sgpu@0 sgpu@1 sgpu@2 sgpu@3 sgpu@4 sgpu@5 sgpu@6 sgpu@7 "
              "sgpu@8 sgpu@9 sgpu@10 sgpu@11 sgpu@12 sgpu@13 sgpu@14 sgpu@15!\n");
}

Test(device_table, a_slot_that_is_held_counts_among_the_places_whatever_its_number)
{
    auto_node struct node n;
    node_init_with(&n, FAKE_C500, 1, FOR_PODS);
    node_read(&n);
    for (unsigned i = 0; i < 14; i++)
        put_slice(&n, "theirs", true);
    put_slice(&n, "slot.9", false);
    check(&n, "metax-tech.com/sgpu: sgpu@0 sgpu@1! sgpu@2! sgpu@3! sgpu@4! sgpu@5! sgpu@6! sgpu@7! "
              "sgpu@8! sgpu@9 sgpu@10! sgpu@11! sgpu@12! sgpu@13! sgpu@14! sgpu@15!\n");
}

/* Slots are the node's: of two cards the one may be something else by now. */
Test(device_table, a_slot_of_a_card_that_has_gone_counts_and_stays_listed_while_it_is_held)
{
    auto_node struct node n;
    struct holders holders = {0};
    node_init_with(&n, FAKE_C500, 1, FOR_PODS);
    node_read(&n);
    put_slice(&n, "slot.20", false);
    put_slice(&n, "slot.25", false);
    for (unsigned i = 0; i < 12; i++)
        put_slice(&n, "theirs", true);
    holders_grant(&holders, (const char *const[]){"sgpu@20"}, 1, 0);
    n.state.holders = &holders;
    check(&n, "metax-tech.com/sgpu: sgpu@0 sgpu@1 sgpu@2! sgpu@3! sgpu@4! sgpu@5! sgpu@6! sgpu@7! "
              "sgpu@8! sgpu@9! sgpu@10! sgpu@11! sgpu@12! sgpu@13! sgpu@14! sgpu@15! sgpu@20\n");
    holders_done(&holders);
}

/* What an earlier pod left takes its place all the same; whoever has such a slot keeps it. */
Test(device_table, a_slot_that_cannot_be_released_is_not_handed_out_anew)
{
    auto_node struct node n;
    struct holders holders = {0};
    struct device_slots sick = {0};
    node_init_with(&n, FAKE_C500, 1, FOR_PODS);
    node_read(&n);
    put_slice(&n, "slot.0", false);
    for (unsigned slot = 0; slot < 3; slot++)
        device_slots_put(&sick, slot);
    holders_grant(&holders, (const char *const[]){"sgpu@2"}, 1, 0);
    for (unsigned i = 0; i < 13; i++)
        put_slice(&n, "theirs", true);
    n.state.sick = &sick;
    n.state.holders = &holders;
    check(&n, "metax-tech.com/sgpu: sgpu@0! sgpu@1! sgpu@2 sgpu@3 sgpu@4! sgpu@5! sgpu@6! sgpu@7! "
              "sgpu@8! sgpu@9! sgpu@10! sgpu@11! sgpu@12! sgpu@13! sgpu@14! sgpu@15!\n");
    holders_done(&holders);
}

/* A slice is made by what its pod says; who has a slot keeps it, also where one was left. */
Test(device_table, where_pods_cannot_be_read_no_slot_is_handed_out_anew)
{
    auto_node struct node n;
    struct holders holders = {0};
    node_init_with(&n, FAKE_C500, 1, FOR_PODS);
    node_read(&n);
    put_slice(&n, "slot.1", false);
    holders_grant(&holders, (const char *const[]){"sgpu@2"}, 1, 0);
    n.state.pods_forbidden = "may not";
    n.state.holders = &holders;
    check(&n, "metax-tech.com/sgpu: sgpu@0! sgpu@1! sgpu@2 sgpu@3! sgpu@4! sgpu@5! sgpu@6! sgpu@7! "
              "sgpu@8! sgpu@9! sgpu@10! sgpu@11! sgpu@12! sgpu@13! sgpu@14! sgpu@15!\n");
    holders_done(&holders);
}

Test(device_table, a_card_without_its_device_files_has_no_places_and_says_why)
{
    auto_node struct node n;
    struct dri_card dri = {.renders = {128}, .n_renders = 1};
    struct metax_files control = {.mxcd = true};
    struct device_nodes nodes = {.own = {{&container_metax, &control}},
                                 .dri = {.cards = &dri, .n_cards = 1}};
    node_init_with(&n, FAKE_C500, 1, FOR_PODS);
    node_read(&n);
    put_slice(&n, "slot.3", false);
    struct gpu_card *card = &n.views[0].card;
    (void)snprintf(card->pci_bus_id, sizeof(card->pci_bus_id), "0000:05:00.0");
    (void)snprintf(dri.bus_id, sizeof(dri.bus_id), "0000:05:00.0");
    n.state.nodes = &nodes;
    struct device_table t;
    build(&n.state, &t);
    cr_expect(t.resources[0].devices[0].healthy);
    cr_expect_null(t.left_out);
    device_table_done(&t);
    dri.n_renders = 0;
    build(&n.state, &t);
    cr_expect_str_eq(t.left_out, A ": there is no render node of 0000:05:00.0 in /dev/dri");
    device_table_done(&t);
    check(&n, "metax-tech.com/sgpu: sgpu@0! sgpu@1! sgpu@2! sgpu@3! sgpu@4! sgpu@5! sgpu@6! "
              "sgpu@7! sgpu@8! sgpu@9! sgpu@10! sgpu@11! sgpu@12! sgpu@13! sgpu@14! sgpu@15!\n");
}

Test(device_table, a_card_that_nobody_speaks_of_any_more_offers_what_it_offered)
{
    auto_node struct node n;
    node_init_with(&n, FAKE_C500, 1, "spec: {}");
    node_read(&n);
    put_slice(&n, "small-0", false);
    check(&n, "metax-tech.com/sgpu-small: " A "/small-0\n");
}

Test(device_table, a_slice_and_a_slot_are_held_by_the_pods_that_were_given_them)
{
    auto_node struct node n;
    node_init_with(&n, FAKE_C500, 1, FOR_PODS);
    node_read(&n);
    put_slice(&n, "slot.3", false);
    auto_holders struct holders h = {0};
    struct holder *list = NULL;
    size_t count = 0;
    for (unsigned slot = 3; slot < 5; slot++)
        *XPUSH(list, count) = (struct holder){.id = xasprintf("sgpu@%u", slot),
                                              .ns = xstrdup("ns"),
                                              .pod = xasprintf("pod-%u", slot),
                                              .resource = xstrdup("metax-tech.com/sgpu")};
    (void)holders_list(&h, list, count, 1);
    struct gpu_card *c = &n.views[0].card;
    struct device_slots made = {0};
    device_slots_add(&made, c);
    card_holders_mark(&h, &made, &(const struct shares){0}, c);
    cr_assert_eq(c->n_users, 2);
    cr_expect_eq(c->users[0].part, 0, "by the number of its slice");
    cr_expect_str_eq(c->users[0].name, "ns/pod-3");
    cr_expect_eq(c->users[1].part, -1, "its slice is not made yet: it holds each card");
    cr_expect(c->sgpu.items[0].in_use);
}

/* --- Virtual functions --- */

static void put_vf(struct node *n, unsigned number)
{
    struct gpu_card *c = &n->views[0].card;
    struct gpu_vf *vf = &c->vfs[c->n_vfs++];
    c->mode = c->pending_mode = GPU_VGPU;
    c->sgpu_capable = false;
    *vf = (struct gpu_vf){.number = number, .memory_mib = 16384, .healthy = true};
    (void)snprintf(vf->uuid, sizeof(vf->uuid), "GPU-vf-%u", number);
    (void)snprintf(vf->pci_bus_id, sizeof(vf->pci_bus_id), "0000:05:00.%u", number + 1);
}

Test(device_table, a_card_with_functions_offers_each_that_is_well_and_never_itself)
{
    auto_node struct node n;
    node_init_with(&n, FAKE_C500, 2, "spec: {}");
    node_read(&n);
    put_vf(&n, 0);
    put_vf(&n, 1);
    put_vf(&n, 5);
    n.views[0].card.vfs[1].healthy = false;
    check(&n, "metax-tech.com/gpu: " B "\n"
              "metax-tech.com/vgpu: " A "/vf@0 " A "/vf@1! " A "/vf@5\n");
}

Test(device_table, functions_are_offered_where_they_are_wanted_and_not_to_who_wants_the_card)
{
    auto_node struct node n;
    node_init_with(&n, FAKE_C500, 1, "spec: {devices: [{uuid: " A ", mode: vgpu}]}");
    node_read(&n);
    put_vf(&n, 0);
    check(&n, "metax-tech.com/vgpu: " A "/vf@0\n");
    node_done(&n);
    node_init_with(&n, FAKE_C500, 1, "spec: {devices: [{uuid: " A ", mode: native}]}");
    node_read(&n);
    put_vf(&n, 0);
    check(&n, "metax-tech.com/vgpu: " A "/vf@0!\n");
    node_done(&n);
    node_init_with(&n, FAKE_C500, 1, "spec: {devices: [{uuid: " A ", mode: vgpu}]}");
    node_read(&n);
    check(&n, "metax-tech.com/gpu: " A "!\n");
}

Test(device_table, a_function_says_what_its_container_has_to_know)
{
    auto_node struct node n;
    node_init_with(&n, FAKE_C500, 1, "spec: {}");
    node_read(&n);
    put_vf(&n, 3);
    auto_device_table struct device_table t = {0};
    auto_device_table struct device_table made_anew = {0};
    build(&n.state, &t);
    const struct table_resource *r = device_table_resource(&t, "metax-tech.com/vgpu");
    cr_assert(r && r->n_devices == 1);
    const struct entry_device *d = &r->devices[0].entry;
    cr_expect_str_eq(d->cdi_name, A "-vf-3");
    cr_expect_str_eq(d->uuid, "GPU-vf-3");
    cr_expect_str_eq(d->card_uuid, A);
    cr_expect_str_eq(d->pci_bus_id, "0000:05:00.4");
    cr_expect(d->is_vf && !d->has_slice && !d->is_slot && !d->mig);
    cr_expect_eq(r->devices[0].memory_mib, 16384);
    (void)snprintf(n.views[0].card.vfs[0].uuid, GPU_UUID_BYTES, "GPU-another");
    build(&n.state, &made_anew);
    cr_expect_not(device_table_equal(&t, &made_anew));
    check(&n, "metax-tech.com/vgpu: " A "/vf@3\n");
}

Test(device_table, a_function_is_held_by_the_pod_that_was_given_it)
{
    auto_node struct node n;
    node_init_with(&n, FAKE_C500, 1, "spec: {}");
    node_read(&n);
    put_vf(&n, 0);
    put_vf(&n, 1);
    auto_holders struct holders h = {0};
    struct holder *list = NULL;
    size_t count = 0;
    *XPUSH(list, count) = (struct holder){.id = xstrdup(A "/vf@1"),
                                          .ns = xstrdup("ns"),
                                          .pod = xstrdup("pod"),
                                          .resource = xstrdup("metax-tech.com/vgpu")};
    (void)holders_list(&h, list, count, 1);
    struct gpu_card *c = &n.views[0].card;
    const struct device_slots none = {0};
    card_holders_mark(&h, &none, &(const struct shares){0}, c);
    cr_assert_eq(c->n_users, 1);
    cr_expect_eq(c->users[0].part, 1);
    cr_expect(!c->vfs[0].in_use && c->vfs[1].in_use);
}

/* --- A card of MetaX's that several share --- */

Test(device_table, a_shared_card_of_metax_is_offered_as_often_as_it_is_shared)
{
    auto_node struct node n;
    node_init_with(&n, FAKE_C500, 1,
                   "spec: {source: {kind: GPUProfile, name: p, generation: 1}, devices: [{uuid: " A
                   ", mode: native, sharing: {timeSlicing: {replicas: 3}}}]}");
    node_read(&n);
    check(&n, "metax-tech.com/gpu: " A " x3\n");
    node_done(&n);
    node_init_with(&n, FAKE_C500, 1,
                   "spec: {source: {kind: GPUProfile, name: p, generation: 1}, devices: [{uuid: " A
                   ", mode: native, sharing: {timeSlicing: {replicas: 3, renameByDefault: "
                   "true}}}]}");
    node_read(&n);
    check(&n, "metax-tech.com/gpu.shared: " A " x3\n");
}

/* --- Shares --- */

#define FRACTIONAL(uuid, n)                                                                        \
    "{uuid: " uuid ", mode: native, sharing: {fractional: {maxShares: " n "}}}"

static void node_read_with_memory(struct node *n)
{
    node_read(n);
    for (size_t i = 0; i < n->state.n_cards; i++)
        n->views[i].card.memory_mib = 81920;
}

static void put_share(struct shares *s, unsigned number, const char *card, unsigned memory_mib,
                      unsigned percent)
{
    static char uid[] = "u1", container[] = "main";
    struct share share = {.slot = slot_at(SLOT_POOL_SHARE, number),
                          .memory_mib = memory_mib,
                          .percent = percent,
                          .uid = uid,
                          .container = container};
    (void)snprintf(share.card, sizeof(share.card), "%s", card);
    shares_put(s, &share);
}

Test(device_table, fractional_cards_are_a_pool_of_slots)
{
    auto_node struct node n;
    node_init(&n, 2, "spec: {devices: [" FRACTIONAL(A, "2") ", " FRACTIONAL(B, "1") "]}");
    node_read_with_memory(&n);
    check(&n, "nvidia.com/gpu: share@0 share@1 share@2\n");
}

Test(device_table, cards_that_nobody_shares_join_the_pool_with_one_slot)
{
    auto_node struct node n;
    node_init(&n, 2, "spec: {devices: [" FRACTIONAL(A, "2") "]}");
    node_read_with_memory(&n);
    check(&n, "nvidia.com/gpu: share@0 share@1 share@2\n");
}

Test(device_table, as_many_slots_may_be_granted_as_the_cards_have_room_for)
{
    auto_node struct node n;
    auto_shares struct shares shares = {0};
    node_init(&n, 2, "spec: {devices: [" FRACTIONAL(A, "2") ", " FRACTIONAL(B, "2") "]}");
    node_read_with_memory(&n);
    n.state.shares = &shares;
    put_share(&shares, 1, A, 1000, 100); /* alone */
    check(&n, "nvidia.com/gpu: share@0 share@1 share@2 share@3!\n");
    put_share(&shares, 3, B, 1000, 10);
    check(&n, "nvidia.com/gpu: share@0 share@1 share@2! share@3\n");
    put_share(&shares, 3, B, (unsigned)n.views[1].card.memory_mib, 10);
    check(&n, "nvidia.com/gpu: share@0! share@1 share@2! share@3\n");
}

Test(device_table, a_granted_slot_takes_room_before_its_share_is_made)
{
    auto_node struct node n;
    auto_holders struct holders h = {0};
    node_init(&n, 1, "spec: {devices: [" FRACTIONAL(A, "2") "]}");
    node_read_with_memory(&n);
    holders_grant(&h, (const char *const[]){"share@1"}, 1, 0);
    n.state.holders = &h;
    check(&n, "nvidia.com/gpu: share@0 share@1\n");
    holders_grant(&h, (const char *const[]){"share@7"}, 1, 0);
    check(&n, "nvidia.com/gpu: share@0! share@1 share@7\n");
}

Test(device_table, shares_are_offered_under_koordinators_name_too_and_both_have_one_room)
{
    auto_node struct node n;
    auto_shares struct shares shares = {0};
    auto_holders struct holders h = {0};
    node_init(&n, 1, "spec: {devices: [" FRACTIONAL(A, "3") "]}");
    node_read_with_memory(&n);
    n.state.shares = &shares;
    n.state.holders = &h;
    n.state.koordinator_shares = true;
    check(&n, "gpu.cleave.dev/share: koord@0 koord@1 koord@2\n"
              "nvidia.com/gpu: share@0 share@1 share@2\n");
    holders_grant(&h, (const char *const[]){"koord@1"}, 1, 0);
    check(&n, "gpu.cleave.dev/share: koord@0 koord@1 koord@2\n"
              "nvidia.com/gpu: share@0 share@1 share@2!\n");
    put_share(&shares, 0, A, 1000, 10);
    check(&n, "gpu.cleave.dev/share: koord@0 koord@1 koord@2!\n"
              "nvidia.com/gpu: share@0 share@1 share@2!\n");
    n.state.koordinator_shares = false;
    check(&n, "gpu.cleave.dev/share: koord@1\n"
              "nvidia.com/gpu: share@0 share@1 share@2!\n");
}

Test(device_table, a_card_that_a_pod_holds_whole_gives_no_shares)
{
    auto_node struct node n;
    auto_holders struct holders h = {0};
    node_init(&n, 2, "spec: {devices: [" FRACTIONAL(A, "2") ", " FRACTIONAL(B, "1") "]}");
    node_read_with_memory(&n);
    holders_grant(&h, (const char *const[]){A}, 1, 0);
    n.state.holders = &h;
    check(&n, "nvidia.com/gpu: " A "! share@0 share@1! share@2!\n");
}

Test(device_table, a_card_with_shares_is_not_offered_whole)
{
    auto_node struct node n;
    auto_shares struct shares shares = {0};
    auto_holders struct holders h = {0};
    node_init(&n, 2, "spec: {}");
    node_read_with_memory(&n);
    n.state.shares = &shares;
    n.state.holders = &h;
    put_share(&shares, 4, A, 1000, 0);
    holders_grant(&h, (const char *const[]){"share@4"}, 1, 0);
    check(&n, "nvidia.com/gpu: " A "! share@4 " B "\n");
}

Test(device_table, a_card_shared_under_the_pools_name_is_left_out)
{
    auto_node struct node n;
    struct device_table t;
    node_init(&n, 2,
              "spec: {devices: [" FRACTIONAL(
                  A, "2") ", {uuid: " B ", mode: native, sharing: {timeSlicing: {replicas: 3}}}]}");
    node_read_with_memory(&n);
    check(&n, "nvidia.com/gpu: share@0 share@1\n");
    build(&n.state, &t);
    cr_expect(strstr(t.left_out, "NVIDIA GPU 1 would be offered as nvidia.com/gpu"), "%s",
              t.left_out);
    device_table_done(&t);
}

Test(device_table, a_cut_card_under_the_pools_name_is_left_out)
{
    auto_node struct node n;
    node_init(&n, 2, "spec: {migStrategy: none, devices: [" FRACTIONAL(A, "2") "]}");
    cut(&n, 1);
    fake_put(&n.hw.cards[1], "1g.10gb", 0, whole_1g);
    node_read_with_memory(&n);
    check(&n, "nvidia.com/gpu: share@0 share@1\n");
}

Test(device_table, where_all_compute_is_given_out_no_slot_is_granted)
{
    auto_node struct node n;
    auto_shares struct shares shares = {0};
    node_init(&n, 1,
              "spec: {devices: [{uuid: " A ", mode: native, sharing: {fractional: "
              "{maxShares: 3, computeOversubscriptionPercent: 200}}}]}");
    node_read_with_memory(&n);
    n.state.shares = &shares;
    put_share(&shares, 0, A, 1000, 100);
    check(&n, "nvidia.com/gpu: share@0 share@1 share@2\n");
    put_share(&shares, 1, A, 1000, 100);
    check(&n, "nvidia.com/gpu: share@0 share@1 share@2!\n");
}

Test(device_table, while_a_share_may_be_anywhere_no_slot_and_no_card_is_granted)
{
    auto_node struct node n;
    auto_shares struct shares shares = {0};
    node_init(&n, 2, "spec: {devices: [" FRACTIONAL(A, "2") "]}");
    node_read_with_memory(&n);
    n.state.shares = &shares;
    device_slots_put(&shares.unknown, slot_at(SLOT_POOL_SHARE, 1));
    check(&n, "nvidia.com/gpu: share@0! share@1! share@2!\n");
    device_slots_drop(&shares.unknown, slot_at(SLOT_POOL_SHARE, 1));
    device_slots_put(&shares.unknown, slot_at(SLOT_POOL_KOORDINATOR, 1));
    check(&n, "nvidia.com/gpu: share@0! share@1! share@2!\n");
    device_spec_done(&n.spec);
    check(&n, "nvidia.com/gpu: " A "! " B "!\n");
}

Test(device_table, a_card_with_an_adopted_share_is_given_in_parts_and_not_whole)
{
    auto_node struct node n;
    auto_shares struct shares shares = {0};
    struct adopted_share one = {.card = B, .memory_mib = 1000, .percent = 100};
    one.ns = one.pod = (char[]){"p"};
    node_init(&n, 2, "spec: {devices: [" FRACTIONAL(A, "2") ", " FRACTIONAL(B, "2") "]}");
    node_read_with_memory(&n);
    n.state.shares = &shares;
    shares_adopt(&shares, &one, 1, /* is_adopting= */ false);
    /* Two on the one, and one for the pod that asks for the resource and holds none of these. */
    check(&n, "nvidia.com/gpu: share@0 share@1 share@2 share@3!\n");
    device_spec_done(&n.spec);
    check(&n, "nvidia.com/gpu: " A " " B "!\n");
    shares_adopt(&shares, NULL, 0, /* is_adopting= */ true);
    check(&n, "nvidia.com/gpu: " A "! " B "!\n");
}

Test(device_table, an_adopted_share_holds_its_card_and_one_in_doubt_each)
{
    auto_node struct node n;
    auto_shares struct shares shares = {0};
    const struct holders h = {0};
    const struct device_slots none = {0};
    struct adopted_share one = {.card = B, .memory_mib = 1000};
    one.ns = (char[]){"ns"};
    one.pod = (char[]){"p"};
    node_init(&n, 2, "spec: {}");
    node_read_with_memory(&n);
    shares_adopt(&shares, &one, 1, /* is_adopting= */ false);
    card_holders_mark(&h, &none, &shares, &n.views[0].card);
    card_holders_mark(&h, &none, &shares, &n.views[1].card);
    cr_expect_eq(n.views[0].card.n_users, 0);
    cr_assert_eq(n.views[1].card.n_users, 1);
    cr_expect_str_eq(n.views[1].card.users[0].name, "ns/p");
    shares_adopt(&shares, NULL, 0, /* is_adopting= */ true);
    card_holders_mark(&h, &none, &shares, &n.views[0].card);
    cr_expect_eq(n.views[0].card.n_users, 1);
}

Test(device_table, only_an_agent_that_serves_the_kubelet_gives_shares)
{
    auto_node struct node n;
    node_init(&n, 1, "spec: {devices: [" FRACTIONAL(A, "2") "]}");
    node_read_with_memory(&n);
    n.state.means.publisher = API_PUBLISHER_CONTROLLER;
    check(&n, "nvidia.com/gpu: " A "\n");
}

Test(device_table, a_share_holds_its_card)
{
    auto_node struct node n;
    auto_shares struct shares shares = {0};
    auto_holders struct holders h = {0};
    const struct device_slots none = {0};
    node_init(&n, 2, "spec: {}");
    node_read_with_memory(&n);
    put_share(&shares, 4, B, 1000, 0);
    holders_grant(&h, (const char *const[]){"share@4"}, 1, 0);
    card_holders_mark(&h, &none, &shares, &n.views[0].card);
    card_holders_mark(&h, &none, &shares, &n.views[1].card);
    cr_expect_eq(n.views[0].card.n_users, 0);
    cr_assert_eq(n.views[1].card.n_users, 1);
    cr_expect_eq(n.views[1].card.users[0].part, -1);
}
