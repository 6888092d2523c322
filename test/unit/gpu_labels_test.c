/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "base/sb.h"
#include "base/xalloc.h"

#include "api/device.h"
#include "api/feature_label.h"
#include "golden_support.h"
#include "nodeagent/change/card_view.h"
#include "nodeagent/offer/plugin_config.h"
#include "nodeagent/report/gpu_labels.h"
#include "partition/resource_names.h"
#include "sim_support.h"

/*
 * Labels of every model of the simulator, beside files that hold what GPU feature discovery would
 * write for such a card (names and values: shared reference of its internal/lm), and the rules for
 * what it leaves to chance.
 */

TestSuite(gpu_labels, .init = sim_machine_start, .fini = sim_machine_stop);

/* What a test says of the node beside its cards. */
struct setting {
    int strategy;
    int64_t replicas; /* by time-slicing; 0: not shared */
    bool renamed;
    const char *named; /* layout of the first n_cut cards; NULL: nothing is cut */
    unsigned n_cut;
};

static const struct host_facts server = {
    .machine = "PowerEdge XE9680",
    .vgpu_known = true,
    .n_pci = 3,
    .pci = {{0x0200, 0x15b3, true}, {0x0300, 0x102b, false}, {0x0302, 0x10de, true}},
};

struct node {
    struct gpu *gpu;
    struct gpu_inventory inv;
    struct gpu_labels_card cards[8];
    struct device_want wants[8];
    struct gpu_labels_input in;
    struct jx_pair *labels;
    size_t n_labels;
};

/* By which names the kubelet is offered what stands, nothing else being wanted. */
static int strategy_in_force(const struct node *n, int asked)
{
    struct resolve_card views[ARRAY_LEN(n->cards)];
    struct profile_count *counts[ARRAY_LEN(n->cards)];
    for (size_t i = 0; i < n->inv.n_cards; i++)
        card_resolve_view(&n->inv.cards[i], &views[i], &counts[i]);
    int strategy = resource_strategy(views, n->inv.n_cards, /* spec= */ NULL, asked);
    for (size_t i = 0; i < n->inv.n_cards; i++)
        card_resolve_counts_free(counts[i], views[i].n_partitions);
    return strategy;
}

static void node_label(struct node *n, const struct setting *s)
{
    for (size_t i = 0; i < n->inv.n_cards; i++) {
        n->wants[i] = (struct device_want){.has_sharing = s->replicas};
        n->wants[i].sharing.has_time_slicing = true;
        n->wants[i].sharing.time_slicing =
            (struct device_replicas){s->replicas, s->renamed, /* fail= */ false};
        n->cards[i] = (struct gpu_labels_card){&n->inv.cards[i], &n->wants[i]};
    }
    n->in = (struct gpu_labels_input){.cards = n->cards,
                                      .n_cards = n->inv.n_cards,
                                      .drivers = n->inv.drivers,
                                      .n_drivers = n->inv.n_drivers,
                                      .mig_strategy = s->strategy,
                                      .strategy_in_force = strategy_in_force(n, s->strategy),
                                      .host = &server};
    gpu_labels_build(&n->in, &n->labels, &n->n_labels);
}

static void node_reread(struct node *n)
{
    gpu_inventory_done(&n->inv);
    n->inv = sim_read(n->gpu);
}

static void node_start(struct node *n, const char *gpus, const struct setting *s)
{
    sim_fleet(gpus);
    *n = (struct node){.gpu = sim_open()};
    n->inv = sim_read(n->gpu);
    for (unsigned i = 0; s->named && i < s->n_cut; i++)
        sim_cut_named(n->gpu, &n->inv.cards[i], s->named);
    node_reread(n);
    node_label(n, s);
}

static void node_done(struct node *n)
{
    gpu_labels_free(n->labels, n->n_labels);
    gpu_inventory_done(&n->inv);
    n->gpu = gpu_free(n->gpu);
}

static const char *label(const struct node *n, const char *key)
{
    for (size_t i = 0; i < n->n_labels; i++)
        if (strcmp(n->labels[i].key, key) == 0)
            return n->labels[i].str;
    return "(none)";
}

static char *text_of(const struct node *n)
{
    auto_sb struct sb text = SB_INIT(64 * 1024);
    for (size_t i = 0; i < n->n_labels; i++)
        sb_addf(&text, "%s=%s\n", n->labels[i].key, n->labels[i].str);
    return sb_take(&text);
}

/* Sorted, legal, and each one that the controller takes. */
static void expect_sound(const struct node *n)
{
    for (size_t i = 0; i < n->n_labels; i++) {
        const struct jx_pair *p = &n->labels[i];
        cr_expect(feature_label_allowed(p->key, p->str), "%s=%s", p->key, p->str);
        cr_expect(i == 0 || strcmp(p[-1].key, p->key) < 0, "%s", p->key);
    }
}

static void check(const char *golden, const char *gpus, const struct setting *s)
{
    struct node n;
    node_start(&n, gpus, s);
    expect_sound(&n);
    auto_free char *text = text_of(&n);
    auto_free char *path = xasprintf("labels/%s.txt", golden);
    golden_check(path, text);
    node_done(&n);
}

/* --- every model --- */

static void check_whole(const char *model)
{
    auto_free char *golden = xasprintf("%s-whole", model);
    auto_free char *gpus = xasprintf("[{model: %s, count: 2}]", model);
    check(golden, gpus, &(struct setting){.strategy = API_STRATEGY_MIXED});
}

/* Half the node cut with strategy mixed, all of it with strategy single. */
static void check_cut(const char *model, const char *smallest)
{
    auto_free char *mixed = xasprintf("%s-mixed", model);
    auto_free char *single = xasprintf("%s-single", model);
    auto_free char *half = xasprintf("[{model: %s, mig: true}, {model: %s}]", model, model);
    auto_free char *all = xasprintf("[{model: %s, mig: true, count: 2}]", model);
    check(mixed, half,
          &(struct setting){.strategy = API_STRATEGY_MIXED, .named = "all-balanced", .n_cut = 1});
    sim_machine_stop();
    sim_machine_start();
    check(single, all,
          &(struct setting){.strategy = API_STRATEGY_SINGLE, .named = smallest, .n_cut = 2});
}

#define MODEL(id, model, smallest)                                                                 \
    Test(gpu_labels, whole_cards_of_##id)                                                          \
    {                                                                                              \
        check_whole(model);                                                                        \
    }                                                                                              \
    Test(gpu_labels, partitions_of_##id)                                                           \
    {                                                                                              \
        check_cut(model, smallest);                                                                \
    }
MODEL(a100_40, "a100-40", "all-1g.5gb")
MODEL(a100_80, "a100-80", "all-1g.10gb")
MODEL(a30, "a30", "all-1g.6gb")
MODEL(h100_80, "h100-80", "all-1g.10gb")
MODEL(h100_nvl, "h100-nvl", "all-1g.12gb")
MODEL(h200, "h200", "all-1g.18gb")
MODEL(b200, "b200", "all-1g.23gb")
MODEL(rtx_pro_6000, "rtx-pro-6000", "all-1g.24gb")

Test(gpu_labels, whole_cards_of_l4)
{
    check_whole("l4");
}

Test(gpu_labels, whole_cards_of_t4)
{
    check_whole("t4");
}

/* --- strategies --- */

Test(gpu_labels, strategy_none_speaks_of_cards_alone)
{
    check("h100-80-none", "[{model: h100-80, mig: true}]",
          &(struct setting){.strategy = API_STRATEGY_NONE, .named = "all-1g.10gb", .n_cut = 1});
}

Test(gpu_labels, strategy_single_on_a_half_cut_node_is_invalid)
{
    check("h100-80-single-half", "[{model: h100-80, mig: true}, {model: h100-80}]",
          &(struct setting){.strategy = API_STRATEGY_SINGLE, .named = "all-1g.10gb", .n_cut = 1});
}

Test(gpu_labels, strategy_single_with_two_profiles_is_invalid)
{
    struct node n;
    node_start(&n, "[{model: h100-80, mig: true}]",
               &(struct setting){.strategy = API_STRATEGY_SINGLE,
                                 .named = "all-balanced",
                                 .n_cut = 1});
    cr_expect_str_eq(label(&n, "nvidia.com/gpu.product"), "NVIDIA-H100-80GB-HBM3-MIG-INVALID");
    cr_expect_str_eq(label(&n, "nvidia.com/gpu.count"), "0");
    cr_expect_str_eq(label(&n, "nvidia.com/gpu.sharing-strategy"), "");
    node_done(&n);
}

Test(gpu_labels, strategy_single_with_an_empty_card_is_invalid)
{
    struct node n;
    node_start(&n, "[{model: h100-80, mig: true, count: 2}]",
               &(struct setting){.strategy = API_STRATEGY_SINGLE,
                                 .named = "all-1g.10gb",
                                 .n_cut = 1});
    cr_expect_str_eq(label(&n, "nvidia.com/gpu.product"), "NVIDIA-H100-80GB-HBM3-MIG-INVALID");
    node_done(&n);
}

Test(gpu_labels, strategy_single_with_nothing_cut_is_as_none)
{
    struct node n;
    node_start(&n, "[{model: h100-80}]", &(struct setting){.strategy = API_STRATEGY_SINGLE});
    cr_expect_str_eq(label(&n, "nvidia.com/gpu.product"), "NVIDIA-H100-80GB-HBM3");
    cr_expect_str_eq(label(&n, "nvidia.com/mig.strategy"), "single");
    node_done(&n);
}

Test(gpu_labels, a_part_of_an_instance_has_keys_of_its_own)
{
    struct node n;
    node_start(&n, "[{model: h100-80, mig: true}]",
               &(struct setting){.strategy = API_STRATEGY_MIXED});
    sim_cut_part(n.gpu, &n.inv.cards[0], "3g.40gb", 4, 1);
    node_reread(&n);
    gpu_labels_free(n.labels, n.n_labels);
    node_label(&n, &(struct setting){.strategy = API_STRATEGY_MIXED});
    expect_sound(&n);
    cr_expect_str_eq(label(&n, "nvidia.com/mig-1c.3g.40gb.slices.gi"), "3");
    cr_expect_str_eq(label(&n, "nvidia.com/mig-1c.3g.40gb.slices.ci"), "1");
    cr_expect_str_eq(label(&n, "nvidia.com/mig-1c.3g.40gb.multiprocessors"), "20");
    cr_expect_str_eq(label(&n, "nvidia.com/mig-1c.3g.40gb.product"),
                     "NVIDIA-H100-80GB-HBM3-MIG-1c.3g.40gb");
    node_done(&n);
}

/* --- sharing --- */

Test(gpu_labels, shared_cards_are_marked)
{
    check("h100-80-time-slicing", "[{model: h100-80, count: 2}]",
          &(struct setting){.strategy = API_STRATEGY_MIXED, .replicas = 4});
}

Test(gpu_labels, a_resource_with_a_name_of_its_own_needs_no_mark)
{
    struct node n;
    node_start(&n, "[{model: h100-80}]", &(struct setting){.replicas = 4, .renamed = true});
    cr_expect_str_eq(label(&n, "nvidia.com/gpu.product"), "NVIDIA-H100-80GB-HBM3");
    cr_expect_str_eq(label(&n, "nvidia.com/gpu.replicas"), "4");
    node_done(&n);
}

Test(gpu_labels, mps_is_said_where_it_can_be)
{
    struct node n;
    char name[] = "nvidia.com/gpu";
    struct plugin_shared gpus = {name, name, 10};
    const struct plugin_config config = {.sharing = PLUGIN_MPS, .shared = &gpus, .n_shared = 1};
    node_start(&n, "[{model: h100-80}]", &(struct setting){0});
    gpu_labels_free(n.labels, n.n_labels);
    n.in.config = &config;
    gpu_labels_build(&n.in, &n.labels, &n.n_labels);
    cr_expect_str_eq(label(&n, "nvidia.com/mps.capable"), "true");
    cr_expect_str_eq(label(&n, "nvidia.com/gpu.sharing-strategy"), "mps");
    node_done(&n);
}

/* The product is as of a whole card: a pod that asks for no size gets one. */
Test(gpu_labels, shares_have_a_word_and_are_counted)
{
    struct node n;
    node_start(&n, "[{model: h100-80, count: 2}]", &(struct setting){0});
    gpu_labels_free(n.labels, n.n_labels);
    for (size_t i = 0; i < 2; i++)
        n.wants[i] = (struct device_want){.has_sharing = true,
                                          .sharing = {.has_fractional = true,
                                                      .fractional = {.max_shares = 20 - 5 * (int)i,
                                                                     .memory_percent = 100,
                                                                     .compute_percent = 100}}};
    gpu_labels_build(&n.in, &n.labels, &n.n_labels);
    expect_sound(&n);
    cr_expect_str_eq(label(&n, "nvidia.com/gpu.sharing-strategy"), "fractional");
    cr_expect_str_eq(label(&n, "nvidia.com/gpu.replicas"), "15", "the least");
    cr_expect_str_eq(label(&n, "nvidia.com/gpu.product"), "NVIDIA-H100-80GB-HBM3");
    cr_expect_str_eq(label(&n, "nvidia.com/mps.capable"), "false");
    node_done(&n);
}

Test(gpu_labels, a_card_that_nobody_shares_speaks_for_those_with_shares)
{
    struct node n;
    node_start(&n, "[{model: h100-80, count: 2}]", &(struct setting){0});
    gpu_labels_free(n.labels, n.n_labels);
    n.wants[0] = (struct device_want){.has_sharing = true,
                                      .sharing = {.has_fractional = true,
                                                  .fractional = {.max_shares = 20,
                                                                 .memory_percent = 100,
                                                                 .compute_percent = 100}}};
    n.wants[1] = (struct device_want){0};
    gpu_labels_build(&n.in, &n.labels, &n.n_labels);
    cr_expect_str_eq(label(&n, "nvidia.com/gpu.sharing-strategy"), "none");
    cr_expect_str_eq(label(&n, "nvidia.com/gpu.replicas"), "1");
    node_done(&n);
}

Test(gpu_labels, of_cards_that_are_shared_unequally_the_least_is_said)
{
    struct node n;
    node_start(&n, "[{model: h100-80, count: 2}]", &(struct setting){0});
    gpu_labels_free(n.labels, n.n_labels);
    n.wants[0].has_sharing = n.wants[1].has_sharing = true;
    n.wants[0].sharing.time_slicing.replicas = 8;
    n.wants[1].sharing.time_slicing.replicas = 2;
    gpu_labels_build(&n.in, &n.labels, &n.n_labels);
    cr_expect_str_eq(label(&n, "nvidia.com/gpu.replicas"), "2");
    node_done(&n);
}

Test(gpu_labels, a_long_name_is_cut_and_never_what_follows_it)
{
    check("rtx-pro-6000-single-shared", "[{model: rtx-pro-6000, mig: true}]",
          &(struct setting){.strategy = API_STRATEGY_SINGLE,
                            .replicas = 2,
                            .named = "all-1g.24gb.me.all",
                            .n_cut = 1});
}

/* --- two models --- */

Test(gpu_labels, of_two_models_the_one_with_most_cards_speaks)
{
    check("two-models", "[{model: h100-80, mig: true}, {model: a100-80, count: 2}]",
          &(struct setting){.strategy = API_STRATEGY_MIXED, .named = "all-1g.10gb", .n_cut = 1});
}

Test(gpu_labels, of_two_models_with_as_many_cards_the_first_by_name_speaks)
{
    static const char *const orders[] = {"[{model: h100-80}, {model: a100-80}]",
                                         "[{model: a100-80}, {model: h100-80}]"};
    for (size_t i = 0; i < 2; i++) {
        struct node n;
        node_start(&n, orders[i], &(struct setting){0});
        cr_expect_str_eq(label(&n, "nvidia.com/gpu.product"), "NVIDIA-A100-SXM4-80GB");
        cr_expect_str_eq(label(&n, "nvidia.com/gpu.count"), "1");
        cr_expect_str_eq(label(&n, "gpu.cleave.dev/NVIDIA-H100-80GB-HBM3.count"), "1");
        node_done(&n);
        sim_machine_stop();
        sim_machine_start();
    }
}

Test(gpu_labels, one_profile_of_two_models_is_counted_together)
{
    struct node n;
    node_start(&n, "[{model: h100-80, mig: true}, {model: a100-80, mig: true}]",
               &(struct setting){.strategy = API_STRATEGY_MIXED,
                                 .named = "all-1g.10gb",
                                 .n_cut = 2});
    cr_expect_str_eq(label(&n, "nvidia.com/mig-1g.10gb.count"), "14");
    cr_expect_str_eq(label(&n, "nvidia.com/mig-1g.10gb.product"),
                     "NVIDIA-A100-SXM4-80GB-MIG-1g.10gb");
    cr_expect_str_eq(label(&n, "nvidia.com/mig-1g.10gb.multiprocessors"), "14");
    node_done(&n);
}

/* --- little is known --- */

Test(gpu_labels, without_cards_the_machine_still_says_what_it_has)
{
    struct jx_pair *labels;
    size_t n;
    gpu_labels_build(&(struct gpu_labels_input){.host = &server}, &labels, &n);
    cr_assert_eq(n, 9);
    cr_expect_str_eq(labels[0].key, "feature.node.kubernetes.io/pci-0300_102b.present");
    cr_expect_str_eq(labels[8].key, "nvidia.com/vgpu.present");
    cr_expect_str_eq(labels[8].str, "false");
    gpu_labels_free(labels, n);
}

Test(gpu_labels, nothing_known_is_no_label)
{
    struct jx_pair *labels;
    size_t n;
    gpu_labels_build(&(struct gpu_labels_input){0}, &labels, &n);
    cr_expect_eq(n, 0);
    cr_expect_null(labels);
}

Test(gpu_labels, cards_of_metax_are_told_in_its_own_words)
{
    const struct gpu_driver drivers[] = {{.vendor = "nvidia", .version = "560.1"},
                                         {.vendor = "metax", .version = "2.32.0.6"}};
    const struct gpu_card card = {.vendor = "metax", .model = "MXC500", .memory_mib = 65536};
    const struct gpu_labels_card cards[] = {{.card = &card}, {.card = &card}};
    struct node n = {0};
    n.in =
        (struct gpu_labels_input){.cards = cards, .n_cards = 2, .drivers = drivers, .n_drivers = 2};
    gpu_labels_build(&n.in, &n.labels, &n.n_labels);
    expect_sound(&n);
    cr_expect_str_eq(label(&n, "metax-tech.com/gpu.installed"), "true");
    cr_expect_str_eq(label(&n, "metax-tech.com/gpu.product"), "MXC500");
    cr_expect_str_eq(label(&n, "metax-tech.com/gpu.family"), "MXC");
    cr_expect_str_eq(label(&n, "metax-tech.com/gpu.memory"), "64GB");
    cr_expect_str_eq(label(&n, "metax-tech.com/gpu.driver.major"), "2");
    cr_expect_str_eq(label(&n, "metax-tech.com/gpu.driver.minor"), "32");
    cr_expect_str_eq(label(&n, "metax-tech.com/gpu.driver.patch"), "0");
    cr_expect_str_eq(label(&n, "gpu.cleave.dev/MXC500.count"), "2");
    cr_expect_str_eq(label(&n, "nvidia.com/gpu.product"), "(none)", "they are not NVIDIA's");
    cr_expect_str_eq(label(&n, "nvidia.com/cuda.driver-version.full"), "(none)");
    gpu_labels_stamp(&n.labels, &n.n_labels, NULL, 0, 1);
    cr_expect_str_eq(label(&n, "nvidia.com/gfd.timestamp"), "(none)");
    gpu_labels_free(n.labels, n.n_labels);
}

Test(gpu_labels, a_card_that_tells_nothing_is_counted)
{
    const struct gpu_driver driver = {.vendor = "nvidia", .version = "560.1"};
    const struct gpu_card card = {.vendor = "nvidia"};
    const struct gpu_labels_card cards[] = {{.card = &card}};
    struct node n = {0};
    n.in =
        (struct gpu_labels_input){.cards = cards, .n_cards = 1, .drivers = &driver, .n_drivers = 1};
    gpu_labels_build(&n.in, &n.labels, &n.n_labels);
    expect_sound(&n);
    cr_expect_str_eq(label(&n, "nvidia.com/gpu.product"), "unknown");
    cr_expect_str_eq(label(&n, "nvidia.com/gpu.count"), "1");
    cr_expect_str_eq(label(&n, "nvidia.com/gpu.machine"), "unknown");
    cr_expect_str_eq(label(&n, "nvidia.com/gpu.mode"), "unknown");
    cr_expect_str_eq(label(&n, "nvidia.com/gpu.family"), "(none)");
    cr_expect_str_eq(label(&n, "nvidia.com/cuda.driver-version.revision"), "");
    cr_expect_str_eq(label(&n, "nvidia.com/cuda.runtime-version.full"), "(none)");
    gpu_labels_free(n.labels, n.n_labels);
}

Test(gpu_labels, cards_of_two_classes_have_no_mode_in_common)
{
    const struct gpu_card compute = {.vendor = "nvidia", .pci_class = 0x030200};
    const struct gpu_card graphics = {.vendor = "nvidia", .pci_class = 0x030000};
    const struct gpu_labels_card cards[] = {{.card = &compute}, {.card = &graphics}};
    for (size_t n_cards = 1; n_cards <= 2; n_cards++) {
        struct node n = {.in = {.cards = cards, .n_cards = n_cards}};
        gpu_labels_build(&n.in, &n.labels, &n.n_labels);
        cr_expect_str_eq(label(&n, "nvidia.com/gpu.mode"), n_cards == 1 ? "compute" : "unknown");
        gpu_labels_free(n.labels, n.n_labels);
    }
}

Test(gpu_labels, nothing_is_said_of_virtual_gpus_where_the_kernel_does_not_tell)
{
    const struct host_facts host = {.machine = "m"};
    const struct gpu_card card = {.vendor = "nvidia"};
    const struct gpu_labels_card cards[] = {{.card = &card}};
    struct node n = {.in = {.cards = cards, .n_cards = 1, .host = &host}};
    gpu_labels_build(&n.in, &n.labels, &n.n_labels);
    cr_expect_str_eq(label(&n, "nvidia.com/vgpu.present"), "(none)");
    gpu_labels_free(n.labels, n.n_labels);
}

Test(gpu_labels, a_node_without_cards_gets_none_of_its_pci_devices)
{
    struct host_facts host = {.n_pci = 1, .pci = {{0x0300, 0x1af4, false}}, .pci_known = true};
    struct node n = {.in = {.host = &host}};
    gpu_labels_build(&n.in, &n.labels, &n.n_labels);
    cr_expect_eq(n.n_labels, 0);
    gpu_labels_free(n.labels, n.n_labels);
    host.cards[0] = (struct host_pci_cards){.vendor = "nvidia", .n = 1};
    gpu_labels_build(&n.in, &n.labels, &n.n_labels);
    cr_expect_neq(n.n_labels, 0, "a card whose driver is not loaded yet");
    gpu_labels_free(n.labels, n.n_labels);
}

Test(gpu_labels, names_of_foreign_origin_become_legal)
{
    const struct gpu_driver driver = {.vendor = "nvidia",
                                      .version = "5;7..x-",
                                      .cuda_version = "12.8"};
    const struct gpu_card card = {.vendor = "nvidia",
                                  .model = " <NVIDIA>  (Weird)/Card\xff & more than fits into the "
                                           "sixty-three bytes of a label's value."};
    const struct gpu_labels_card cards[] = {{.card = &card}};
    const struct host_facts host = {.machine = "--\"Standard PC\" (i440FX + PIIX, 1996)..",
                                    .vgpu_known = true,
                                    .vgpu = true,
                                    .vgpu_driver = "460.16\n",
                                    .vgpu_branch = "r460_00"};
    struct node n = {0};
    n.in = (struct gpu_labels_input){.cards = cards,
                                     .n_cards = 1,
                                     .drivers = &driver,
                                     .n_drivers = 1,
                                     .host = &host};
    gpu_labels_build(&n.in, &n.labels, &n.n_labels);
    expect_sound(&n);
    cr_expect_str_eq(label(&n, "nvidia.com/gpu.product"),
                     "NVIDIA-WeirdCard-more-than-fits-into-the-sixty-three-bytes-of-a");
    cr_expect_str_eq(label(&n, "nvidia.com/gpu.machine"), "Standard-PC-i440FX-PIIX-1996");
    cr_expect_str_eq(label(&n, "nvidia.com/vgpu.host-driver-version"), "460.16");
    gpu_labels_free(n.labels, n.n_labels);
}

Test(gpu_labels, a_card_between_two_fabrics_is_in_none)
{
    struct gpu_card a = {.vendor = "nvidia", .model = "A", .fabric = "0e.1"};
    struct gpu_card b = {.vendor = "nvidia", .model = "A", .fabric = "0e.2"};
    const struct gpu_labels_card cards[] = {{.card = &a}, {.card = &b}};
    struct node n = {0};
    n.in = (struct gpu_labels_input){.cards = cards, .n_cards = 2};
    gpu_labels_build(&n.in, &n.labels, &n.n_labels);
    cr_expect_str_eq(label(&n, "nvidia.com/gpu.clique"), "(none)");
    gpu_labels_free(n.labels, n.n_labels);
    (void)snprintf(b.fabric, sizeof(b.fabric), "%s", "");
    gpu_labels_build(&n.in, &n.labels, &n.n_labels);
    cr_expect_str_eq(label(&n, "nvidia.com/gpu.clique"), "0e.1");
    gpu_labels_free(n.labels, n.n_labels);
}

/* --- the timestamp --- */

static struct jx_pair *some_labels(size_t *n, const char *value)
{
    struct gpu_driver driver = {.vendor = "nvidia"};
    const struct gpu_card card = {.vendor = "nvidia", .model = "A"};
    const struct gpu_labels_card cards[] = {{.card = &card}};
    struct jx_pair *labels;
    const struct gpu_labels_input in = {.cards = cards,
                                        .n_cards = 1,
                                        .drivers = &driver,
                                        .n_drivers = 1};
    (void)snprintf(driver.cuda_version, sizeof(driver.cuda_version), "%s", value);
    gpu_labels_build(&in, &labels, n);
    return labels;
}

static const char *stamp_after(const char *before, const char *now)
{
    static char stamp[32];
    size_t n_prev;
    size_t n;
    struct jx_pair *prev = some_labels(&n_prev, before);
    gpu_labels_stamp(&prev, &n_prev, /* prev= */ NULL, 0, 1000);
    struct jx_pair *labels = some_labels(&n, now);
    gpu_labels_stamp(&labels, &n, prev, n_prev, 2000);
    for (size_t i = 0; i < n; i++)
        if (strcmp(labels[i].key, "nvidia.com/gfd.timestamp") == 0)
            (void)snprintf(stamp, sizeof(stamp), "%s", labels[i].str);
    gpu_labels_free(prev, n_prev);
    gpu_labels_free(labels, n);
    return stamp;
}

Test(gpu_labels, the_timestamp_stands_while_nothing_else_changes)
{
    cr_expect_str_eq(stamp_after("12.8", "12.8"), "1000");
}

Test(gpu_labels, the_timestamp_goes_on_with_a_change)
{
    cr_expect_str_eq(stamp_after("12.8", "13.0"), "2000");
    cr_expect_str_eq(stamp_after("12.8", NULL), "2000");
    cr_expect_str_eq(stamp_after(NULL, "12.8"), "2000");
}

Test(gpu_labels, labels_of_no_gpu_have_no_timestamp)
{
    struct jx_pair *labels;
    size_t n;
    gpu_labels_build(&(struct gpu_labels_input){.host = &server}, &labels, &n);
    gpu_labels_stamp(&labels, &n, /* prev= */ NULL, 0, 1000);
    cr_expect_eq(n, 9);
    gpu_labels_free(labels, n);
}
