/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <string.h>

#include "base/jx.h"
#include "base/rfc3339.h"
#include "base/xalloc.h"
#include "base/yaml.h"

#include "cluster_support.h"
#include "interop/metax_cards.h"
#include "interop/node_lock.h"
#include "service/resources.h"

/* The lock of HAMi's scheduler and the annotation by which it knows cards: node_unlock, node_cards
 * and pod_slices. */

static struct cluster c;

#define CARD(index, more)                                                                          \
    "{uuid: GPU-" #index ", index: " #index ", vendor: metax, model: MXC500, memoryMiB: 65536, "   \
    "pciBusID: '0000:38:00.0', numaNode: 1, " more "}"
#define SLICED                                                                                     \
    "healthy: true, mode: sgpu, sgpu: {memoryMiB: 65536, qosPolicy: fixed-share, "                 \
    "timesliceMilliseconds: 1}"

/* The agent's word, beside its models. */
static void say(const char *cards, const char *publisher)
{
    auto_free char *body =
        xasprintf("{status: {devices: [%s], resources: [{name: metax-tech.com/sgpu, count: 16, "
                  "publisher: %s}]}}",
                  cards, publisher);
    cluster_patch(&c, &resource_devices, "n1", "status", body);
    cluster_settle(&c);
}

static void setup(void)
{
    cluster_start(&c, /* plan= */ NULL);
    cluster_add_node(&c, "n1", 1);
    say(CARD(0, SLICED), "kubelet");
}

static void setup_turned_off(void)
{
    cluster_start(&c, /* plan= */ NULL);
    c.without_hami = true;
    cluster_restart(&c);
    cluster_add_node(&c, "n1", 1);
    say(CARD(0, SLICED), "kubelet");
}

static void teardown(void)
{
    cluster_stop(&c);
}

TestSuite(hami, .init = setup, .fini = teardown);
TestSuite(hami_spoiled);
TestSuite(hami_off, .init = setup_turned_off, .fini = teardown);

/* NULL removes it. */
static void annotate(const char *key, const char *value)
{
    auto_json json_t *body = json_pack("{s:{s:{s:o}}}", "metadata", "annotations", key,
                                       value ? json_string(value) : json_null());
    const struct kc_target t = {.res = &resource_nodes, .name = "n1"};
    const struct kc_write w = {.body = body, .how = KC_MERGE, .manager = "other"};
    cr_assert_eq(kc_patch(c.api, c.scope, &t, &w, NULL, NULL), 0);
}

/* "" when absent. Caller frees. */
static char *annotation(const char *key)
{
    auto_json json_t *node = cluster_get(&c, &resource_nodes, "n1");
    const char *text = JX_STR_AT(node, "metadata", "annotations", key);
    return xstrdup(text ? text : "");
}

static void expect_quiet(void)
{
    int before = cluster_writes(&c);
    cluster_settle(&c);
    cr_expect_eq(cluster_writes(&c), before, "it goes on writing");
}

/* --- The lock --- */

static void add_pod(const char *name, const char *limits)
{
    auto_free char *yaml =
        xasprintf("apiVersion: v1\nkind: Pod\nmetadata: {name: %s, namespace: default}\n"
                  "spec: {containers: [{name: main, resources: {limits: {%s}}}]}\n",
                  name, limits);
    cluster_apply(&c, yaml);
}

static void lock_node(const char *pod)
{
    char now[RFC3339_BYTES];
    auto_free char *value =
        xasprintf("%s,default,%s", rfc3339_format(clock_wall_ms(c.clk), now), pod);
    annotate(NODE_LOCK_ANNOTATION, value);
    cluster_settle(&c);
}

static void expect_locked(bool locked)
{
    auto_free char *lock = annotation(NODE_LOCK_ANNOTATION);
    cr_expect_eq(*lock != '\0', locked, "the lock is \"%s\"", lock);
}

Test(hami, the_lock_of_a_pod_with_our_slices_is_released_each_time)
{
    add_pod("a", "metax-tech.com/sgpu: '1'");
    add_pod("b", "metax-tech.com/sgpu: '1'");
    lock_node("a");
    expect_locked(false);
    lock_node("b");
    expect_locked(false);
    lock_node("a");
    expect_locked(false);
    expect_quiet();
}

Test(hami, other_annotations_stay_when_it_is_released)
{
    add_pod("a", "metax-tech.com/sgpu: '1'");
    annotate("site", "x");
    lock_node("a");
    auto_free char *site = annotation("site");
    cr_expect_str_eq(site, "x");
    expect_locked(false);
}

Test(hami, the_lock_of_another_vendors_pod_stays)
{
    add_pod("a", "nvidia.com/gpu: '1'");
    add_pod("b", "metax-tech.com/sgpu: '1', nvidia.com/gpu: '1'");
    lock_node("a");
    expect_locked(true);
    lock_node("b");
    expect_locked(true);
    clock_fake_advance(c.clk, 2 * NODE_LOCK_FORGOTTEN_MS);
    expect_quiet();
    expect_locked(true);
}

Test(hami, a_lock_of_nobody_is_released_when_it_is_forgotten)
{
    lock_node("gone");
    expect_locked(true);
    clock_fake_advance(c.clk, NODE_LOCK_FORGOTTEN_MS - 10000);
    cluster_settle(&c);
    expect_locked(true);
    clock_fake_advance(c.clk, 10000);
    cluster_settle(&c);
    expect_locked(false);
}

Test(hami, a_lock_that_names_no_pod_is_released_when_it_is_forgotten)
{
    char now[RFC3339_BYTES];
    annotate(NODE_LOCK_ANNOTATION, rfc3339_format(clock_wall_ms(c.clk), now));
    cluster_settle(&c);
    expect_locked(true);
    clock_fake_advance(c.clk, NODE_LOCK_FORGOTTEN_MS);
    cluster_settle(&c);
    expect_locked(false);
}

Test(hami, a_lock_that_cannot_be_read_stays)
{
    annotate(NODE_LOCK_ANNOTATION, "what,is,this");
    clock_fake_advance(c.clk, 2 * NODE_LOCK_FORGOTTEN_MS);
    expect_quiet();
    expect_locked(true);
}

Test(hami, a_lock_stays_where_no_slices_are_made_for_pods)
{
    add_pod("a", "metax-tech.com/sgpu: '1'");
    say(CARD(0, "healthy: true, mode: native"), "kubelet");
    lock_node("a");
    expect_locked(true);
    say(CARD(0, SLICED), "other");
    expect_locked(true);
    say(CARD(0, SLICED), "kubelet");
    expect_locked(false);
}

Test(hami, a_lock_that_stood_before_the_controller_is_released)
{
    add_pod("a", "metax-tech.com/sgpu: '1'");
    char now[RFC3339_BYTES];
    auto_free char *value = xasprintf("%s,default,a", rfc3339_format(clock_wall_ms(c.clk), now));
    annotate(NODE_LOCK_ANNOTATION, value);
    cluster_restart(&c);
    cluster_settle(&c);
    expect_locked(false);
}

Test(hami_off, nothing_is_released_and_nothing_told)
{
    add_pod("a", "metax-tech.com/sgpu: '1'");
    lock_node("a");
    expect_locked(true);
    auto_free char *text = annotation(METAX_CARDS_ANNOTATION);
    cr_expect_str_empty(text);
}

/* --- The cards --- */

/* What is told, in one line: "GPU-0:well,16,100,65536 …" with what is available; "" for nothing.
 * Caller frees. */
static char *told(void)
{
    auto_free char *text = annotation(METAX_CARDS_ANNOTATION);
    auto_json json_t *list = NULL;
    char *line = xstrdup("");
    if (!*text)
        return line;
    cr_assert_eq(jx_parse(text, strlen(text), METAX_CARDS_MAX_BYTES, &list, NULL), 0, "%s", text);
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *card = json_array_get(list, i);
        auto_free char *before = line;
        line = xasprintf("%s%s%s:%s,%lld,%lld,%lld", before, i ? " " : "", JX_STR_AT(card, "uuid"),
                         json_is_true(JX_AT(card, "healthy")) ? "well" : "ill",
                         json_integer_value(JX_AT(card, "availableDevCount")),
                         json_integer_value(JX_AT(card, "availableCompute")),
                         json_integer_value(JX_AT(card, "availableVRam")));
    }
    return line;
}

static void expect_told(const char *expected)
{
    auto_free char *line = told();
    cr_expect_str_eq(line, expected);
    expect_quiet();
}

#define FREE ":well,16,100,65536"

Test(hami, hami_is_told_of_cards_whose_slices_are_made_for_pods)
{
    expect_told("GPU-0" FREE);
    say(CARD(0, SLICED) "," CARD(1, "healthy: true, mode: native") "," CARD(2, SLICED), "kubelet");
    expect_told("GPU-0" FREE " GPU-2" FREE);
}

Test(hami, hami_is_told_what_slices_take)
{
    say(CARD(0, SLICED
             ", partitions: [{uuid: s0, profile: sgpu, slice: {id: 0, alias: slot.0, memoryMiB: "
             "1024, computePercent: 10}}]"),
        "kubelet");
    expect_told("GPU-0:well,15,90,64512");
}

Test(hami, a_card_that_is_ill_or_waits_for_something_is_said_to_be_ill)
{
    say(CARD(0, "healthy: false, mode: sgpu") "," CARD(1, SLICED
                                                       ", pendingMode: native") "," CARD(2, SLICED),
        "kubelet");
    expect_told("GPU-0:ill,16,100,65536 GPU-1:ill,16,100,65536 GPU-2" FREE);
}

Test(hami, a_layout_is_nothing_for_hami)
{
    say(CARD(0, SLICED ", partitions: [{uuid: s0, profile: small, slice: {id: 0, alias: "
                       "small.0, memoryMiB: 1024, computePercent: 10}}]"),
        "kubelet");
    expect_told("");
}

Test(hami, what_was_told_goes_with_the_last_card)
{
    say(CARD(0, "healthy: true, mode: native"), "kubelet");
    expect_told("");
}

Test(hami, what_was_told_goes_with_the_device)
{
    cluster_remove(&c, &resource_devices, "n1");
    cluster_settle(&c);
    expect_told("");
}

Test(hami, what_others_said_is_taken_over_and_put_right)
{
    annotate(METAX_CARDS_ANNOTATION, "[{\"uuid\":\"GPU-9\"}]");
    cluster_settle(&c);
    expect_told("GPU-0" FREE);
    annotate(METAX_CARDS_ANNOTATION, NULL);
    cluster_settle(&c);
    expect_told("GPU-0" FREE);
    say(CARD(0, "healthy: true, mode: native"), "kubelet");
    expect_told("");
}

Test(hami, what_others_say_of_a_node_without_our_slices_stays)
{
    say(CARD(0, "healthy: true, mode: native"), "kubelet");
    annotate(METAX_CARDS_ANNOTATION, "[{\"uuid\":\"GPU-9\"}]");
    cluster_settle(&c);
    expect_told("GPU-9:ill,0,0,0");
}

Test(hami, cards_that_another_plugin_serves_are_its_to_tell)
{
    say(CARD(0, SLICED), "other");
    expect_told("");
}

Test(hami, what_was_told_stays_while_the_agents_word_cannot_be_read)
{
    cluster_patch(&c, &resource_devices, "n1", "status", "{status: {devices: 7}}");
    cluster_settle(&c);
    expect_told("GPU-0" FREE);
}

Test(hami, a_card_that_is_ordered_otherwise_is_said_to_be_ill_until_it_is)
{
    cluster_apply(&c, "apiVersion: gpu.cleave.dev/v1alpha1\n"
                      "kind: GPUProfile\n"
                      "metadata: {name: p}\n"
                      "spec: {nodeSelector: {}, devices: [{selector: {vendor: metax}, mode: "
                      "native}]}\n");
    cluster_settle(&c);
    expect_told("GPU-0:ill,16,100,65536");
    say(CARD(0, "healthy: true, mode: native"), "kubelet");
    expect_told("");
}

/* --- What fails --- */

Test(hami_spoiled, what_failed_is_done_again)
{
    static const enum kc_fault faults[] = {KC_FAULT_CONFLICT, KC_FAULT_TIMEOUT_AFTER_COMMIT,
                                           KC_FAULT_UNAVAILABLE, KC_FAULT_CRASH_BEFORE,
                                           KC_FAULT_CRASH_AFTER};
    for (size_t i = 0; i < ARRAY_LEN(faults); i++)
        for (int at = 1; at <= 6; at++) {
            cluster_start(&c, &(struct kc_fault_plan){.fault = faults[i], .at = at});
            cluster_add_node(&c, "n1", 1);
            say(CARD(0, SLICED), "kubelet");
            add_pod("a", "metax-tech.com/sgpu: '1'");
            lock_node("a");
            expect_locked(false);
            expect_told("GPU-0" FREE);
            cluster_stop(&c);
        }
}

Test(hami, a_lock_that_is_taken_while_the_one_before_is_judged_is_judged_for_itself)
{
    add_pod("a", "metax-tech.com/sgpu: '1'");
    add_pod("b", "nvidia.com/gpu: '1'");
    lock_node("b");
    annotate(NODE_LOCK_ANNOTATION, NULL);
    annotate(NODE_LOCK_ANNOTATION, "2027-01-15T08:00:00Z,default,a");
    annotate(NODE_LOCK_ANNOTATION, "2027-01-15T08:00:00Z,default,b");
    cluster_settle(&c);
    expect_locked(true);
}
