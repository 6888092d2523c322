/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "base/jx.h"
#include "base/num.h"
#include "base/sb.h"
#include "base/xalloc.h"
#include "base/yaml.h"

#include "cluster_support.h"
#include "mutation_support.h"
#include "service/resources.h"

/*
 * Each field of each object that the controller reads comes mutated: nothing is deleted, nobody is
 * evicted but the one pod that is in the way, and once the field is right again all is as before.
 * On n1 a card waits for a pod that a budget holds, and another one, of another vendor, is cut into
 * slices; n2 follows the same profile, n3 a label.
 */

enum {
    TEXT_BYTES = 64 * 1024,
    MANY = 100000,
    STEPS = 12,
    MOST_STEPS = 1000,
    SHORT_MS = 30,
    LONG_MS = 300,
    ROUNDS = 3,
    STRIDE = 17
};

static struct cluster c;
static struct kc *mutator;
static char *victim, *bystander; /* uids */
static unsigned touched;
static int evictions;
static struct {
    int removals, evictions, strangers, unguarded;
} did;

static const char policy[] =
    "apiVersion: gpu.cleave.dev/v1alpha1\n"
    "kind: GPUProfile\n"
    "metadata: {name: p}\n"
    "spec:\n"
    "  nodeSelector: {matchLabels: {pool: a}}\n"
    "  priority: 3\n"
    "  devices:\n"
    "  - {selector: {vendor: nvidia, indices: [0]}, mode: mig, mig: {profiles: {3g.40gb: 2}}}\n"
    "  - selector: {vendor: metax}\n"
    "    mode: sgpu\n"
    "    sgpu:\n"
    "      qosPolicy: fixed-share\n"
    "      timesliceMilliseconds: 10\n"
    "      slices: [{alias: small, memoryMiB: 1024, computePercent: 10, count: 2}]\n"
    "  - selector: {vendor: nvidia, indices: [2]}\n"
    "    mode: native\n"
    "    sharing: {fractional: {maxShares: 4, memoryOversubscriptionPercent: 150}}\n"
    "  - {mode: native, sharing: {timeSlicing: {replicas: 4}}}\n"
    "  migStrategy: mixed\n"
    "  rollout: {maxUnavailable: 2, drain: evict, timeoutSeconds: 600}\n"
    "  failurePolicy: rollback\n"
    "---\n"
    "apiVersion: gpu.cleave.dev/v1alpha1\n"
    "kind: MIGConfig\n"
    "metadata: {name: mine}\n"
    "spec:\n"
    "  aliases: [Mine_Too]\n"
    "  devices: [{indices: [0], migEnabled: true, migDevices: {1g.10gb: 3}}]\n";

/* --- Who does what --- */

static void judge_eviction(const struct kc_call *call)
{
    const char *uid = JX_STR_AT(call->write->body, "deleteOptions", "preconditions", "uid");
    did.evictions++;
    did.strangers += strcmp(call->target->name, "victim") != 0;
    did.unguarded += !uid;
}

static int on_call(void *arg, const struct kc_call *call, struct err *e)
{
    (void)arg;
    (void)e;
    if (call->after)
        return 0;
    did.removals += call->verb == KC_REMOVE;
    const char *sub = call->target->subresource;
    if (call->verb == KC_CREATE && sub && strcmp(sub, "eviction") == 0)
        judge_eviction(call);
    return 0;
}

static bool by_budget(void *arg, const char *ns, const char *name)
{
    (void)arg;
    (void)ns;
    (void)name;
    return false;
}

/* --- What there is --- */

static char *add_pod(const char *name)
{
    auto_json json_t *body =
        json_pack("{s:s, s:s, s:{s:s, s:{s:s}}, s:{s:s}}", "apiVersion", "v1", "kind", "Pod",
                  "metadata", "name", name, "labels", "app", "work", "spec", "nodeName", "n1");
    const struct kc_target t = {.res = &resource_pods, .ns = "default"};
    const struct kc_write w = {.body = body};
    auto_json json_t *pod = NULL;
    cr_assert_eq(kc_create(c.api, c.scope, &t, &w, &pod, /* e= */ NULL), 0);
    return xstrdup(JX_STR_AT(pod, "metadata", "uid"));
}

static json_t *partition(const char *uuid, const char *pod, const char *uid)
{
    return json_pack("{s:s, s:s, s:b, s:[{s:i, s:s, s:s, s:s, s:s}]}", "uuid", uuid, "profile",
                     "1g.10gb", "inUse", 1, "inUseBy", "pid", 1, "namespace", "default", "name",
                     pod, "uid", uid, "container", "main");
}

/* n1's second card, as an agent tells of slices that stand; a stranger made the last of them. */
static void slice(json_t *card)
{
    static const char text[] =
        "{vendor: metax, model: C500, pciDeviceID: \"0x40009999\", mode: sgpu, memoryMiB: 65536,"
        " migCapable: false, sgpu: {memoryMiB: 65536, qosPolicy: fixed-share,"
        "  timesliceMilliseconds: 10},"
        " partitions: [{uuid: SGPU-0, profile: small, inUse: true, slice:"
        "  {id: 0, alias: small-0, memoryMiB: 1024, computePercent: 10}},"
        "  {uuid: SGPU-1, profile: small, slice:"
        "  {id: 1, alias: small-1, memoryMiB: 1024, computePercent: 10}},"
        "  {uuid: SGPU-2, slice: {id: 2, memoryMiB: 2048, computePercent: 5, foreign: true}}]}";
    auto_json json_t *told = NULL;
    cr_assert_eq(yaml_load(text, strlen(text), &told, NULL), 0);
    (void)json_object_update(card, told);
}

/* n1's first card waits for MIG-5f0c, which the victim uses; the bystander uses MIG-a3d1. */
static void drain(void)
{
    auto_json json_t *device = cluster_get(&c, &resource_devices, "n1");
    auto_json json_t *cards = json_deep_copy(JX_AT(device, "status", "devices"));
    json_t *card = json_array_get(cards, 0);
    (void)json_object_set_new(card, "mode", json_string("mig"));
    (void)json_object_set_new(card, "partitions",
                              json_pack("[o, o]", partition("MIG-5f0c", "victim", victim),
                                        partition("MIG-a3d1", "bystander", bystander)));
    (void)json_object_set_new(card, "drain",
                              json_pack("{s:s, s:s, s:[s]}", "since", "2027-01-15T08:00:00Z",
                                        "deadline", "2099-01-01T00:00:00Z", "partitions",
                                        "MIG-5f0c"));
    slice(json_array_get(cards, 1));
    auto_json json_t *body =
        json_pack("{s:{s:O, s:O}}", "status", "devices", cards, "observedGeneration",
                  JX_AT(device, "metadata", "generation"));
    auto_free char *text = jx_dump(body);
    cluster_patch(&c, &resource_devices, "n1", "status", text);
}

static void agents(void)
{
    cluster_agent(&c, "n2");
    cluster_agent(&c, "n3");
    drain();
    cluster_settle(&c);
}

static void setup(void)
{
    cluster_start(&c, /* plan= */ NULL);
    mutator = c.reader = mutator_new(c.api);
    cluster_restart(&c);
    kc_fake_on_evict(c.api, by_budget, NULL);
    cluster_add_node(&c, "n1", 3);
    cluster_add_node(&c, "n2", 2);
    cluster_add_node(&c, "n3", 1);
    cluster_label(&c, "n3", "pool", "b");
    cluster_label(&c, "n3", "nvidia.com/mig.config", "mine");
    victim = add_pod("victim");
    bystander = add_pod("bystander");
    cluster_apply(&c, policy);
    kc_fake_hook(c.api, on_call, NULL);
    for (int i = 0; i < 3; i++) {
        cluster_settle(&c);
        agents();
    }
    cr_assert_gt(did.evictions, 0, "somebody is in the way");
}

static void teardown(void)
{
    kc_fake_hook(c.api, NULL, NULL);
    cluster_stop(&c);
    mutator = kc_free(mutator);
    free(victim);
    free(bystander);
}

TestSuite(mutation, .init = setup, .fini = teardown);

/* --- What came of it --- */

static char *state(void)
{
    static const char *const nodes[] = {"n1", "n2", "n3"};
    auto_sb struct sb text = SB_INIT(TEXT_BYTES);
    for (size_t i = 0; i < ARRAY_LEN(nodes); i++) {
        auto_free char *spec = cluster_spec(&c, nodes[i]);
        auto_json json_t *node = cluster_get(&c, &resource_nodes, nodes[i]);
        auto_free char *labels = jx_dump(JX_AT(node, "metadata", "labels"));
        auto_free char *offers = jx_dump(JX_AT(node, "status", "allocatable"));
        sb_addf(&text, "%s: %s\n  %s\n  %s\n", nodes[i], spec, labels, offers);
    }
    auto_free char *profile = cluster_profile(&c, "p");
    auto_free char *accepted = cluster_condition(&c, &resource_migconfigs, "mine", "Accepted");
    sb_addf(&text, "p: %s\nmine: %s\n", profile, accepted);
    return sb_take(&text);
}

/* Something that cannot be read may be tried again for ever: until it was read, and a while. */
static void struggle(const char *what)
{
    int left = STEPS;
    for (int i = 0; i < MOST_STEPS && left > 0; i++) {
        (void)reconcilers_step(c.reconcilers, c.scope);
        clock_fake_advance(c.clk, i < STEPS / 2 ? SHORT_MS : LONG_MS);
        left -= mutator_reads(mutator) > 0;
    }
    cr_expect_eq(left, 0, "%s: it was never read", what);
}

/* The object is sent to everybody who watches it, as it is or as it is to be read. */
static void touch(const struct kc_resource *res, const char *name)
{
    auto_free char *body = xasprintf("{metadata: {annotations: {touched: \"%u\"}}}", ++touched);
    cluster_patch(&c, res, name, /* subresource= */ NULL, body);
}

/* The field is right again. */
static void restore(const struct kc_resource *res, const char *name, const char *what)
{
    mutator_order(mutator, res, name, MUTATION_NONE);
    if (mutation_is_of_identity(what))
        kc_fake_compact(c.api);
    touch(res, name);
    struggle(what);
    cluster_settle(&c);
}

/* All is as before, once the agents have followed. Caller frees the state. */
static char *state_after(const char *before)
{
    char *now = state();
    for (int i = 0; i < ROUNDS && strcmp(now, before) != 0; i++) {
        free(now);
        agents();
        now = state();
    }
    return now;
}

static void expect_harmless(const char *what)
{
    evictions += did.evictions;
    cr_expect_eq(did.removals, 0, "%s: something was deleted", what);
    cr_expect_eq(did.strangers, 0, "%s: another pod was to be evicted", what);
    cr_expect_eq(did.unguarded, 0, "%s: an eviction without a uid", what);
    memset(&did, 0, sizeof(did));
}

/* One in so many; make torture has each. */
static size_t stride(void)
{
    const char *text = getenv("MUTATION_STRIDE");
    int64_t n;
    return text && num_parse(text, 1, MANY, &n, NULL) == 0 ? (size_t)n : STRIDE;
}

/* Mutations of one object. The donors are what others have in the same places. */
static void mutate_all(const struct kc_resource *res, const char *name, const json_t *donor,
                       const json_t *other_donor)
{
    auto_free char *before = state();
    const json_t *const donors[] = {donor, other_donor};
    mutator_donors(mutator, donors);
    size_t n = 0;
    for (; n < MANY; n += stride()) {
        auto_free char *what = NULL;
        auto_json json_t *obj = cluster_get(&c, res, name);
        auto_json json_t *other = mutation_of(obj, donors, n, &what);
        if (!other)
            break;
        mutator_order(mutator, res, name, n);
        touch(res, name);
        struggle(what);
        expect_harmless(what);
        restore(res, name, what);
        auto_free char *after = state_after(before);
        cr_expect_str_eq(after, before, "%s %s: %s\nis left behind:\n%s\nnot:\n%s", res->kind, name,
                         what, after, before);
        expect_harmless(what);
    }
    cr_expect_gt(n, 50);
    cr_expect_gt(evictions, 0, "nobody was in the way all the time");
    cr_log_info("%s %s: up to %zu mutations", res->kind, name, n);
}

Test(mutation, of_a_node_harms_nothing)
{
    auto_json json_t *donor = cluster_get(&c, &resource_nodes, "n2");
    auto_json json_t *other = cluster_get(&c, &resource_nodes, "n3");
    mutate_all(&resource_nodes, "n1", donor, other);
}

Test(mutation, of_a_labelled_node_harms_nothing)
{
    auto_json json_t *donor = cluster_get(&c, &resource_nodes, "n2");
    mutate_all(&resource_nodes, "n3", donor, NULL);
}

/* Its partitions have each other's users, the rest is another Device's. */
static json_t *mixed_up_device(void)
{
    auto_json json_t *other = cluster_get(&c, &resource_devices, "n2");
    json_t *donor = cluster_get(&c, &resource_devices, "n1");
    (void)json_object_set(donor, "metadata", json_object_get(other, "metadata"));
    const json_t *card = json_array_get(JX_AT(donor, "status", "devices"), 0);
    json_t *parts = json_object_get(card, "partitions");
    auto_json json_t *first = json_incref(json_array_get(parts, 0));
    (void)json_array_remove(parts, 0);
    (void)json_array_append(parts, first);
    return donor;
}

Test(mutation, cards_of_two_vendors_are_decided_about)
{
    auto_free char *spec = cluster_spec(&c, "n1");
    cr_expect_str_eq(spec, "0:mig[3g.40gb*2] 1:sgpu 2:native");
}

Test(mutation, of_a_device_harms_nothing)
{
    auto_json json_t *donor = mixed_up_device();
    auto_json json_t *other = cluster_get(&c, &resource_devices, "n3");
    mutate_all(&resource_devices, "n1", donor, other);
}

Test(mutation, of_a_profile_harms_nothing)
{
    mutate_all(&resource_gpuprofiles, "p", NULL, NULL);
}

Test(mutation, of_a_config_harms_nothing)
{
    mutate_all(&resource_migconfigs, "mine", NULL, NULL);
}

Test(mutation, of_a_pod_in_the_way_harms_nothing)
{
    auto_json json_t *donor = cluster_get(&c, &resource_pods, "bystander");
    mutate_all(&resource_pods, "victim", donor, NULL);
}

Test(mutation, of_a_pod_that_is_not_harms_nothing)
{
    auto_json json_t *donor = cluster_get(&c, &resource_pods, "victim");
    mutate_all(&resource_pods, "bystander", donor, NULL);
}
