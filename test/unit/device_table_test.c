/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "base/auto.h"
#include "base/sb.h"
#include "base/xalloc.h"
#include "base/yaml.h"

#include "gpu_fake_support.h"
#include "nodeagent/device_table.h"
#include "nodeagent/plugin_config.h"

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

static void node_init(struct node *n, unsigned n_cards, const char *spec)
{
    auto_json json_t *doc = NULL;
    auto_err struct err e = {0};
    *n = (struct node){0};
    cr_assert_eq(yaml_load(spec, strlen(spec), &doc, &e), 0, "%s", err_msg(&e));
    cr_assert_eq(device_spec_decode(doc, &n->spec, &e), 0, "%s", err_msg(&e));
    for (unsigned i = 0; i < n_cards; i++)
        fake_add(&n->hw, FAKE_H100);
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
        .publisher = API_PUBLISHER_KUBELET,
    };
    n->inventory.n_cards = 0;
}

static void cut(struct node *n, unsigned card)
{
    struct gpu_card *c = &n->hw.cards[card].card;
    c->mode = c->pending_mode = GPU_MIG;
}

/* "nvidia.com/gpu: GPU-…a! GPU-…b x4": each resource on a line, '!' what may not be granted. */
static void check(struct node *n, const char *expected)
{
    auto_sb struct sb text = SB_INIT(4096);
    struct device_table t;
    device_table_build(&n->state, 0, &t);
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
    for (size_t i = 0; i < FAKE_MAX_CARDS; i++)
        card_view_done(&n->views[i]);
    device_spec_done(&n->spec);
}

#define A "GPU-00000000-fake"
#define B "GPU-00000001-fake"

Test(device_table, partitions_are_named_by_card_profile_and_place)
{
    struct node n;
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
    struct node n;
    node_init(&n, 1, "spec: {}");
    cut(&n, 0);
    fake_put(&n.hw.cards[0], "3g.40gb", 4, thirds);
    node_read(&n);
    check(&n, "nvidia.com/mig-1c.3g.40gb: " A "/1c.3g.40gb@4.0 " A "/1c.3g.40gb@4.1 " A
              "/1c.3g.40gb@4.2\n");
}

Test(device_table, card_that_is_to_be_cut_stays_listed_and_is_not_granted)
{
    struct node n;
    node_init(&n, 1,
              "spec: {devices: [{uuid: " A ", mode: mig, mig: {profiles: [{profile: 3g.40gb, "
              "count: 1}]}}]}");
    node_read(&n);
    check(&n, "nvidia.com/gpu: " A "!\n");
}

Test(device_table, sick_partition_is_not_granted_and_its_neighbour_is)
{
    struct node n;
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
    struct node n;
    node_init(&n, 1, "spec: {migStrategy: single}");
    cut(&n, 0);
    fake_put(&n.hw.cards[0], "3g.40gb", 4, whole_3g);
    node_read(&n);
    check(&n, "nvidia.com/gpu: " A "/3g.40gb@4\n");
}

Test(device_table, single_keeps_its_name_while_all_is_cut_anew)
{
    static const struct card_offer nothing;
    struct node n;
    struct device_table t;
    node_init(&n, 1, "spec: {migStrategy: single}");
    cut(&n, 0);
    fake_put(&n.hw.cards[0], "3g.40gb", 4, whole_3g);
    node_read(&n);
    n.state.busy = A;
    n.state.busy_offer = &nothing;
    device_table_build(&n.state, 0, &t);
    cr_expect_not(t.mixed_instead_of_single);
    device_table_done(&t);
    check(&n, "nvidia.com/gpu: " A "/3g.40gb@4!\n");
}

Test(device_table, shared_cards_may_have_a_name_of_their_own)
{
    struct node n;
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
    struct node n;
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
    struct node n;
    struct device_table t;
    node_init(&n, 2,
              "spec: {devices: [{uuid: " A ", mode: mig, sharing: {mps: {replicas: 2}}, mig: "
              "{profiles: [{profile: 3g.40gb, count: 1}]}}]}");
    cut(&n, 0);
    fake_put(&n.hw.cards[0], "3g.40gb", 4, whole_3g);
    node_read(&n);
    device_table_build(&n.state, 0, &t);
    const struct table_resource *half = device_table_resource(&t, "nvidia.com/mig-3g.40gb");
    const struct table_resource *whole = device_table_resource(&t, "nvidia.com/gpu");
    cr_assert(half && whole && half->n_devices == 1 && whole->n_devices == 1);
    cr_expect(half->devices[0].mps && half->devices[0].replicas == 2);
    cr_expect(half->devices[0].memory_mib > 0 && half->devices[0].memory_mib < 80 * 1024);
    cr_expect_not(whole->devices[0].mps);
    device_table_done(&t);
    for (size_t i = 0; i < FAKE_MAX_CARDS; i++)
        card_view_done(&n.views[i]);
    device_spec_done(&n.spec);
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
    struct node n;
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
    struct node n;
    struct device_table t;
    node_init(&n, 1, "spec: {}");
    cut(&n, 0);
    fake_put(&n.hw.cards[0], "3g.40gb", 4, whole_3g);
    node_read(&n);
    device_table_build(&n.state, 0, &t);
    auto_free char *theirs = xasprintf("%s::1", n.views[0].card.partitions[0].uuid);
    auto_free char *ours = device_table_translate(&t, theirs);
    cr_expect_str_eq(ours, A "/3g.40gb@4::1");
    cr_expect_null(device_table_translate(&t, "MIG-other"));
    cr_expect_null(device_table_translate(&t, A));
    device_table_done(&t);
    check(&n, "nvidia.com/mig-3g.40gb: " A "/3g.40gb@4\n");
}
