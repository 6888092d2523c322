/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <string.h>

#include "cluster_support.h"
#include "service/resources.h"

static struct cluster c;

static void setup(void)
{
    cluster_start(&c, /* plan= */ NULL);
    cluster_add_node(&c, "n1", 2);
    cluster_settle(&c);
}

static void teardown(void)
{
    cluster_stop(&c);
}

TestSuite(node_view, .init = setup, .fini = teardown);

static void see(const char *node, struct node_view *ret)
{
    cluster_settle(&c);
    node_view_read(&reconcilers_context(c.reconcilers)->caches, node, ret);
}

#define PROFILE(name, selector)                                                                    \
    "apiVersion: gpu.cleave.dev/v1alpha1\n"                                                        \
    "kind: GPUProfile\n"                                                                           \
    "metadata: {name: " name "}\n"                                                                 \
    "spec: {nodeSelector: {matchLabels: {" selector "}}, devices: [{mode: native}]}\n"

Test(node_view, holds_the_profiles_that_match_by_name)
{
    cluster_apply(&c, PROFILE("q", "pool: a"));
    cluster_apply(&c, PROFILE("p", "pool: a"));
    cluster_apply(&c, PROFILE("x", "pool: b"));
    auto_node_view struct node_view v = {0};
    see("n1", &v);
    cr_assert_eq(v.profiles.count, 2);
    cr_expect_str_eq(object_name(v.profiles.items[0]), "p");
    cr_expect_not_null(node_view_profile(&v, "q"));
    cr_expect_null(node_view_profile(&v, "x"));
}

Test(node_view, holds_the_configs_oldest_first)
{
    static const char *const names[] = {"zulu", "alpha"};
    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        auto_free char *yaml = NULL;
        cr_assert_gt(asprintf(&yaml,
                              "apiVersion: gpu.cleave.dev/v1alpha1\nkind: MIGConfig\n"
                              "metadata: {name: %s}\nspec: {devices: [{migEnabled: false}]}\n",
                              names[i]),
                     0);
        cluster_apply(&c, yaml);
        clock_fake_advance(c.clk, 2000);
    }
    auto_node_view struct node_view v = {0};
    see("n1", &v);
    cr_assert_eq(v.configs.count, 2);
    cr_expect_str_eq(object_name(v.configs.items[0]), "zulu");
}

Test(node_view, gives_each_card_the_table_of_its_model)
{
    auto_node_view struct node_view v = {0};
    see("n1", &v);
    cr_assert_not_null(v.cards[0].table);
    cr_expect_eq(v.cards[0].table, v.cards[1].table);
    cr_expect_eq(v.cards[0].table->memory_slices, 8);
}

Test(node_view, what_is_not_there_is_null)
{
    auto_node_view struct node_view v = {0};
    see("n9", &v);
    cr_expect_null(v.node);
    cr_expect_null(v.device);
    cr_expect_null(node_view_label(&v));
}

Test(node_view, a_profile_that_cannot_be_read_is_left_out)
{
    cluster_apply(&c, PROFILE("p", "pool: a"));
    cluster_patch(&c, &resource_gpuprofiles, "p", NULL, "{spec: {devices: nonsense}}");
    auto_node_view struct node_view v = {0};
    see("n1", &v);
    cr_expect_eq(v.profiles.count, 0);
    auto_free char *accepted = cluster_condition(&c, &resource_gpuprofiles, "p", "Accepted");
    cr_expect_str_eq(accepted, "False Invalid");
}
