/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "base/auto.h"
#include "base/sb.h"
#include "base/xalloc.h"
#include "base/yaml.h"

#include "golden_support.h"
#include "gpu_fake_support.h"
#include "nodeagent/offer/plugin_config.h"
#include "nodeagent/offer/shares.h"
#include "nodeagent/report/node_status.h"
#include "service/conditions.h"

#define NOW_MS    1767323045000 /* 2026-01-02T03:04:05Z */
#define MAX_BYTES (1 << 20)

static const unsigned whole_1g[] = {1, 0};
static const unsigned whole_3g[] = {3, 0};

/* A node as the agent knows it; the cards are the fake's. */
struct node {
    struct fake_hw hw;
    struct gpu_inventory inventory;
    struct card_view views[FAKE_MAX_CARDS];
    struct card_memo memos[FAKE_MAX_CARDS];
    struct device_spec spec;
    struct node_state state;
};

static void node_init(struct node *n, unsigned n_cards)
{
    *n = (struct node){.spec.mig_strategy = API_STRATEGY_MIXED};
    for (unsigned i = 0; i < n_cards; i++) {
        struct gpu_card *c = &fake_add(&n->hw, FAKE_H100)->card;
        (void)snprintf(c->pci_bus_id, sizeof(c->pci_bus_id), "00000000:%02X:00.0", 0x17 + i);
        c->pci_device_id = 0x233010DE;
        c->pci_subsystem_id = 0x16C110DE;
        c->memory_mib = 81559;
        c->mode = c->pending_mode = GPU_MIG;
    }
}

/* Takes a reading, as the agent does. */
static void node_read(struct node *n)
{
    auto_gpu struct gpu *g = gpu_fake_open(&n->hw);
    cr_assert_eq(g->ops->read(g, &n->inventory, NULL), 0);
    for (size_t i = 0; i < n->inventory.n_cards; i++)
        n->views[i].card = n->inventory.cards[i];
    free(TAKE(n->inventory.cards));
    n->inventory.n_drivers = 1;
    n->inventory.drivers[0] =
        (struct gpu_driver){.vendor = "nvidia", .version = "570.86.15", .cuda_version = "12.8"};
    (void)snprintf(n->inventory.boot_id, sizeof(n->inventory.boot_id), "boot-1");
    n->state = (struct node_state){
        .inventory = &n->inventory,
        .cards = n->views,
        .n_cards = n->inventory.n_cards,
        .spec = &n->spec,
        .generation = 7,
        .spec_seen = true,
        .memos = n->memos,
        .agent_version = "v1.0.0",
        .means.publisher = API_PUBLISHER_CONTROLLER,
    };
    n->inventory.n_cards = 0;
}

/* A node with one card, which is not cut. */
static void node_native(struct node *n)
{
    node_init(n, 1);
    n->hw.cards[0].card.mode = n->hw.cards[0].card.pending_mode = GPU_NATIVE;
    node_read(n);
}

static void node_done(struct node *n)
{
    for (size_t i = 0; i < FAKE_MAX_CARDS; i++)
        card_view_done(&n->views[i]);
    device_spec_done(&n->spec);
}

/* What is wanted, and how the last attempt at each card of it went. */
static void node_want(struct node *n, const char *spec, struct txn_result result)
{
    auto_json json_t *doc = NULL;
    auto_err struct err e = {0};
    cr_assert_eq(yaml_load(spec, strlen(spec), &doc, &e), 0, "%s", err_msg(&e));
    cr_assert_eq(device_spec_decode(doc, &n->spec, &e), 0, "%s", err_msg(&e));
    for (size_t i = 0; i < n->spec.n_devices; i++) {
        struct card_memo *m = &n->memos[i];
        (void)snprintf(m->uuid, sizeof(m->uuid), "%s", n->spec.devices[i].uuid);
        m->progress = PROGRESS_DONE;
        m->result = result;
    }
    n->state.n_memos = n->spec.n_devices;
}

#define APPLIED ((struct txn_result){.outcome = TXN_APPLIED, .reason = "Applied"})
#define WANT(i, more)                                                                              \
    "spec: {devices: [{uuid: GPU-0000000" #i "-fake, mode: mig, mig: {profiles: [" more "]}}]}"
#define WANT_3G "{profile: 3g.40gb, count: 2}"

static char *text_of(const struct device_status *s, bool with_models)
{
    auto_json json_t *json = device_status_encode(s);
    if (!with_models)
        (void)json_object_del(json, "models");
    (void)json_object_del(json, "labels"); /* gpu_labels_test looks at them */
    return yaml_dump(json);
}

static void build(const struct node_state *s, const struct device_status *prev, int64_t now_ms,
                  struct device_status *ret)
{
    auto_node_offer struct node_offer offer;
    node_offer_build(s, now_ms, &offer);
    node_status_build(s, &offer, prev, now_ms, ret);
}

static void check(struct node *n, const char *golden, bool with_models)
{
    struct device_status st;
    build(&n->state, NULL, NOW_MS, &st);
    auto_free char *text = text_of(&st, with_models);
    auto_free char *path = xasprintf("status/%s.yaml", golden);
    golden_check(path, text);
    /* What is published must be what the schema's typed view reads. */
    auto_json json_t *holder = json_pack("{s:o}", "status", device_status_encode(&st));
    auto_device_status struct device_status again;
    auto_err struct err e = {0};
    cr_expect_eq(device_status_decode(holder, &again, &e), 0, "%s", err_msg(&e));
    device_status_done(&st);
    node_done(n);
}

Test(node_status, a_node_without_cards)
{
    struct node n;
    node_init(&n, 0);
    node_read(&n);
    check(&n, "empty-node", true);
}

Test(node_status, a_node_whose_bus_shows_no_card)
{
    static const struct host_facts none = {.pci_known = true};
    struct node n;
    node_init(&n, 0);
    node_read(&n);
    n.inventory.n_drivers = 0;
    n.state.host = &none;
    check(&n, "no-cards", true);
}

Test(node_status, a_card_that_is_wanted_of_a_node_without_cards)
{
    static const struct host_facts none = {.pci_known = true};
    struct node n;
    node_init(&n, 0);
    node_read(&n);
    n.state.host = &none;
    node_want(&n, "spec: {devices: [{uuid: GPU-gone, mode: native}]}", APPLIED);
    struct device_status st;
    build(&n.state, NULL, NOW_MS, &st);
    cr_expect_str_eq(condition_get(&st.conditions, "Stalled")->reason, "DeviceNotFound");
    device_status_done(&st);
    node_done(&n);
}

Test(node_status, before_the_first_reading)
{
    struct node n;
    node_init(&n, 0);
    n.state = (struct node_state){.agent_version = "v1.0.0", .spec = &n.spec};
    check(&n, "starting", true);
}

Test(node_status, the_reading_failed)
{
    struct node n;
    node_init(&n, 0);
    n.state = (struct node_state){.agent_version = "v1.0.0",
                                  .spec = &n.spec,
                                  .spec_seen = true,
                                  .generation = 7,
                                  .read_reason = "DriverNotLoaded",
                                  .read_error = "no driver is loaded"};
    check(&n, "reading-failed", true);
}

Test(node_status, a_vendor_call_hangs)
{
    struct node n;
    node_init(&n, 1);
    node_read(&n);
    n.state.stuck_call = "nvmlDeviceCreateGpuInstance";
    check(&n, "stuck-call", false);
}

Test(node_status, the_spec_cannot_be_read)
{
    struct node n;
    node_init(&n, 1);
    node_read(&n);
    n.state.spec_error = ".spec.devices[0].mode: must be a string";
    check(&n, "bad-spec", false);
}

Test(node_status, a_cut_node_with_processes_and_pods)
{
    struct node n;
    node_init(&n, 2);
    fake_put(&n.hw.cards[0], "1g.10gb", 0, whole_1g);
    fake_put(&n.hw.cards[0], "3g.40gb", 4, (const unsigned[]){1, 1, 0});
    fake_put(&n.hw.cards[0], "1g.10gb", 1, (const unsigned[]){0}); /* no compute instance */
    n.hw.cards[1].card.mode = n.hw.cards[1].card.pending_mode = GPU_NATIVE;
    n.hw.cards[1].card.minor = UINT_MAX;
    fake_attach(&n.hw.cards[0], (struct fake_process){.pid = 41, .start = 4, .ci_start = 0});
    fake_attach(&n.hw.cards[1], (struct fake_process){.pid = 42, .start = -1, .ci_start = -1});
    node_read(&n);
    n.views[0].pods = xcalloc(1, sizeof(struct consumer));
    n.views[0].pods[0] = (struct consumer){.pod_uid = "3f2a1b4c-0d5e-4f60-8a71-92b3c4d5e6f7"};
    check(&n, "in-use", true);
}

Test(node_status, a_card_as_wanted)
{
    struct node n;
    node_init(&n, 1);
    fake_put(&n.hw.cards[0], "3g.40gb", 0, whole_3g);
    fake_put(&n.hw.cards[0], "3g.40gb", 4, whole_3g);
    node_read(&n);
    node_want(&n, WANT(0, WANT_3G), APPLIED);
    check(&n, "applied", false);
}

static void busy(struct node *n, const char *spec, int64_t deadline_ms)
{
    node_init(n, 1);
    fake_put(&n->hw.cards[0], "1g.10gb", 0, whole_1g);
    fake_put(&n->hw.cards[0], "1g.10gb", 1, whole_1g);
    fake_attach(&n->hw.cards[0], (struct fake_process){.pid = 41, .start = 1, .ci_start = -1});
    node_read(n);
    node_want(n, spec,
              (struct txn_result){.outcome = TXN_IN_USE,
                                  .reason = "InUse",
                                  .message = "1g.10gb at 1 is in use by process 41 (train)"});
    n->memos[0].drain_since_ms = NOW_MS - 60000;
    n->memos[0].drain_deadline_ms = deadline_ms;
}

#define WANT_EVICT                                                                                 \
    "spec: {devices: [{uuid: GPU-00000000-fake, mode: mig, mig: {profiles: [" WANT_3G "]},"        \
    " rollout: {drain: evict, timeoutSeconds: 600}}]}"

Test(node_status, in_use_and_to_be_refused)
{
    struct node n;
    busy(&n, WANT(0, WANT_3G), 0);
    check(&n, "waiting", false);
}

Test(node_status, in_use_and_to_be_drained)
{
    struct node n;
    busy(&n, WANT_EVICT, NOW_MS + 540000);
    check(&n, "draining", false);
}

Test(node_status, a_drain_that_took_too_long)
{
    struct node n;
    busy(&n, WANT_EVICT, NOW_MS);
    check(&n, "drain-timeout", false);
}

/* Five pods of seven processes, with the time that they have. */
static void expect_drain_text(int64_t deadline_ms, const char *said, const char *expected)
{
    struct node n;
    struct device_status st;
    node_init(&n, 1);
    fake_put(&n.hw.cards[0], "1g.10gb", 0, whole_1g);
    fake_put(&n.hw.cards[0], "1g.10gb", 1, whole_1g);
    for (unsigned i = 0; i < 7; i++)
        fake_attach(&n.hw.cards[0],
                    (struct fake_process){.pid = 41 + i, .start = 1, .ci_start = -1});
    node_read(&n);
    n.views[0].pods = xcalloc(7, sizeof(struct consumer));
    for (unsigned i = 0; i < 6; i++) /* the last one is in no pod */
        (void)snprintf(n.views[0].pods[i].pod_uid, CONSUMER_UID_BYTES, "uid-of-a-%u", i % 5);
    struct txn_result waits = {.outcome = TXN_IN_USE, .reason = "InUse"};
    (void)snprintf(waits.message, sizeof(waits.message), "%s", said);
    node_want(&n, WANT_EVICT, waits);
    n.memos[0].drain_since_ms = NOW_MS - 60000;
    n.memos[0].drain_deadline_ms = deadline_ms;
    build(&n.state, NULL, NOW_MS, &st);
    const struct condition *c = condition_get(&st.devices[0].conditions, "Applied");
    cr_expect_str_eq(c->message, expected);
    device_status_done(&st);
    node_done(&n);
}

Test(node_status, a_drain_names_some_pods_and_its_deadline)
{
    expect_drain_text(NOW_MS + 540000, "in use by train",
                      "in use by train; pod with uid uid-of-a-0, pod with uid uid-of-a-1, pod with "
                      "uid uid-of-a-2 and 2 more must end by 2026-01-02T03:13:05Z");
    expect_drain_text(NOW_MS, "in use by train",
                      "in use by train; pod with uid uid-of-a-0, pod with uid uid-of-a-1, pod with "
                      "uid uid-of-a-2 and 2 more did not end by 2026-01-02T03:04:05Z");
}

/* The plan's text has the names that the kubelet told. */
Test(node_status, a_drain_names_no_pod_twice)
{
    expect_drain_text(NOW_MS + 540000, "in use by pod with uid uid-of-a-1",
                      "in use by pod with uid uid-of-a-1; pod with uid uid-of-a-0, pod with uid "
                      "uid-of-a-2, pod with uid uid-of-a-3 and 1 more must end by "
                      "2026-01-02T03:13:05Z");
}

/* What a drain waits for, "start.ci": and "card". */
static void check_drain(struct node *n, const char *expected)
{
    struct device_status st;
    auto_sb struct sb text = SB_INIT(256);
    n->memos[0].drain_since_ms = NOW_MS;
    build(&n->state, NULL, NOW_MS, &st);
    const struct device_card *c = &st.devices[0];
    for (size_t i = 0; i < c->drain.n_partitions; i++)
        for (size_t k = 0; k < c->n_partitions; k++)
            if (strcmp(c->partitions[k].uuid, c->drain.partitions[i]) == 0)
                sb_addf(&text, "%s.%d ", c->partitions[k].placement, (int)c->partitions[k].ci_id);
    sb_add(&text, c->drain.card ? "card" : "");
    cr_expect_str_eq(sb_str(&text), expected);
    device_status_done(&st);
    node_done(n);
}

static const struct txn_result in_use = {.outcome = TXN_IN_USE,
                                         .reason = "InUse",
                                         .message = "in use"};

Test(node_status, a_drain_leaves_the_neighbour_alone_that_may_stay)
{
    struct node n;
    node_init(&n, 1);
    fake_put(&n.hw.cards[0], "3g.40gb", 0, (const unsigned[]){1, 1, 1, 0});
    fake_attach(&n.hw.cards[0], (struct fake_process){.pid = 41, .start = 0, .ci_start = 0});
    fake_attach(&n.hw.cards[0], (struct fake_process){.pid = 42, .start = 0, .ci_start = 1});
    fake_attach(&n.hw.cards[0], (struct fake_process){.pid = 43, .start = 0, .ci_start = 2});
    node_read(&n);
    node_want(&n, WANT(0, "{profile: 1c.3g.40gb, count: 1}"), in_use);
    check_drain(&n, "0:4.1 0:4.2 ");
}

Test(node_status, a_drain_waits_for_the_pod_that_was_given_a_cut_card_as_a_whole)
{
    struct node n;
    node_init(&n, 1);
    fake_put(&n.hw.cards[0], "1g.10gb", 0, whole_1g);
    node_read(&n);
    const struct gpu_user pod = {.part = -1, .ci = -1, .name = "team/train-0"};
    gpu_card_set_holders(&n.views[0].card, &pod, 1);
    node_want(&n, WANT(0, WANT_3G), in_use);
    check_drain(&n, "0:1.0 card");
}

Test(node_status, a_mode_change_waits_for_the_whole_card)
{
    struct node n;
    node_init(&n, 1);
    n.hw.cards[0].card.mode = n.hw.cards[0].card.pending_mode = GPU_NATIVE;
    fake_attach(&n.hw.cards[0], (struct fake_process){.pid = 42, .start = -1, .ci_start = -1});
    node_read(&n);
    node_want(&n, WANT(0, WANT_3G),
              (struct txn_result){.outcome = TXN_IN_USE, .reason = "InUse", .message = "in use"});
    n.memos[0].drain_since_ms = NOW_MS;
    check(&n, "waiting-for-card", false);
}

Test(node_status, a_change_that_was_rolled_back)
{
    struct node n;
    node_init(&n, 2);
    fake_put(&n.hw.cards[0], "1g.10gb", 6, whole_1g);
    node_read(&n);
    node_want(&n, WANT(0, WANT_3G),
              (struct txn_result){.outcome = TXN_ROLLED_BACK,
                                  .reason = "RolledBack",
                                  .message =
                                      "create 3g.40gb at 4: nvmlDeviceCreateGpuInstance: "
                                      "Insufficient Resources; the old layout stands again"});
    check(&n, "rolled-back", false);
}

static void node_unended(struct node *n, struct unended *list, size_t i, bool other_version)
{
    const char *uuid = n->views[i].card.uuid;
    struct txn_result r = {.outcome = TXN_FAILED, .other_version = other_version};
    /* Words for people: nothing is decided by them. */
    (void)snprintf(r.reason, sizeof(r.reason), "%s", other_version ? "Words" : "OtherVersion");
    (void)snprintf(r.message, sizeof(r.message), "%s.json: what to do", uuid);
    unended_note(list, uuid, &r);
    n->state.unended = list;
}

static const struct condition *applied_on(const struct device_status *st, size_t i)
{
    return condition_get(&st->devices[i].conditions, "Applied");
}

static bool offers(const struct node *n, size_t i)
{
    auto_node_offer struct node_offer o;
    node_offer_build(&n->state, NOW_MS, &o);
    return o.cards[i].n > 0;
}

Test(node_status, each_card_whose_change_could_not_be_ended_is_named_and_not_offered)
{
    struct node n;
    struct unended list = {0};
    auto_device_status struct device_status st = {0};
    node_init(&n, 4);
    for (size_t i = 0; i < 4; i++)
        fake_put(&n.hw.cards[i], "1g.10gb", 0, whole_1g);
    node_read(&n);
    for (size_t i = 0; i < 3; i++)
        node_unended(&n, &list, i, /* other_version= */ true);
    build(&n.state, /* prev= */ NULL, NOW_MS, &st);
    for (size_t i = 0; i < 3; i++) {
        cr_expect_not(offers(&n, i), "card %zu", i);
        cr_assert_not_null(applied_on(&st, i), "card %zu", i);
        cr_expect_str_eq(applied_on(&st, i)->reason, "OtherVersion");
        cr_expect_not_null(strstr(applied_on(&st, i)->message, n.views[i].card.uuid));
    }
    cr_expect(offers(&n, 3));
    cr_expect_null(applied_on(&st, 3));
    const struct condition *stalled = condition_get(&st.conditions, "Stalled");
    cr_assert_not_null(stalled);
    cr_expect_str_eq(stalled->message,
                     "GPU-00000000-fake: GPU-00000000-fake.json: what to do; so with 2 more, as "
                     "the condition Applied of each card says");
    unended_done(&list);
    node_done(&n);
}

/* As with cards that are wanted: the node is in progress while anything of it is. */
Test(node_status, a_change_that_goes_on_by_itself_speaks_before_one_that_waits_for_a_person)
{
    struct node n;
    struct unended list = {0};
    auto_device_status struct device_status st = {0};
    node_init(&n, 2);
    node_read(&n);
    node_unended(&n, &list, 0, /* other_version= */ true);
    node_unended(&n, &list, 1, /* other_version= */ false);
    build(&n.state, /* prev= */ NULL, NOW_MS, &st);
    cr_expect_str_eq(applied_on(&st, 0)->reason, "OtherVersion");
    cr_expect_str_eq(applied_on(&st, 1)->reason, "Progressing");
    const struct condition *c = condition_get(&st.conditions, "Reconciling");
    cr_assert_not_null(c);
    cr_expect_eq(strncmp(c->message, "GPU-00000001-fake: ", 19), 0, "%s", c->message);
    node_unended(&n, &list, 1, /* other_version= */ true);
    cr_expect_eq(list.n, 2, "each is listed once");
    unended_done(&list);
    node_done(&n);
}

static void node_init_metax(struct node *n)
{
    *n = (struct node){0};
    fake_add(&n->hw, FAKE_C500);
    fake_add(&n->hw, FAKE_C500);
}

static void check_published(const struct node_state *s, const char *reason, const char *message)
{
    struct device_status st;
    build(s, NULL, NOW_MS, &st);
    const struct condition *c = condition_get(&st.conditions, "ResourcesPublished");
    cr_assert_not_null(c);
    cr_expect_str_eq(c->reason, reason);
    cr_expect_str_eq(c->message, message);
    device_status_done(&st);
}

/* Where none are made for pods it is nothing to anybody. */
Test(node_status, slices_for_pods_that_cannot_be_read_are_not_published)
{
    struct node n;
    node_init_metax(&n);
    node_read(&n);
    n.state.plugin_text = "served";
    n.state.pods_forbidden = "install it";
    check_published(&n.state, "Served", "the kubelet is served");
    n.views[0].card.mode = n.views[0].card.pending_mode = GPU_SGPU;
    check_published(&n.state, "PodsForbidden", "install it");
    node_done(&n);
}

/* Two functions, a process on the one, the other ill. */
static void put_vfs(struct gpu_card *c)
{
    c->mode = c->pending_mode = GPU_VGPU;
    c->sgpu_capable = false;
    c->n_vfs = 2;
    c->vfs[0] = (struct gpu_vf){.uuid = "GPU-vf-a",
                                .pci_bus_id = "0000:05:00.1",
                                .memory_mib = 32768,
                                .healthy = true};
    c->vfs[1] = (struct gpu_vf){.number = 1,
                                .uuid = "GPU-vf-b",
                                .pci_bus_id = "0000:05:00.2",
                                .memory_mib = 32768,
                                .unhealthy_message = "not available: die lost"};
    const struct gpu_user process = {.pid = 4711, .name = "train", .part = 0, .ci = -1};
    free(c->users);
    c->users = xmemdup(&process, sizeof(process));
    c->n_users = 1;
    gpu_card_set_holders(c, NULL, 0);
}

Test(node_status, a_card_with_virtual_functions_beside_one_that_should_have_some)
{
    struct node n;
    node_init_metax(&n);
    node_read(&n);
    put_vfs(&n.views[0].card);
    node_want(&n,
              "spec: {devices: [{uuid: GPU-00000000-fake, mode: vgpu},"
              " {uuid: GPU-00000001-fake, mode: vgpu}]}",
              (struct txn_result){.outcome = TXN_NOTHING_TO_DO, .reason = "Applied"});
    n.memos[1].result = (struct txn_result){.outcome = TXN_INFEASIBLE,
                                            .reason = "VirtualFunctionsMissing",
                                            .message = "there are none"};
    check(&n, "vgpu", false);
}

Test(node_status, a_card_for_pods_slices_is_empty_until_one_is_made)
{
    struct gpu_card card = {.mode = GPU_SGPU};
    auto_free char *none = card_layout_words(&card);
    cr_expect_str_eq(none, "slices made for pods");
    struct node n;
    node_init_metax(&n);
    n.hw.cards[0].card.mode = GPU_SGPU;
    node_read(&n);
    n.views[0].card.mode = GPU_SGPU;
    auto_device_status struct device_status status = {0};
    build(&n.state, NULL, NOW_MS, &status);
    cr_expect_str_eq(status.summary.layout, "1xgpu 1xonDemand");
    node_done(&n);
}

Test(node_status, mps_is_no_wish_for_a_card_of_metax)
{
    struct node n;
    struct card_wish wish;
    auto_err struct err e = {0};
    node_init_metax(&n);
    node_read(&n);
    node_want(&n,
              "spec: {devices: [{uuid: GPU-00000000-fake, mode: native, sharing: {mps: {replicas: "
              "4}}}]}",
              APPLIED);
    cr_expect_eq(card_wish_of(&n.views[0].card, &n.spec.devices[0], &wish, &e), -(int)ERR_INVALID);
    cr_expect_not_null(strstr(err_msg(&e), "MPS"));
    node_done(&n);
}

Test(node_status, shares_are_no_wish_for_a_card_of_metax)
{
    struct node n;
    struct card_wish wish;
    auto_err struct err e = {0};
    node_init_metax(&n);
    node_read(&n);
    node_want(&n,
              "spec: {devices: [{uuid: GPU-00000000-fake, mode: native, sharing: {fractional: "
              "{maxShares: 4}}}]}",
              APPLIED);
    cr_expect_eq(card_wish_of(&n.views[0].card, &n.spec.devices[0], &wish, &e), -(int)ERR_INVALID);
    cr_expect_not_null(strstr(err_msg(&e), "given out in shares"));
    node_done(&n);
}

Test(node_status, shares_are_refused_where_no_kubelet_is_served)
{
    struct node n;
    auto_device_status struct device_status st = {0};
    node_native(&n);
    node_want(&n,
              "spec: {devices: [{uuid: GPU-00000000-fake, mode: native, sharing: {fractional: "
              "{maxShares: 4}}}]}",
              APPLIED);
    n.state.means.publisher = API_PUBLISHER_CONTROLLER;
    build(&n.state, NULL, NOW_MS, &st);
    const struct condition *c = condition_get(&st.devices[0].conditions, "Applied");
    cr_assert_not_null(c);
    cr_expect_eq(c->status, CONDITION_FALSE);
    cr_expect_str_eq(c->reason, "FractionalUnsupported");
    cr_expect_not_null(strstr(c->message, "--resources=kubelet"));
    cr_expect_str_eq(condition_get(&st.conditions, "Stalled")->reason, "FractionalUnsupported");
    cr_assert_eq(st.n_resources, 1);
    cr_expect_eq(st.resources[0].count, 1, "one card, whole");
    for (size_t i = 0; i < st.n_labels; i++)
        if (strstr(st.labels[i].key, "sharing-strategy"))
            cr_expect_str_eq(st.labels[i].str, "none");
    node_done(&n);
}

#define SHARES                                                                                     \
    "spec: {devices: [{uuid: GPU-00000000-fake, mode: native, sharing: {fractional: {maxShares: 4}}}]}"

static int64_t sum_of(const struct device_status *st, const char *name)
{
    for (size_t i = 0; i < st->n_resources; i++)
        if (strcmp(st->resources[i].name, name) == 0)
            return st->resources[i].count;
    return 0;
}

Test(node_status, a_fractional_card_is_told_with_its_shares_and_their_sums)
{
    static char uid[] = "u1", container[] = "main";
    struct node n;
    auto_shares struct shares shares = {0};
    auto_device_status struct device_status st = {0};
    node_native(&n);
    n.views[0].card.memory_mib = 81920;
    node_want(&n, SHARES, APPLIED);
    n.state.means.publisher = API_PUBLISHER_KUBELET;
    struct share share = {.slot = slot_at(SLOT_POOL_SHARE, 2),
                          .card = "GPU-00000000-fake",
                          .memory_mib = 3000,
                          .percent = 30,
                          .uid = uid,
                          .container = container};
    shares_put(&shares, &share);
    n.state.shares = &shares;
    build(&n.state, NULL, NOW_MS, &st);
    const struct device_card *c = &st.devices[0];
    cr_expect(c->has_fractional && c->fractional.memory_mib == 81920 &&
              c->fractional.max_shares == 4);
    cr_assert_eq(c->n_partitions, 1);
    cr_expect_str_eq(c->partitions[0].profile, "share");
    cr_expect_str_eq(c->partitions[0].slice.alias, "share.2");
    cr_expect_eq(c->partitions[0].slice.memory_mib, 3000);
    cr_expect_str_eq(st.summary.layout, "1xfractional 1xshare");
    cr_expect_eq(sum_of(&st, "nvidia.com/gpumem"), 81920);
    cr_expect_eq(sum_of(&st, "nvidia.com/gpucores"), 100);
    node_done(&n);
}

Test(node_status, a_breach_is_told_of_the_share_of_that_container_alone)
{
    static char uid[] = "u1", container[] = "main";
    struct node n;
    auto_shares struct shares shares = {0};
    struct share_breach breach = {.slot = slot_at(SLOT_POOL_SHARE, 2),
                                  .uid = "u1",
                                  .container = "main",
                                  .since_ms = 1800000000000,
                                  .reason = BREACH_OVER_LIMIT,
                                  .message = "uses 3500 MiB"};
    node_native(&n);
    n.views[0].card.memory_mib = 81920;
    node_want(&n, SHARES, APPLIED);
    n.state.means.publisher = API_PUBLISHER_KUBELET;
    struct share share = {.slot = slot_at(SLOT_POOL_SHARE, 1),
                          .card = "GPU-00000000-fake",
                          .memory_mib = 3000,
                          .uid = uid,
                          .container = container};
    shares_put(&shares, &share);
    share.slot = slot_at(SLOT_POOL_SHARE, 2);
    shares_put(&shares, &share);
    n.state.shares = &shares;
    n.state.breaches = (struct share_breaches){&breach, 1};
    auto_device_status struct device_status st = {0};
    build(&n.state, NULL, NOW_MS, &st);
    const struct device_partition *parts = st.devices[0].partitions;
    cr_assert_eq(st.devices[0].n_partitions, 2);
    cr_expect_not(parts[0].has_breach);
    cr_assert(parts[1].has_breach);
    cr_expect_str_eq(parts[1].breach.reason, "ShareOverLimit");
    cr_expect_str_eq(parts[1].breach.message, "uses 3500 MiB");
    cr_expect_eq(parts[1].breach.since_ms, 1800000000000);
    breach.uid = "u2";
    auto_device_status struct device_status later = {0};
    build(&n.state, NULL, NOW_MS, &later);
    cr_expect_not(later.devices[0].partitions[1].has_breach, "the slot is another pod's by now");
    node_done(&n);
}

static enum api_level memory_level_of(struct node *n)
{
    auto_device_status struct device_status st = {0};
    build(&n->state, NULL, NOW_MS, &st);
    cr_assert(st.devices[0].has_fractional);
    return (enum api_level)st.devices[0].fractional.memory;
}

/* No container of the card is promised more than the weakest of them has. */
Test(node_status, the_level_of_a_card_is_that_of_its_weakest_share)
{
    static char uid[] = "u1", container[] = "main";
    static char ns[] = "ns", pod[] = "pod";
    struct node n;
    auto_shares struct shares shares = {0};
    node_native(&n);
    n.views[0].card.memory_mib = 81920;
    node_want(&n, SHARES, APPLIED);
    n.state.means.publisher = API_PUBLISHER_KUBELET;
    n.state.shares = &shares;
    cr_expect_eq(memory_level_of(&n), API_LEVEL_NONE);
    n.state.means.enforcement.library = true;
    cr_expect_eq(memory_level_of(&n), API_LEVEL_LIBRARY);
    struct share share = {.slot = slot_at(SLOT_POOL_SHARE, 2),
                          .card = "GPU-00000000-fake",
                          .memory_mib = 3000,
                          .uid = uid,
                          .container = container};
    shares_put(&shares, &share);
    cr_expect_eq(memory_level_of(&n), API_LEVEL_NONE, "it was made before there was a limiter");
    share.memory_level = API_LEVEL_LIBRARY;
    shares_put(&shares, &share);
    cr_expect_eq(memory_level_of(&n), API_LEVEL_LIBRARY);
    share = (struct share){.slot = slot_at(SLOT_POOL_SHARE, 2),
                           .card = "GPU-00000000-fake",
                           .memory_mib = 81920,
                           .percent = 100,
                           .uid = uid,
                           .container = container};
    shares_put(&shares, &share);
    cr_expect_eq(memory_level_of(&n), API_LEVEL_LIBRARY, "the whole card needs no limit");
    const struct adopted_share hami = {"GPU-00000000-fake", 1000, 0, ns, pod};
    shares_adopt(&shares, &hami, 1, /* is_adopting= */ false);
    cr_expect_eq(memory_level_of(&n), API_LEVEL_NONE, "nobody knows what holds HAMi's pods");
    node_done(&n);
}

/* What is told of it is what an agent before told. */
Test(node_status, a_card_in_another_threads_hands_has_no_part_in_the_sums)
{
    struct node n;
    struct device_status st = {0}, next = {0};
    node_native(&n);
    n.views[0].card.memory_mib = 81920;
    node_want(&n, SHARES, APPLIED);
    n.state.means.publisher = API_PUBLISHER_KUBELET;
    build(&n.state, NULL, NOW_MS, &st);
    n.views[0].card.unread = n.views[0].card.busy = true;
    build(&n.state, &st, NOW_MS, &next);
    cr_expect_eq(sum_of(&next, "nvidia.com/gpumem"), 0);
    device_status_done(&next);
    device_spec_done(&n.spec);
    n.state.n_memos = 0;
    build(&n.state, &st, NOW_MS, &next);
    cr_expect_eq(sum_of(&next, "nvidia.com/gpumem"), 0, "nor once it is not wanted so any more");
    device_status_done(&next);
    device_status_done(&st);
    node_done(&n);
}

/* Also of a card that is as wanted in all else, and was told so before it was to be shared. */
Test(node_status, mps_is_refused_where_no_kubelet_is_served)
{
    struct node n;
    auto_device_status struct device_status st = {0};
    node_native(&n);
    node_want(&n,
              "spec: {devices: [{uuid: GPU-00000000-fake, mode: native, sharing: {mps: {replicas: "
              "4}}}]}",
              APPLIED);
    n.state.means.publisher = API_PUBLISHER_CONTROLLER;
    build(&n.state, NULL, NOW_MS, &st);
    const struct condition *c = condition_get(&st.devices[0].conditions, "Applied");
    cr_assert_not_null(c);
    cr_expect_eq(c->status, CONDITION_FALSE);
    cr_expect_str_eq(c->reason, "MPSUnsupported");
    cr_expect_not_null(strstr(c->message, "--resources=kubelet"));
    cr_expect_str_eq(condition_get(&st.conditions, "Stalled")->reason, "MPSUnsupported");
    cr_assert_eq(st.n_resources, 1);
    cr_expect_eq(st.resources[0].count, 1, "one card, whole");
    for (size_t i = 0; i < st.n_labels; i++)
        if (strstr(st.labels[i].key, "sharing-strategy"))
            cr_expect_str_eq(st.labels[i].str, "none");
    node_done(&n);
}

Test(node_status, a_wish_that_makes_no_sense_and_a_card_that_is_not_there)
{
    struct node n;
    node_init(&n, 1);
    node_read(&n);
    node_want(&n,
              "spec: {devices: [{uuid: GPU-00000000-fake, mode: mig, mig: {profiles:"
              " [{profile: 9g.10gb, count: 1}]}}, {uuid: GPU-gone, mode: native}]}",
              APPLIED);
    n.memos[0].progress = n.memos[1].progress = PROGRESS_REFUSED;
    n.memos[0].refusal_reason = "UnknownProfile";
    (void)snprintf(n.memos[0].refusal, sizeof(n.memos[0].refusal), "there is no 9g.10gb");
    check(&n, "refused", false);
}

Test(node_status, a_card_that_is_missing_alone)
{
    struct node n;
    node_init(&n, 1);
    node_read(&n);
    node_want(&n, "spec: {devices: [{uuid: GPU-gone, mode: native}]}", APPLIED);
    check(&n, "missing-card", false);
}

Test(node_status, an_unhealthy_card_with_a_pending_mode)
{
    struct node n;
    node_init(&n, 1);
    struct gpu_card *c = &n.hw.cards[0].card;
    c->healthy = false;
    c->pending_mode = GPU_NATIVE;
    (void)snprintf(c->unhealthy_reason, sizeof(c->unhealthy_reason), "GPULost");
    (void)snprintf(c->unhealthy_message, sizeof(c->unhealthy_message), "fell off the bus");
    node_read(&n);
    check(&n, "unhealthy", false);
}

/* What is left is offered, and says nothing of its neighbour. */
Test(node_status, a_sick_partition_a_notice_and_a_card_without_events)
{
    struct node n;
    const struct gpu_event ev = {.kind = GPU_EVENT_XID, .code = 95, .gi_id = 2, .ci_id = -1};
    node_init(&n, 1);
    fake_put(&n.hw.cards[0], "1g.10gb", 0, whole_1g);
    fake_put(&n.hw.cards[0], "1g.10gb", 1, whole_1g);
    n.hw.cards[0].card.vitals = (struct gpu_vitals){.remap_known = true, .remap_pending = true};
    node_read(&n);
    auto_health struct health *h = health_new(NULL);
    cr_assert_eq(health_xid(h, &n.views[0].card, &ev, 1), XID_RESET);
    health_apply(h, &n.views[0].card);
    n.views[0].unwatched = true;
    n.state.health = h;
    check(&n, "sick-partition", false);
}

/* --- Rules --- */

/* The API server takes no card without a name, and would refuse the whole status with it. */
Test(node_status, a_card_that_was_never_read_is_told_and_hides_no_other)
{
    struct node n;
    node_init(&n, 2);
    node_read(&n);
    struct gpu_card *c = &n.views[1].card;
    c->uuid[0] = c->model[0] = '\0';
    c->healthy = false;
    (void)snprintf(c->unhealthy_reason, sizeof(c->unhealthy_reason), "GPULost");
    (void)snprintf(c->unhealthy_message, sizeof(c->unhealthy_message), "no answer");
    struct device_status st;
    build(&n.state, NULL, NOW_MS, &st);
    cr_expect_eq(st.n_devices, 1);
    const struct condition *stalled = condition_get(&st.conditions, "Stalled");
    cr_assert(stalled);
    cr_expect_eq(stalled->status, CONDITION_TRUE);
    cr_expect_str_eq(stalled->reason, "GPULost");
    cr_expect_str_eq(stalled->message, "NVIDIA GPU 1 cannot be read: no answer");
    device_status_done(&st);
    node_done(&n);
}

/* A call hangs on it since the agent's start. */
Test(node_status, a_card_in_another_threads_hands_that_was_never_read_is_being_read)
{
    struct node n;
    node_init(&n, 2);
    node_read(&n);
    struct gpu_card *c = &n.views[1].card;
    c->uuid[0] = c->model[0] = '\0';
    c->unread = c->busy = true;
    struct device_status st;
    build(&n.state, NULL, NOW_MS, &st);
    cr_expect_eq(st.n_devices, 1);
    const struct condition *reconciling = condition_get(&st.conditions, "Reconciling");
    cr_assert(reconciling);
    cr_expect_eq(reconciling->status, CONDITION_TRUE);
    cr_expect_str_eq(reconciling->reason, "Progressing");
    cr_expect_str_eq(reconciling->message,
                     "NVIDIA GPU 1 was not read yet: another call works on it");
    device_status_done(&st);
    node_done(&n);
}

static const char *reason_of(enum txn_outcome outcome, const char *reason)
{
    static char text[64];
    struct node n;
    node_init(&n, 1);
    node_read(&n);
    struct txn_result r = {.outcome = outcome, .message = "m"};
    (void)snprintf(r.reason, sizeof(r.reason), "%s", reason);
    node_want(&n, WANT(0, WANT_3G), r);
    auto_device_status struct device_status st;
    build(&n.state, NULL, NOW_MS, &st);
    const struct condition *c = condition_get(&st.devices[0].conditions, "Applied");
    (void)snprintf(text, sizeof(text), "%s %s", c->reason,
                   condition_is_true(&st.conditions, "Ready")         ? "Ready"
                   : condition_is_true(&st.conditions, "Reconciling") ? "Reconciling"
                   : condition_is_true(&st.conditions, "Stalled")     ? "Stalled"
                                                                      : "none");
    node_done(&n);
    return text;
}

Test(node_status, every_outcome_has_its_reason)
{
    cr_expect_str_eq(reason_of(TXN_APPLIED, "Applied"), "Applied Ready");
    cr_expect_str_eq(reason_of(TXN_NOTHING_TO_DO, "Applied"), "Applied Ready");
    cr_expect_str_eq(reason_of(TXN_IN_USE, "InUse"), "InUse Reconciling");
    cr_expect_str_eq(reason_of(TXN_ROLLED_BACK, "RolledBack"), "RolledBack Stalled");
    cr_expect_str_eq(reason_of(TXN_HELD, "Held"), "Held Stalled");
    cr_expect_str_eq(reason_of(TXN_NOT_WITHDRAWN, "x"), "NotWithdrawn Stalled");
    cr_expect_str_eq(reason_of(TXN_INFEASIBLE, "Infeasible"), "Infeasible Stalled");
    cr_expect_str_eq(reason_of(TXN_INFEASIBLE, ""), "Infeasible Stalled");
    cr_expect_str_eq(reason_of(TXN_INFEASIBLE, "NotCapable"), "MIGUnsupported Stalled");
    cr_expect_str_eq(reason_of(TXN_INFEASIBLE, "Unhealthy"), "Unhealthy Stalled");
    cr_expect_str_eq(reason_of(TXN_RESET_REQUIRED, "x"), "ResetRequired Stalled");
    cr_expect_str_eq(reason_of(TXN_REBOOT_REQUIRED, "x"), "RebootRequired Stalled");
    cr_expect_str_eq(reason_of(TXN_FAILED, "x"), "ApplyFailed Stalled");
}

Test(node_status, transition_times_stay_while_nothing_flips_and_move_when_it_does)
{
    struct node n;
    node_init(&n, 1);
    node_read(&n);
    node_want(&n, WANT(0, WANT_3G), APPLIED);
    struct device_status first;
    struct device_status second;
    struct device_status third;
    build(&n.state, NULL, NOW_MS, &first);
    build(&n.state, &first, NOW_MS + 5000, &second);
    auto_free char *a = text_of(&first, true);
    auto_free char *b = text_of(&second, true);
    cr_expect_str_eq(a, b, "nothing may differ when nothing happened");
    n.memos[0].result.outcome = TXN_FAILED;
    build(&n.state, &second, NOW_MS + 9000, &third);
    const struct conditions *card = &third.devices[0].conditions;
    cr_expect_eq(condition_get(card, "Applied")->last_transition_ms, NOW_MS + 9000);
    cr_expect_null(condition_get(card, "Healthy"), "it is");
    cr_expect_eq(condition_get(&third.conditions, "Ready")->last_transition_ms, NOW_MS + 9000);
    device_status_done(&first);
    device_status_done(&second);
    device_status_done(&third);
    node_done(&n);
}

Test(node_status, a_card_that_is_no_longer_wanted_loses_its_verdict)
{
    struct node n;
    node_init(&n, 1);
    node_read(&n);
    node_want(&n, WANT(0, WANT_3G), APPLIED);
    struct device_status first;
    struct device_status second;
    build(&n.state, NULL, NOW_MS, &first);
    n.state.spec = NULL;
    n.state.n_memos = 0;
    build(&n.state, &first, NOW_MS, &second);
    cr_expect_null(condition_get(&second.devices[0].conditions, "Applied"));
    cr_expect(condition_is_true(&second.conditions, "Ready"));
    device_status_done(&first);
    device_status_done(&second);
    node_done(&n);
}

Test(node_status, more_consumers_than_the_schema_takes_are_left_out)
{
    struct node n;
    node_init(&n, 1);
    node_read(&n);
    struct gpu_card *c = &n.views[0].card;
    free(c->users);
    c->n_users = 100;
    c->users = xcalloc(c->n_users, sizeof(*c->users));
    for (unsigned i = 0; i < c->n_users; i++)
        c->users[i] = (struct gpu_user){.pid = i + 1, .part = -1, .ci = -1};
    auto_device_status struct device_status st;
    build(&n.state, NULL, NOW_MS, &st);
    cr_expect_eq(st.devices[0].n_in_use_by, 64);
    cr_expect(st.devices[0].in_use);
    node_done(&n);
}

Test(node_status, a_wish_names_profiles_of_the_card)
{
    struct node n;
    node_init(&n, 1);
    node_read(&n);
    node_want(&n, WANT(0, "{profile: 1g.11gb, count: 2}, {profile: 1c.3g.40gb, count: 3}"),
              APPLIED);
    struct card_wish wish;
    auto_err struct err e = {0};
    cr_assert_eq(card_wish_of(&n.views[0].card, &n.spec.devices[0], &wish, &e), 0, "%s",
                 err_msg(&e));
    cr_expect_eq(wish.mode, GPU_MIG);
    cr_expect_eq(wish.wants.n, 2);
    n.spec.devices[0].mode = API_MODE_NATIVE;
    cr_assert_eq(card_wish_of(&n.views[0].card, &n.spec.devices[0], &wish, &e), 0);
    cr_expect_eq(wish.wants.n, 0);
    cr_expect_eq(wish.mode, GPU_NATIVE);
    node_done(&n);
}

/* --- labels --- */

static const char *label_of(const struct device_status *s, const char *key)
{
    for (size_t i = 0; i < s->n_labels; i++)
        if (strcmp(s->labels[i].key, key) == 0)
            return s->labels[i].str;
    return "(none)";
}

static const struct host_facts host = {.machine = "Test Machine",
                                       .n_pci = 1,
                                       .pci = {{0x0302, 0x10de, false}}};

Test(node_status, labels_describe_the_cards_and_how_they_are_shared)
{
    struct node n;
    node_init(&n, 2);
    n.hw.cards[0].card.mode = n.hw.cards[1].card.mode = GPU_NATIVE;
    node_read(&n);
    n.state.host = &host;
    node_want(&n,
              "spec: {migStrategy: single, devices: ["
              "{uuid: GPU-00000000-fake, mode: native, sharing: {timeSlicing: {replicas: 4}}},"
              "{uuid: GPU-00000001-fake, mode: native, sharing: {timeSlicing: {replicas: 4}}}]}",
              APPLIED);
    auto_device_status struct device_status st;
    build(&n.state, NULL, NOW_MS, &st);
    cr_expect_str_eq(label_of(&st, "nvidia.com/gpu.count"), "2");
    cr_expect_str_eq(label_of(&st, "nvidia.com/gpu.replicas"), "4");
    cr_expect_str_eq(label_of(&st, "nvidia.com/gpu.sharing-strategy"), "time-slicing");
    cr_expect_str_eq(label_of(&st, "nvidia.com/gpu.machine"), "Test-Machine");
    cr_expect_str_eq(label_of(&st, "nvidia.com/mig.strategy"), "single");
    cr_expect_str_eq(label_of(&st, "nvidia.com/cuda.driver-version.full"), "570.86.15");
    cr_expect_str_eq(label_of(&st, "nvidia.com/gfd.timestamp"), "1767323045");
    node_done(&n);
}

/* The replicas in the status of card 0 and of its first partition, if it has one. */
static void expect_replicas(struct node *n, int64_t of_card, int64_t of_part)
{
    auto_device_status struct device_status st;
    build(&n->state, NULL, NOW_MS, &st);
    const struct device_card *c = &st.devices[0];
    cr_expect_eq(c->replicas, of_card, "%lld", (long long)c->replicas);
    cr_expect_eq(c->n_partitions ? c->partitions[0].replicas : 0, of_part);
    node_done(n);
}

#define SHARED_BY_4(mode)                                                                          \
    "spec: {devices: [{uuid: GPU-00000000-fake, mode: " mode                                       \
    ", sharing: {timeSlicing: {replicas: 4}}}]}"

static void node_of_a_shared_partition(struct node *n)
{
    node_init(n, 1);
    fake_put(&n->hw.cards[0], "1g.10gb", 0, whole_1g);
    node_read(n);
    node_want(n, SHARED_BY_4("mig, mig: {profiles: [{profile: 1g.10gb, count: 1}]}"), APPLIED);
}

Test(node_status, a_card_that_containers_share_says_how_many_can)
{
    struct node n;
    node_native(&n);
    node_want(&n, SHARED_BY_4("native"), APPLIED);
    expect_replicas(&n, 4, 0);
}

Test(node_status, of_a_cut_card_each_partition_says_how_many_containers_can_have_it)
{
    struct node n;
    node_of_a_shared_partition(&n);
    expect_replicas(&n, 0, 4);
}

Test(node_status, with_the_strategy_none_a_cut_card_is_shared_as_a_whole)
{
    struct node n;
    node_of_a_shared_partition(&n);
    n.spec.mig_strategy = API_STRATEGY_NONE;
    expect_replicas(&n, 4, 0);
}

Test(node_status, a_card_that_nobody_shares_says_nothing_of_replicas)
{
    struct node n;
    node_native(&n);
    expect_replicas(&n, 0, 0);
}

/* No agent runs the daemons of MPS where the controller publishes the resources. */
Test(node_status, a_card_whose_sharing_is_refused_says_nothing_of_replicas)
{
    struct node n;
    node_native(&n);
    node_want(&n,
              "spec: {devices: [{uuid: GPU-00000000-fake, mode: native,"
              " sharing: {mps: {replicas: 4}}}]}",
              APPLIED);
    expect_replicas(&n, 0, 0);
}

Test(node_status, replicas_of_the_nodes_own_configuration_are_said_too)
{
    struct node n;
    static char name[] = "nvidia.com/gpu";
    struct plugin_shared gpus = {.name = name, .offered_as = name, .replicas = 4096};
    const struct plugin_config config = {.sharing = PLUGIN_TIME_SLICING,
                                         .shared = &gpus,
                                         .n_shared = 1};
    node_native(&n);
    n.state.config = &config;
    expect_replicas(&n, 4096, 0);
}

enum shape { WHOLE, EMPTY, ONES, THREES, ILL_ONES, SHAPES };

static void shape(struct fake_card *c, enum shape s)
{
    c->card.mode = c->card.pending_mode = s == WHOLE ? GPU_NATIVE : GPU_MIG;
    if (s == ONES || s == ILL_ONES)
        for (unsigned i = 0; i < 7; i++)
            fake_put(c, "1g.10gb", i, whole_1g);
    if (s == THREES)
        fake_put(c, "3g.40gb", 0, whole_3g);
    c->card.healthy = s != ILL_ONES;
}

static bool offers_by_profile(const struct device_status *st)
{
    for (size_t i = 0; i < st->n_resources; i++)
        if (strncmp(st->resources[i].name, "nvidia.com/mig-", 15) == 0)
            return true;
    return false;
}

static int64_t offered_as_cards(const struct device_status *st)
{
    for (size_t i = 0; i < st->n_resources; i++)
        if (strcmp(st->resources[i].name, "nvidia.com/gpu") == 0)
            return st->resources[i].count;
    return 0;
}

static void check_single(enum shape a, enum shape b)
{
    struct node n;
    node_init(&n, 2);
    shape(&n.hw.cards[0], a);
    shape(&n.hw.cards[1], b);
    node_read(&n);
    n.state.host = &host;
    n.spec.mig_strategy = API_STRATEGY_SINGLE;
    auto_device_status struct device_status st;
    build(&n.state, NULL, NOW_MS, &st);
    const char *product = label_of(&st, "nvidia.com/gpu.product");
    unsigned whole = (a == WHOLE) + (b == WHOLE);
    if (strstr(product, "-MIG-1g.10gb") || strstr(product, "-MIG-3g.40gb"))
        cr_expect_not(offers_by_profile(&st), "%d %d: %s", a, b, product);
    else
        cr_expect_leq(offered_as_cards(&st), whole, "%d %d: %s", a, b, product);
    if (strstr(product, "-MIG-INVALID"))
        cr_expect(condition_get(&st.conditions, "ResourcesPublished") || (a == ILL_ONES) ||
                      (b == ILL_ONES),
                  "%d %d", a, b);
    node_done(&n);
}

/* Who selects a node by its product gets what the kubelet offers under that name. */
Test(node_status, under_single_labels_and_resources_agree_whatever_stands)
{
    for (int a = 0; a < SHAPES; a++)
        for (int b = 0; b < SHAPES; b++)
            check_single((enum shape)a, (enum shape)b);
}

Test(node_status, shared_cards_under_a_name_of_their_own_are_not_marked)
{
    struct node n;
    node_native(&n);
    node_want(&n,
              "spec: {devices: [{uuid: GPU-00000000-fake, mode: native,"
              " sharing: {timeSlicing: {replicas: 4, renameByDefault: true}}}]}",
              APPLIED);
    auto_device_status struct device_status st;
    build(&n.state, NULL, NOW_MS, &st);
    const char *product = label_of(&st, "nvidia.com/gpu.product");
    cr_expect_null(strstr(product, "SHARED"), "%s", product);
    cr_expect_str_eq(label_of(&st, "nvidia.com/gpu.replicas"), "4");
    node_done(&n);
}

Test(node_status, what_a_configuration_asks_for_in_vain_is_said_and_only_while_it_does)
{
    struct node n;
    struct device_status first;
    struct plugin_config config = {.no_timestamp = true};
    node_init(&n, 1);
    node_read(&n);
    n.state.host = &host;
    n.state.config = &config;
    plugin_config_ignore(&config, ".resources", "is ignored");
    build(&n.state, NULL, NOW_MS, &first);
    const struct condition *c = condition_get(&first.conditions, "ConfigUnderstood");
    cr_assert_not_null(c);
    cr_expect_eq(c->status, CONDITION_FALSE);
    cr_expect_str_eq(c->reason, "PartlyIgnored");
    cr_expect_str_eq(c->message, ".resources: is ignored");
    cr_expect_str_eq(label_of(&first, "nvidia.com/gfd.timestamp"), "(none)");
    plugin_config_done(&config);
    auto_device_status struct device_status second;
    build(&n.state, &first, NOW_MS, &second);
    cr_expect_null(condition_get(&second.conditions, "ConfigUnderstood"));
    device_status_done(&first);
    node_done(&n);
}

Test(node_status, a_label_that_is_refused_is_said_and_only_while_it_is)
{
    static char value[] = "wrong1";
    static char reason[] = "UnknownConfig";
    static char message[] = "no such layout";
    const struct device_spec refusing = {.has_refused_label = true,
                                         .refused_label = {value, reason, message}};
    const struct device_spec content = {.has_refused_label = false};
    struct node n;
    struct device_status first;
    node_init(&n, 1);
    node_read(&n);
    n.state.spec = &refusing;
    build(&n.state, NULL, NOW_MS, &first);
    const struct condition *c = condition_get(&first.conditions, "Accepted");
    cr_assert_not_null(c);
    cr_expect_eq(c->status, CONDITION_FALSE);
    cr_expect_str_eq(c->reason, "UnknownConfig");
    cr_expect_str_eq(c->message, "nvidia.com/mig.config=wrong1: no such layout");
    cr_expect_str_eq(condition_get(&first.conditions, "Ready")->message,
                     "nothing is wanted of this node, but for the label "
                     "nvidia.com/mig.config=wrong1, which is not followed: no such layout");
    n.state.spec = &content;
    auto_device_status struct device_status second;
    build(&n.state, &first, NOW_MS, &second);
    cr_expect_null(condition_get(&second.conditions, "Accepted"));
    cr_expect_str_eq(condition_get(&second.conditions, "Ready")->message,
                     "nothing is wanted of this node");
    device_status_done(&first);
    node_done(&n);
}

Test(node_status, a_reason_that_the_api_server_would_refuse_does_not_cost_the_status)
{
    static char value[] = "wrong1";
    static char reason[] = "no-such";
    static char message[] = "no such layout";
    const struct device_spec refusing = {.has_refused_label = true,
                                         .refused_label = {value, reason, message}};
    struct node n;
    node_init(&n, 1);
    node_read(&n);
    n.state.spec = &refusing;
    auto_device_status struct device_status built;
    build(&n.state, NULL, NOW_MS, &built);
    cr_expect_str_eq(condition_get(&built.conditions, "Accepted")->reason, "Refused");
    node_done(&n);
}

Test(node_status, labels_stay_as_they_are_while_nothing_happens)
{
    struct node n;
    node_init(&n, 1);
    node_read(&n);
    struct device_status first;
    struct device_status second;
    build(&n.state, NULL, NOW_MS, &first);
    build(&n.state, &first, NOW_MS + 60000, &second);
    auto_json json_t *a = device_status_encode(&first);
    auto_json json_t *b = device_status_encode(&second);
    cr_expect(json_equal(json_object_get(a, "labels"), json_object_get(b, "labels")));
    device_status_done(&first);
    device_status_done(&second);
    node_done(&n);
}

Test(node_status, a_card_not_read_since_the_start_leaves_the_labels_as_they_were)
{
    struct node n;
    node_init(&n, 2);
    node_read(&n);
    n.state.host = &host;
    struct device_status first;
    struct device_status second;
    build(&n.state, NULL, NOW_MS, &first);
    n.views[1].card.unread = true;
    build(&n.state, &first, NOW_MS, &second);
    cr_expect_str_eq(label_of(&second, "nvidia.com/gpu.count"), "2");
    device_status_done(&first);
    device_status_done(&second);
    node_done(&n);
}

Test(node_status, without_a_driver_the_labels_tell_the_devices)
{
    const struct node_state s = {.host = &host, .agent_version = "v1", .spec_seen = true};
    auto_device_status struct device_status st;
    build(&s, NULL, NOW_MS, &st);
    cr_expect_str_eq(label_of(&st, "feature.node.kubernetes.io/pci-10de.present"), "true");
    cr_expect_str_eq(label_of(&st, "nvidia.com/gpu.count"), "(none)");
    cr_expect_str_eq(label_of(&st, "nvidia.com/gfd.timestamp"), "(none)");
}

Test(node_status, a_driver_that_goes_leaves_the_labels)
{
    struct node n;
    node_init(&n, 1);
    node_read(&n);
    n.state.host = &host;
    struct device_status first;
    struct device_status second;
    build(&n.state, NULL, NOW_MS, &first);
    n.state.inventory = NULL;
    build(&n.state, &first, NOW_MS, &second);
    cr_expect_str_eq(label_of(&second, "nvidia.com/gpu.count"), "1");
    device_status_done(&first);
    device_status_done(&second);
    node_done(&n);
}

Test(node_status, a_card_names_those_that_links_join_it_to)
{
    struct node n;
    auto_device_status struct device_status st = {0};
    node_init(&n, 3);
    (void)snprintf(n.hw.cards[0].card.pcie_root, GPU_ROOT_BYTES, "pci0000:15");
    node_read(&n);
    gpu_topology_done(&n.inventory.topology);
    gpu_topology_init(&n.inventory.topology, 3);
    gpu_topology_at(&n.inventory.topology, 0, 1)->links = 18;
    gpu_topology_at(&n.inventory.topology, 0, 2)->links = 18;
    n.views[0].card.mode = n.views[2].card.mode = GPU_NATIVE; /* the second one is cut */
    build(&n.state, /* prev= */ NULL, NOW_MS, &st);
    cr_assert_eq(st.devices[0].n_linked_with, 1);
    cr_expect_eq(st.devices[0].linked_with[0], 2);
    cr_expect_eq(st.devices[1].n_linked_with, 0);
    cr_assert_eq(st.devices[2].n_linked_with, 1);
    cr_expect_eq(st.devices[2].linked_with[0], 0);
    cr_expect_str_eq(st.devices[0].pcie_root, "pci0000:15");
    cr_expect_null(st.devices[1].pcie_root);
    gpu_topology_done(&n.inventory.topology);
    node_done(&n);
}
