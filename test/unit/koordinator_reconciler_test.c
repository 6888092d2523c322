/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <string.h>

#include "base/jx.h"
#include "base/quantity.h"
#include "base/xalloc.h"
#include "base/yaml.h"

#include "api/koordinator.h"
#include "cluster_support.h"
#include "service/resources.h"

static struct cluster c;

static void setup(void)
{
    cluster_start(&c, /* plan= */ NULL);
    cluster_add_node(&c, "n1", 2);
    cluster_settle(&c);
}

static void setup_with_koordinator(void)
{
    setup();
    cluster_install_koordinator(&c);
    cluster_settle(&c);
}

static void teardown(void)
{
    cluster_stop(&c);
}

TestSuite(koordinator_reconciler, .init = setup_with_koordinator, .fini = teardown);
TestSuite(koordinator_absent, .init = setup, .fini = teardown);

/* --- What stands --- */

/* NULL: there is none. New reference. */
static json_t *mirror(void)
{
    json_t *obj = NULL;
    const struct kc_target t = {.res = &resource_koordinator_devices, .name = "n1"};
    (void)!kc_get(c.api, c.scope, &t, &obj, /* e= */ NULL);
    return obj;
}

static const json_t *device_at(const json_t *obj, size_t i)
{
    return json_array_get(JX_AT(obj, "spec", "devices"), i);
}

static void expect_on_node(const char *name, const char *expected)
{
    static const char *const maps[] = {"capacity", "allocatable"};
    auto_json json_t *node = cluster_get(&c, &resource_nodes, "n1");
    for (size_t i = 0; i < ARRAY_LEN(maps); i++) {
        const char *is = JX_STR_AT(node, "status", maps[i], name);
        cr_expect_str_eq(is ? is : "", expected, "%s of %s", maps[i], name);
    }
}

/* Of 81559 MiB each. */
static void expect_cards(int n)
{
    auto_free char *hundreds = n ? xasprintf("%d", 100 * n) : xstrdup("");
    auto_free char *memory = n ? quantity_format_binary((INT64_C(81559) << 20) * n) : xstrdup("");
    expect_on_node(KOORDINATOR_GPU, hundreds);
    expect_on_node(KOORDINATOR_CORE, hundreds);
    expect_on_node(KOORDINATOR_RATIO, hundreds);
    expect_on_node(KOORDINATOR_SHARED, hundreds);
    expect_on_node(KOORDINATOR_MEMORY, memory);
}

static void expect_quiet(void)
{
    int before = cluster_writes(&c);
    cluster_settle(&c);
    cr_expect_eq(cluster_writes(&c), before, "it goes on writing");
}

/* --- What happens --- */

/* The agent's word on both cards, beside what it said. */
static void say(const char *first, const char *second)
{
    auto_free char *body = xasprintf(
        "{status: {devices: [{uuid: GPU-n1-0, index: 0, vendor: nvidia, memoryMiB: 81559, %s},"
        " {uuid: GPU-n1-1, index: 1, vendor: nvidia, memoryMiB: 81559, %s}]}}",
        first, second);
    cluster_patch(&c, &resource_devices, "n1", "status", body);
    cluster_settle(&c);
}

#define WELL "healthy: true"
#define ILL                                                                                        \
    "healthy: false, conditions: [{type: Healthy, status: 'False', reason: XidError, message: x,"  \
    " lastTransitionTime: '2026-01-01T00:00:00Z'}]"

static void patch_mirror(const char *manager, const char *merge_patch)
{
    auto_json json_t *body = NULL;
    const struct kc_target t = {.res = &resource_koordinator_devices, .name = "n1"};
    cr_assert_eq(yaml_load(merge_patch, strlen(merge_patch), &body, NULL), 0);
    const struct kc_write w = {.body = body, .how = KC_MERGE, .manager = manager};
    cr_assert_eq(kc_patch(c.api, c.scope, &t, &w, NULL, NULL), 0);
    cluster_settle(&c);
}

static void create_mirror(const char *manager, const char *text)
{
    auto_json json_t *body = NULL;
    const struct kc_target t = {.res = &resource_koordinator_devices};
    cr_assert_eq(yaml_load(text, strlen(text), &body, NULL), 0);
    const struct kc_write w = {.body = body, .manager = manager};
    cr_assert_eq(kc_create(c.api, c.scope, &t, &w, NULL, NULL), 0);
}

/* --- Without Koordinator --- */

Test(koordinator_absent, nothing_is_written)
{
    auto_json json_t *obj = mirror();
    cr_expect_null(obj);
    expect_cards(0);
    expect_quiet();
}

Test(koordinator_absent, a_kind_that_is_not_established_yet_is_none)
{
    cluster_install_koordinator(&c);
    cluster_patch(&c, &resource_crds, KOORDINATOR_CRD, "status",
                  "{status: {conditions: [{type: Established, status: 'False'}]}}");
    cluster_settle(&c);
    auto_json json_t *obj = mirror();
    cr_expect_null(obj);
    expect_cards(0);
}

Test(koordinator_absent, a_device_that_koordlet_made_is_left_alone)
{
    create_mirror("koordlet", "apiVersion: scheduling.koordinator.sh/v1alpha1\n"
                              "kind: Device\n"
                              "metadata: {name: n1}\n"
                              "spec: {devices: [{type: rdma, health: true}]}\n");
    cluster_install_koordinator(&c);
    cluster_settle(&c);
    auto_json json_t *obj = mirror();
    cr_expect_str_eq(JX_STR_AT(device_at(obj, 0), "type"), "rdma");
    expect_cards(0); /* it has none to give out */
    expect_quiet();
}

/* A card, as koordlet writes it. */
#define GPU(minor, health)                                                                         \
    "{type: gpu, id: GPU-n1-" #minor ", minor: " #minor ", health: " #health                       \
    ", resources: {koordinator.sh/gpu-core: '100', koordinator.sh/gpu-memory: 81559Mi,"            \
    " koordinator.sh/gpu-memory-ratio: '100'}}"
#define KOORDLETS(devices)                                                                         \
    "apiVersion: scheduling.koordinator.sh/v1alpha1\n"                                             \
    "kind: Device\n"                                                                               \
    "metadata: {name: n1, labels: {node.koordinator.sh/gpu-vendor: nvidia}}\n"                     \
    "spec: {devices: [" devices "]}\n"

/* koord-manager computes them from the Device, and writes the Node when they differ from its own:
 * two who differ would write for ever. */
Test(koordinator_absent, of_koordlets_device_the_node_shows_what_it_says)
{
    create_mirror("koordlet", KOORDLETS(GPU(0, true) ", " GPU(1, false) ", {type: rdma,"
                                                                        " health: true}"));
    cluster_install_koordinator(&c);
    cluster_settle(&c);
    expect_cards(1); /* the agent says that both are well */
    patch_mirror("koordlet", "{spec: {devices: [" GPU(0, true) ", " GPU(1, true) "]}}");
    expect_cards(2);
    say(ILL, WELL);
    expect_cards(2);
    patch_mirror("koordlet", "{spec: {devices: [" GPU(0, false) ", " GPU(1, true) "]}}");
    expect_cards(1);
    cluster_remove(&c, &resource_koordinator_devices, "n1");
    cluster_settle(&c);
    expect_cards(1); /* by a Device of our own */
    expect_quiet();
}

Test(koordinator_absent, of_koordlets_device_of_another_vendor_there_is_no_gpu)
{
    create_mirror("koordlet", KOORDLETS(GPU(0, true) ", " GPU(1, true)));
    patch_mirror("koordlet", "{metadata: {labels: {node.koordinator.sh/gpu-vendor: huawei}}}");
    cluster_install_koordinator(&c);
    cluster_settle(&c);
    expect_on_node(KOORDINATOR_GPU, "");
    expect_on_node(KOORDINATOR_CORE, "200");
}

Test(koordinator_absent, a_device_that_somebody_made_by_hand_is_left_alone)
{
    create_mirror("kubectl-create", "apiVersion: scheduling.koordinator.sh/v1alpha1\n"
                                    "kind: Device\n"
                                    "metadata: {name: n1}\n"
                                    "spec: {devices: [{type: gpu, id: x, health: true}]}\n");
    cluster_install_koordinator(&c);
    cluster_settle(&c);
    auto_json json_t *obj = mirror();
    cr_expect_str_eq(JX_STR_AT(device_at(obj, 0), "id"), "x");
}

Test(koordinator_absent, an_empty_device_is_filled)
{
    create_mirror("kubectl-create", "apiVersion: scheduling.koordinator.sh/v1alpha1\n"
                                    "kind: Device\n"
                                    "metadata: {name: n1}\n");
    cluster_install_koordinator(&c);
    cluster_settle(&c);
    auto_json json_t *obj = mirror();
    cr_expect_eq(json_array_size(JX_AT(obj, "spec", "devices")), 2);
}

/* --- With it --- */

Test(koordinator_reconciler, the_device_and_the_resources_appear_with_the_kind)
{
    auto_json json_t *obj = mirror();
    auto_json json_t *node = cluster_get(&c, &resource_nodes, "n1");
    cr_assert_not_null(obj);
    cr_expect_str_eq(JX_STR_AT(obj, "metadata", "labels", KOORDINATOR_LABEL_VENDOR), "nvidia");
    cr_expect_str_eq(JX_STR_AT(obj, "metadata", "labels", KOORDINATOR_LABEL_MODEL),
                     "H100-80GB-HBM3");
    cr_expect_str_eq(JX_STR_AT(obj, "metadata", "labels", KOORDINATOR_LABEL_DRIVER), "570.86.15");
    cr_expect_str_eq(JX_STR_AT(device_at(obj, 1), "id"), "GPU-n1-1");
    const json_t *owner = json_array_get(JX_AT(obj, "metadata", "ownerReferences"), 0);
    cr_expect_str_eq(JX_STR_AT(owner, "kind"), "Node");
    cr_expect_str_eq(JX_STR_AT(owner, "uid"), JX_STR_AT(node, "metadata", "uid"));
    cr_expect(json_is_true(JX_AT(owner, "controller")));
    expect_cards(2);
    expect_quiet();
}

Test(koordinator_reconciler, a_card_that_fails_is_not_healthy_and_counts_no_more)
{
    say(WELL, ILL);
    auto_json json_t *obj = mirror();
    const json_t *condition = json_array_get(JX_AT(device_at(obj, 1), "conditions"), 0);
    cr_expect(json_is_true(JX_AT(device_at(obj, 0), "health")));
    cr_expect(json_is_false(JX_AT(device_at(obj, 1), "health")));
    cr_expect_str_eq(JX_STR_AT(condition, "reason"), "XidError");
    cr_expect_str_eq(JX_STR_AT(condition, "lastTransitionTime"), "2026-01-01T00:00:00Z");
    expect_cards(1);
    expect_quiet();
}

Test(koordinator_reconciler, when_all_cards_have_failed_the_names_go)
{
    say(ILL, ILL);
    expect_cards(0);
    say(WELL, WELL);
    expect_cards(2);
}

Test(koordinator_reconciler, what_a_kubelet_resets_is_applied_again)
{
    cluster_patch(
        &c, &resource_nodes, "n1", "status",
        "{status: {capacity: {koordinator.sh/gpu-core: '0', koordinator.sh/gpu-memory: '0'},"
        " allocatable: {koordinator.sh/gpu-core: '0', koordinator.sh/gpu-memory: '0'}}}");
    cluster_settle(&c);
    expect_cards(2);
}

Test(koordinator_reconciler, labels_and_annotations_of_others_stay)
{
    patch_mirror("admin", "{metadata: {labels: {site: a}, annotations: {note: b}}}");
    say(WELL, ILL);
    auto_json json_t *obj = mirror();
    cr_expect_str_eq(JX_STR_AT(obj, "metadata", "labels", "site"), "a");
    cr_expect_str_eq(JX_STR_AT(obj, "metadata", "annotations", "note"), "b");
    cr_expect(json_is_false(JX_AT(device_at(obj, 1), "health")));
}

Test(koordinator_reconciler, what_somebody_changes_by_hand_is_put_right)
{
    patch_mirror("admin", "{spec: {devices: []}}");
    auto_json json_t *obj = mirror();
    cr_expect_eq(json_array_size(JX_AT(obj, "spec", "devices")), 2);
    expect_quiet();
}

Test(koordinator_reconciler, what_koordlet_takes_over_is_its_own)
{
    patch_mirror("koordlet", "{spec: {devices: [{type: rdma, health: true}]}}");
    auto_json json_t *obj = mirror();
    cr_expect_str_eq(JX_STR_AT(device_at(obj, 0), "type"), "rdma");
    cluster_remove(&c, &resource_devices, "n1");
    cluster_settle(&c);
    auto_json json_t *still = mirror();
    cr_expect_not_null(still);
}

Test(koordinator_reconciler, groups_come_with_links_and_go_with_them)
{
    say("healthy: true, linkedWith: [1]", "healthy: true, linkedWith: [0]");
    auto_json json_t *obj = mirror();
    cr_expect_not_null(JX_AT(obj, "metadata", "annotations", KOORDINATOR_PARTITIONS));
    cr_expect_str_eq(JX_STR_AT(obj, "metadata", "labels", KOORDINATOR_LABEL_POLICY), "Prefer");
    say(WELL, WELL);
    auto_json json_t *after = mirror();
    cr_expect_null(JX_AT(after, "metadata", "annotations", KOORDINATOR_PARTITIONS));
    cr_expect_null(JX_AT(after, "metadata", "labels", KOORDINATOR_LABEL_POLICY));
}

Test(koordinator_reconciler, a_policy_that_an_administrator_set_stays)
{
    patch_mirror("admin",
                 "{metadata: {labels: {node.koordinator.sh/gpu-partition-policy: Honor}}}");
    say("healthy: true, linkedWith: [1]", "healthy: true, linkedWith: [0]");
    say(WELL, WELL);
    auto_json json_t *obj = mirror();
    cr_expect_str_eq(JX_STR_AT(obj, "metadata", "labels", KOORDINATOR_LABEL_POLICY), "Honor");
}

Test(koordinator_reconciler, turned_off_it_takes_its_resources_back)
{
    c.without_koordinator = true;
    cluster_restart(&c);
    cluster_settle(&c);
    expect_cards(0);
}

Test(koordinator_reconciler, a_card_that_is_ordered_cut_is_withdrawn_before_the_order)
{
    cluster_label(&c, "n1", "nvidia.com/mig.config", "all-1g.10gb");
    cluster_settle(&c);
    auto_json json_t *obj = mirror();
    cr_expect(json_is_false(JX_AT(device_at(obj, 0), "health")));
    expect_cards(0);
}

Test(koordinator_reconciler, cards_that_are_cut_are_gone_and_the_device_with_the_last)
{
    cluster_label(&c, "n1", "nvidia.com/mig.config", "all-1g.10gb");
    cluster_settle(&c);
    cluster_agent(&c, "n1");
    cluster_settle(&c);
    auto_json json_t *obj = mirror();
    cr_expect_null(obj);
    expect_cards(0);
    cluster_label(&c, "n1", "nvidia.com/mig.config", "all-disabled");
    cluster_settle(&c);
    cluster_agent(&c, "n1");
    cluster_settle(&c);
    auto_json json_t *again = mirror();
    cr_expect_not_null(again);
    expect_cards(2);
}

Test(koordinator_reconciler, garbage_in_the_status_takes_nothing_away)
{
    cluster_patch(&c, &resource_devices, "n1", "status", "{status: {devices: 7}}");
    cluster_settle(&c);
    auto_json json_t *obj = mirror();
    cr_expect_eq(json_array_size(JX_AT(obj, "spec", "devices")), 2);
    expect_cards(2);
}

Test(koordinator_reconciler, all_goes_with_the_node_s_device)
{
    cluster_remove(&c, &resource_devices, "n1");
    cluster_settle(&c);
    auto_json json_t *obj = mirror();
    cr_expect_null(obj);
    expect_cards(0);
}

Test(koordinator_reconciler, the_resources_go_with_the_kind)
{
    cluster_remove(&c, &resource_koordinator_devices, "n1");
    cluster_remove(&c, &resource_crds, KOORDINATOR_CRD);
    cluster_settle(&c);
    expect_cards(0);
}

Test(koordinator_reconciler, all_comes_back_with_the_kind)
{
    cluster_remove(&c, &resource_koordinator_devices, "n1");
    cluster_remove(&c, &resource_crds, KOORDINATOR_CRD);
    cluster_settle(&c);
    cluster_install_koordinator(&c);
    cluster_settle(&c);
    auto_json json_t *obj = mirror();
    cr_expect_eq(json_array_size(JX_AT(obj, "spec", "devices")), 2);
    expect_cards(2);
    expect_quiet();
}

Test(koordinator_reconciler, a_new_process_finds_everything_as_it_should_be)
{
    cluster_restart(&c);
    cluster_settle(&c);
    cr_expect_eq(cluster_writes(&c), 0);
    expect_cards(2);
}

/* --- Torture: a short story, with each write of the controller's spoiled in its turn --- */

static char *end_state(void)
{
    auto_json json_t *node = cluster_get(&c, &resource_nodes, "n1");
    auto_free char *offers = jx_dump(JX_AT(node, "status"));
    auto_free char *cards = cluster_mirror(&c, "n1");
    return xasprintf("%s\n%s", cards, offers);
}

static void tell_story(void)
{
    cluster_add_node(&c, "n1", 2);
    cluster_install_koordinator(&c);
    cluster_settle(&c);
    say(WELL, ILL);
    say(WELL, WELL);
    cluster_label(&c, "n1", "nvidia.com/mig.config", "all-1g.10gb");
    cluster_settle(&c);
    cluster_agent(&c, "n1");
    cluster_settle(&c);
    cluster_label(&c, "n1", "nvidia.com/mig.config", "all-disabled");
    cluster_settle(&c);
    cluster_agent(&c, "n1");
    cluster_settle(&c);
    say(ILL, WELL);
}

/* False: there was no such write. */
static bool survives(enum kc_fault fault, int at, const char *expected)
{
    const struct kc_fault_plan plan = {.fault = fault, .at = at};
    cluster_start(&c, &plan);
    tell_story();
    bool fired = c.died || kc_fault_fired(c.own);
    auto_free char *end = end_state();
    cr_expect_str_eq(end, expected, "%s at write %d", kc_fault_name(fault), at);
    expect_quiet();
    cluster_stop(&c);
    return fired;
}

static void torture(enum kc_fault fault)
{
    int at = 1;
    cluster_start(&c, /* plan= */ NULL);
    tell_story();
    auto_free char *expected = end_state();
    cluster_stop(&c);
    cr_assert_eq(strncmp(expected, "0:ill 1:well\n", 13), 0, "%s", expected);
    while (survives(fault, at, expected))
        at++;
    cr_expect_gt(at, 10, "the story is too short to tell anything");
}

Test(koordinator_torture, any_write_may_conflict)
{
    torture(KC_FAULT_CONFLICT);
}

Test(koordinator_torture, the_answer_to_any_write_may_be_lost)
{
    torture(KC_FAULT_TIMEOUT_AFTER_COMMIT);
}

Test(koordinator_torture, the_process_may_die_before_any_write)
{
    torture(KC_FAULT_CRASH_BEFORE);
}
