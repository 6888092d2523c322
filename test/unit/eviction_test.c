/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <string.h>

#include "base/jx.h"
#include "base/xalloc.h"

#include "cluster_support.h"
#include "reconcilers/eviction.h"
#include "service/resources.h"

static struct cluster c;

static void setup(void)
{
    cluster_start(&c, /* plan= */ NULL);
    cluster_add_node(&c, "n1", 1);
}

static void teardown(void)
{
    cluster_stop(&c);
}

TestSuite(eviction, .init = setup, .fini = teardown);

/* Returns the pod's uid; the caller frees. meta_take is what else its metadata says. */
static char *add_pod_with(const char *name, const char *node, json_t *meta_take)
{
    (void)json_object_set_new(meta_take, "name", json_string(name));
    auto_json json_t *body = json_pack("{s:s, s:s, s:o, s:{s:s}}", "apiVersion", "v1", "kind",
                                       "Pod", "metadata", meta_take, "spec", "nodeName", node);
    const struct kc_target t = {.res = &resource_pods, .ns = "default"};
    const struct kc_write w = {.body = body};
    auto_json json_t *pod = NULL;
    cr_assert_eq(kc_create(c.api, c.scope, &t, &w, &pod, /* e= */ NULL), 0);
    return xstrdup(JX_STR_AT(pod, "metadata", "uid"));
}

static char *add_pod(const char *name, const char *node)
{
    return add_pod_with(name, node, json_object());
}

static json_t *owned_by(const char *kind, bool controller)
{
    return json_pack("{s:[{s:s, s:s, s:s, s:s, s:b}]}", "ownerReferences", "apiVersion", "apps/v1",
                     "kind", kind, "name", "o", "uid", "u", "controller", controller);
}

static bool has_pod(const char *name)
{
    const struct kc_target t = {.res = &resource_pods, .ns = "default", .name = name};
    return kc_get(c.api, c.scope, &t, /* ret_obj= */ NULL, /* e= */ NULL) == 0;
}

static void profile(const char *drain)
{
    auto_free char *yaml = xasprintf("apiVersion: gpu.cleave.dev/v1alpha1\n"
                                     "kind: GPUProfile\n"
                                     "metadata: {name: p}\n"
                                     "spec:\n"
                                     "  nodeSelector: {}\n"
                                     "  devices: [{mode: mig, mig: {profiles: {3g.40gb: 2}}}]\n"
                                     "  rollout: {drain: %s}\n",
                                     drain);
    cluster_apply(&c, yaml);
    cluster_settle(&c);
}

static json_int_t generation(void)
{
    auto_json json_t *device = cluster_get(&c, &resource_devices, "n1");
    return json_integer_value(JX_AT(device, "metadata", "generation"));
}

/* The card waits for partition MIG-0, which the pod of this uid uses; another one uses MIG-1. */
static void drain_of(bool card_too, json_int_t observed, const char *uid, const char *bystander,
                     const char *deadline)
{
    auto_json json_t *device = cluster_get(&c, &resource_devices, "n1");
    auto_json json_t *cards = json_deep_copy(JX_AT(device, "status", "devices"));
    json_t *card = json_array_get(cards, 0);
    (void)json_object_set_new(
        card, "partitions",
        json_pack("[{s:s, s:s, s:b, s:[{s:i, s:s}]}, {s:s, s:s, s:b, s:[{s:i, s:s}]}]", "uuid",
                  "MIG-0", "profile", "1g.10gb", "inUse", 1, "inUseBy", "pid", 1, "uid", uid,
                  "uuid", "MIG-1", "profile", "1g.10gb", "inUse", 1, "inUseBy", "pid", 2, "uid",
                  bystander));
    (void)json_object_set_new(card, "drain",
                              json_pack("{s:s, s:s, s:b, s:[s]}", "since", "2027-01-15T08:00:00Z",
                                        "deadline", deadline, "card", card_too, "partitions",
                                        "MIG-0"));
    auto_json json_t *patch =
        json_pack("{s:{s:I, s:O}}", "status", "observedGeneration", observed, "devices", cards);
    auto_free char *text = jx_dump(patch);
    cluster_patch(&c, &resource_devices, "n1", "status", text);
    cluster_settle(&c);
}

static void drain_for(json_int_t observed, const char *uid, const char *bystander,
                      const char *deadline)
{
    drain_of(/* card_too= */ false, observed, uid, bystander, deadline);
}

static void drain(const char *uid, const char *bystander, const char *deadline)
{
    drain_for(generation(), uid, bystander, deadline);
}

#define LATER  "2099-01-01T00:00:00Z"
#define BEFORE "2020-01-01T00:00:00Z"

Test(eviction, evicts_who_is_in_the_way_and_nobody_else)
{
    auto_free char *uid = add_pod("victim", "n1");
    auto_free char *bystander = add_pod("bystander", "n1");
    profile("evict");
    drain(uid, bystander, LATER);
    cr_expect_not(has_pod("victim"));
    cr_expect(has_pod("bystander"));
    cr_expect_eq(cluster_count_events(&c, "victim", "Evicted",
                                      "n1 whose layout must change: GPUProfile p wants "
                                      "NVIDIA GPU 0 as mig 3g.40gb*2"),
                 1);
}

/* What a new leader finds: an order of its predecessor, and a policy that has changed since. */
Test(eviction, nobody_has_to_go_for_an_order_that_policy_no_longer_gives)
{
    struct device_want ordered = {.uuid = (char[]){"GPU-0"}, .mode = API_MODE_MIG};
    ordered.has_rollout = true;
    ordered.rollout.drain = API_DRAIN_EVICT;
    struct device_want other = ordered;
    other.mode = API_MODE_NATIVE;
    struct drain_pod in_the_way = {.uid = (char[]){"u1"}};
    struct card_record card = {.uuid = (char[]){"GPU-0"},
                               .draining = true,
                               .drain_pods = &in_the_way,
                               .n_drain_pods = 1};
    const struct device_record device = {.spec = {.devices = &ordered, .n_devices = 1},
                                         .cards = &card,
                                         .n_cards = 1};
    const struct {
        struct device_spec policy;
        size_t evicted;
    } cases[] = {{{.devices = &ordered, .n_devices = 1}, 1},
                 {{.devices = &other, .n_devices = 1}, 0},
                 {{.devices = NULL}, 0}};
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        size_t n;
        auto_free const struct drain_pod **pods =
            eviction_pods(&device, &cases[i].policy, /* now_ms= */ 0, &n);
        cr_expect_eq(n, cases[i].evicted, "case %zu", i);
        cr_expect_eq(pods == NULL, n == 0);
    }
}

static bool is_meant(const char *created, const struct drain_pod *p)
{
    auto_json json_t *pod =
        json_pack("{s:{s:s, s:s, s:s, s:s}}", "metadata", "uid", "u1", "namespace", "team", "name",
                  "pod-1", "creationTimestamp", created);
    return eviction_is_meant(pod, &p, 1);
}

/* One of them was read otherwise than it was written: it may be anybody. */
Test(eviction, pod_whose_uid_and_name_are_not_of_one_pod_is_not_meant)
{
    struct drain_pod p = {.uid = (char[]){"u1"}, .ns = (char[]){"team"}, .name = (char[]){"pod-1"}};
    cr_expect(is_meant("2026-01-02T03:04:05Z", &p));
    p.name = (char[]){"pod-2"};
    cr_expect_not(is_meant("2026-01-02T03:04:05Z", &p));
    p.name = NULL;
    cr_expect(is_meant("2026-01-02T03:04:05Z", &p));
}

/* The kubelet names who was given a device, and tells no uid. */
Test(eviction, pod_known_by_name_is_meant_unless_it_came_after_the_drain_began)
{
    struct drain_pod p = {.ns = (char[]){"team"}, .name = (char[]){"pod-1"}};
    p.since_ms = 1767323045500; /* 2026-01-02T03:04:05.5Z */
    cr_expect(is_meant("2026-01-02T03:04:05Z", &p));
    cr_expect_not(is_meant("2026-01-02T03:04:06Z", &p));
    p.ns = (char[]){"other"};
    cr_expect_not(is_meant("2026-01-02T03:04:05Z", &p));
    p = (struct drain_pod){.uid = (char[]){"u2"},
                           .ns = (char[]){"team"},
                           .name = (char[]){"pod-1"}};
    cr_expect_not(is_meant("2026-01-02T03:04:05Z", &p), "a uid that is told decides");
}

/* What the agent says about an older spec tells nothing about who is in the way of this one. */
Test(eviction, who_was_in_the_way_of_an_older_spec_stays)
{
    auto_free char *uid = add_pod("victim", "n1");
    profile("evict");
    drain_for(generation() - 1, uid, "x", LATER);
    cr_expect(has_pod("victim"));
    drain(uid, "x", LATER);
    cr_expect_not(has_pod("victim"));
}

Test(eviction, refuse_if_in_use_evicts_nobody)
{
    auto_free char *uid = add_pod("victim", "n1");
    profile("refuseIfInUse");
    drain(uid, "x", LATER);
    cr_expect(has_pod("victim"));
}

Test(eviction, a_pod_of_the_same_name_and_another_uid_is_left_alone)
{
    auto_free char *old = add_pod("victim", "n1");
    profile("evict");
    cluster_remove(&c, &resource_pods, "victim");
    auto_free char *again = add_pod("victim", "n1");
    cr_assert_str_neq(again, old);
    drain(old, "x", LATER);
    cr_expect(has_pod("victim"));
}

Test(eviction, a_pod_of_another_node_is_left_alone)
{
    auto_free char *uid = add_pod("elsewhere", "n2");
    profile("evict");
    drain(uid, "x", LATER);
    cr_expect(has_pod("elsewhere"));
}

Test(eviction, after_the_deadline_nobody_is_evicted)
{
    auto_free char *uid = add_pod("victim", "n1");
    profile("evict");
    drain(uid, "x", BEFORE);
    cr_expect(has_pod("victim"));
}

static bool allowed;
static int asked;

static bool may_evict(void *arg, const char *ns, const char *name)
{
    (void)arg;
    (void)ns;
    (void)name;
    asked++;
    return allowed;
}

Test(eviction, a_disruption_budget_holds_and_is_asked_again)
{
    auto_free char *uid = add_pod("victim", "n1");
    profile("evict");
    allowed = false;
    kc_fake_on_evict(c.api, may_evict, NULL);
    drain(uid, "x", LATER);
    cr_expect(has_pod("victim"));
    cr_expect(cluster_has_event(&c, "n1", "EvictionBlocked"));
    int before = asked;
    clock_fake_advance(c.clk, 5000);
    cluster_settle(&c);
    cr_expect_gt(asked, before);
    allowed = true;
    clock_fake_advance(c.clk, 5000);
    cluster_settle(&c);
    cr_expect_not(has_pod("victim"));
}

/* As a server answers when two evictions write one budget at the same time. */
static int conflict_once(void *arg, const struct kc_call *call, struct err *e)
{
    bool *done = arg;
    if (call->after || call->verb != KC_CREATE || !call->target->name ||
        strcmp(call->target->name, "victim") != 0 || *done)
        return 0;
    *done = true;
    return err_set(e, ERR_CONFLICT, "the object has been modified");
}

Test(eviction, a_conflict_is_tried_again)
{
    auto_free char *uid = add_pod("victim", "n1");
    bool done = false;
    profile("evict");
    kc_fake_hook(c.api, conflict_once, &done);
    drain(uid, "x", LATER);
    cr_expect(done);
    clock_fake_advance(c.clk, 5000);
    cluster_settle(&c);
    cr_expect_not(has_pod("victim"));
}

/* As a server answers for a pod with two disruption budgets. */
static int refuse_stubborn(void *arg, const struct kc_call *call, struct err *e)
{
    (void)arg;
    if (call->after || call->verb != KC_CREATE || !call->target->name ||
        strcmp(call->target->name, "a-stubborn") != 0)
        return 0;
    return err_set(e, ERR_UNAVAILABLE, "more than one PodDisruptionBudget");
}

Test(eviction, a_pod_that_cannot_go_does_not_keep_the_others)
{
    auto_free char *stubborn = add_pod("a-stubborn", "n1");
    auto_free char *other = add_pod("other", "n1");
    profile("evict");
    kc_fake_hook(c.api, refuse_stubborn, NULL);
    drain(other, "x", LATER);
    cr_assert_not(has_pod("other"), "it can go alone");
    auto_free char *third = add_pod("third", "n1");
    drain_of(/* card_too= */ true, generation(), stubborn, third, LATER);
    cr_expect_not(has_pod("third"));
    cr_expect(has_pod("a-stubborn"));
}

Test(eviction, a_pod_that_is_ending_is_not_pushed_again)
{
    kc_fake_pods_linger(c.api, true);
    auto_free char *uid = add_pod("victim", "n1");
    profile("evict");
    allowed = true;
    asked = 0;
    kc_fake_on_evict(c.api, may_evict, NULL);
    drain(uid, "x", LATER);
    drain(uid, "y", LATER);
    cr_expect_eq(asked, 1);
}

/* It would be back at once, for ever. */
Test(eviction, a_pod_of_a_daemonset_is_told_of_and_left_alone)
{
    auto_free char *daemon = add_pod_with("a-daemon", "n1", owned_by("DaemonSet", true));
    auto_free char *other = add_pod("other", "n1");
    profile("evict");
    drain_of(/* card_too= */ true, generation(), daemon, other, LATER);
    cr_expect(has_pod("a-daemon"));
    cr_expect_not(has_pod("other"), "others go all the same");
    cr_expect(cluster_has_event(&c, "n1", "EvictionFutile"));
}

/* Nobody would tell of it: pods are not watched. */
Test(eviction, a_pod_left_alone_goes_once_it_was_orphaned)
{
    auto_free char *daemon = add_pod_with("a-daemon", "n1", owned_by("DaemonSet", true));
    profile("evict");
    drain(daemon, "x", LATER);
    cr_assert(has_pod("a-daemon"));
    cluster_patch(&c, &resource_pods, "a-daemon", /* subresource= */ NULL,
                  "metadata: {ownerReferences: null}");
    clock_fake_advance(c.clk, 30000);
    cluster_settle(&c);
    cr_expect_not(has_pod("a-daemon"));
}

Test(eviction, who_would_be_back_at_once_is_known_by_its_marks)
{
    struct {
        json_t *meta;
        bool futile;
    } cases[] = {
        {json_object(), false},
        {owned_by("DaemonSet", true), true},
        {owned_by("DaemonSet", false), false},
        {owned_by("ReplicaSet", true), false},
        {json_pack("{s:{s:s}}", "annotations", "kubernetes.io/config.mirror", "hash"), true},
        {json_pack("{s:{s:s}}", "annotations", "kubernetes.io/config.source", "api"), false},
        {json_pack("{s:s, s:n}", "ownerReferences", "x", "annotations"), false},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        auto_json json_t *pod = json_pack("{s:o}", "metadata", cases[i].meta);
        cr_expect_eq(eviction_futile(pod) != NULL, cases[i].futile, "case %zu", i);
    }
}
