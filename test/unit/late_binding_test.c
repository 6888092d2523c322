/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <string.h>

#include "base/xalloc.h"
#include "base/yaml.h"

#include "kubeclient/fake/fake.h"
#include "nodeagent/slots/late_binding.h"
#include "service/resources.h"

/* One card of 64 GiB whose slices are made for pods, and an API server in memory. */
static struct clock *clk;
static struct kc *kc;
static struct scope *scope;
static struct pod_reader *pods;
static struct late_binding *late;
static struct gpu_card card;
static bool open_card;
/* One of 80 GiB that gives shares. */
static struct gpu_card fractional;
static struct share_card share_card;
static struct shares shares;
static struct holders holders;

/* The slots that jobs have in hand, and whether something that runs may leave room. */
static struct device_slots in_hand;
static bool room_may_come, hangs;
/* The kubelet has made what it makes for a pod. */
static bool ready;

static void set_up(void)
{
    clk = clock_fake_new(1000000);
    kc = kc_fake_new(clk);
    scope = scope_new(NULL, -1);
    pods = pod_reader_new(kc);
    late = late_binding_new(&(struct late_binding_deps){pods, clk, "n1", 1});
    card = (struct gpu_card){.vendor = "metax", .uuid = "GPU-0", .mode = GPU_SGPU, .healthy = true};
    card.sgpu = (struct sgpu_state){.memory_mib = 65536, .qos = API_FIXED_SHARE};
    open_card = true;
    fractional = (struct gpu_card){.vendor = "nvidia", .uuid = "GPU-1", .memory_mib = 81920};
    share_card = (struct share_card){.card = &fractional, .total = {81920, 100, 10}};
    shares = (struct shares){0};
    holders = (struct holders){0};
    in_hand = (struct device_slots){0};
    room_may_come = hangs = false;
    ready = true;
}

static void tear_down(void)
{
    holders_done(&holders);
    shares_done(&shares);
    late = late_binding_free(late);
    pods = pod_reader_free(pods);
    scope = scope_free(scope);
    kc = kc_free(kc);
    clk = clock_free(clk);
}

TestSuite(late_binding, .init = set_up, .fini = tear_down);

/* A pod on the node, of one container that asks for so many slots. */
static void make_pod(const char *name, const char *node, int slots, const char *memory)
{
    auto_json json_t *pod = NULL;
    auto_err struct err e = {0};
    auto_free char *text = xasprintf(
        "apiVersion: v1\nkind: Pod\nmetadata: {name: %s, namespace: ns}\n"
        "spec: {nodeName: %s, containers: [{name: main, resources: {limits: "
        "{metax-tech.com/sgpu: '%d', koordinator.sh/gpu-core: '10', koordinator.sh/gpu-memory: "
        "%s}}}]}",
        name, node, slots, memory);
    cr_assert_eq(yaml_load(text, strlen(text), &pod, &e), 0, "%s", err_msg(&e));
    const struct kc_target target = {.res = &resource_pods, .ns = "ns"};
    cr_assert_eq(kc_create(kc, scope, &target, &(struct kc_write){.body = pod}, NULL, &e), 0, "%s",
                 err_msg(&e));
}

static void remove_pod(const char *name)
{
    const struct kc_target target = {.res = &resource_pods, .ns = "ns", .name = name};
    cr_assert_eq(kc_remove(kc, scope, &target, NULL, NULL), 0);
}

struct given {
    unsigned slot;
    const char *pod;
};

/* The kubelet's list, asked for so long after now. Only news is followed, as kubelet_link has it.
 */
static void list_after(int64_t ms, const struct given *given, size_t n)
{
    struct holder *listed = NULL;
    size_t count = 0;
    for (size_t i = 0; i < n; i++)
        *XPUSH(listed, count) = (struct holder){.id = xasprintf("sgpu@%u", given[i].slot),
                                                .ns = xstrdup("ns"),
                                                .pod = xstrdup(given[i].pod),
                                                .container = xstrdup("main"),
                                                .resource = xstrdup("metax-tech.com/sgpu")};
    if (holders_list(&holders, listed, count, clock_mono_ms(clk) + ms))
        late_binding_follow(late, &holders);
}

static void list(const struct given *given, size_t n)
{
    list_after(1, given, n);
}

static void grant(unsigned slot)
{
    auto_free char *id = xasprintf("sgpu@%u", slot);
    holders_grant(&holders, (const char *const[]){id}, 1, clock_mono_ms(clk));
    late_binding_follow(late, &holders);
}

static void read_pods(void)
{
    while (pod_reader_step(pods, scope)) {
    }
    late_binding_take(late);
}

static bool may_bind(void *arg, const struct slot_binding *b, struct err *ret_why)
{
    (void)arg;
    for (size_t i = 0; i < b->n; i++) {
        if (!device_slots_has(&in_hand, b->bound[i].slot))
            continue;
        if (hangs)
            (void)err_set(ret_why, ERR_UNAVAILABLE, "a call does not return");
        return false;
    }
    return true;
}

static bool may_release(void *arg, unsigned slot)
{
    (void)arg;
    return !device_slots_has(&in_hand, slot);
}

static bool is_ready(void *arg, const struct slot_binding *b, struct err *ret_why)
{
    (void)arg;
    if (!ready)
        (void)err_set(ret_why, ERR_NOT_FOUND, "%s has no cgroup", b->pod);
    return ready;
}

static struct slot_gate gate(void)
{
    return (struct slot_gate){is_ready, may_bind, may_release, NULL, room_may_come, room_may_come};
}

static struct device_slots all_made(void)
{
    struct device_slots made = {0};
    device_slots_add(&made, &card);
    for (size_t i = 0; i < shares.n; i++)
        device_slots_put(&made, shares.items[i].slot);
    return made;
}

static bool next(struct slot_binding *ret)
{
    const struct slot_gate g = gate();
    const struct slot_card cards[] = {{.card = &card, .qos = -1, .open = open_card}};
    const struct share_place places[] = {{.card = share_card, .open = true}};
    const struct slot_rooms rooms = {cards, 1, {places, 1, &shares, /* scores= */ NULL}};
    const struct device_slots made = all_made();
    return late_binding_next(late, &rooms, &made, &g, ret);
}

/* A slice of a slot stands already. */
static void stands(unsigned slot, unsigned memory_mib, unsigned compute_percent)
{
    struct sgpu_slice *s = &card.sgpu.items[card.sgpu.n];
    *s = (struct sgpu_slice){.id = card.sgpu.n++, .quota = {memory_mib, compute_percent}};
    sgpu_slot_alias(slot, s->alias);
}

/* The next binding is of this pod with these slots, and succeeds. */
static void expect_bound(const char *pod, size_t n, unsigned memory_mib)
{
    auto_slot_binding struct slot_binding b = {0};
    cr_assert(next(&b), "%s", pod);
    cr_expect_str_eq(b.pod, pod);
    cr_expect_eq(b.n, n);
    cr_expect_eq(b.bound[0].quota.memory_mib, memory_mib);
    for (size_t i = 0; i < b.n; i++)
        stands(b.bound[i].slot, b.bound[i].quota.memory_mib, b.bound[i].quota.compute_percent);
    late_binding_bound(late, &b, NULL);
}

static void expect_none(void)
{
    auto_slot_binding struct slot_binding b = {0};
    cr_expect_not(next(&b), "%s", b.pod);
}

static bool released(unsigned *ret)
{
    const struct slot_gate g = gate();
    struct device_slots made = {0};
    device_slots_add(&made, &card);
    return late_binding_release(late, &holders, &made, &g, ret);
}

static bool is_sick(unsigned slot)
{
    struct device_slots made = {0};
    struct device_slots sick;
    device_slots_add(&made, &card);
    late_binding_sick(late, &made, &sick);
    return device_slots_has(&sick, slot);
}

static void expect_release(unsigned slot)
{
    unsigned found = 0;
    cr_assert(released(&found));
    cr_expect_eq(found, slot);
    card.sgpu.n = 0;
    late_binding_released(late, slot, NULL);
}

Test(late_binding, a_slot_is_bound_once_its_pod_is_listed_and_read)
{
    make_pod("a", "n1", 1, "1Gi");
    grant(3);
    expect_none();
    list((struct given[]){{3, "a"}}, 1);
    expect_none();
    read_pods();
    expect_bound("a", 1, 1024);
    expect_none();
    list((struct given[]){{3, "a"}}, 1);
    read_pods();
    expect_none();
    cr_expect_eq(kc_fake_calls(kc, KC_GET), 1, "a pod is read once");
    cr_expect_eq(late_binding_due_mono_ms(late), INT64_MAX, "nothing is left to do");
}

/* The time of the next binding, as the agent's metric has it; 0: it is not measured. */
static int64_t known_of_next(void)
{
    auto_slot_binding struct slot_binding b = {0};
    auto_err struct err e = {0};
    cr_assert(next(&b));
    (void)err_set(&e, ERR_UNAVAILABLE, "the driver is busy");
    late_binding_bound(late, &b, &e);
    return b.known_mono_us;
}

Test(late_binding, the_time_of_a_binding_is_that_since_its_pod_was_read_unless_it_had_to_wait)
{
    make_pod("a", "n1", 1, "1Gi");
    list((struct given[]){{3, "a"}}, 1);
    clock_fake_advance(clk, 700);
    read_pods();
    int64_t read_us = clock_mono_us(clk);
    clock_fake_advance(clk, 2);
    cr_expect_eq(known_of_next(), read_us, "what the API server took is not in it");
    clock_fake_advance(clk, 60000);
    expect_none();
    read_pods();
    cr_expect_eq(known_of_next(), clock_mono_us(clk), "after an error from the next reading on");
}

/* A pod finds the card full, and is bound when it is empty. */
static void expect_unmeasured_after_a_wait(void)
{
    make_pod("a", "n1", 1, "1Gi");
    stands(7, 65536, 100);
    list((struct given[]){{3, "a"}}, 1);
    read_pods();
    expect_none();
    card.sgpu.n = 0;
    late_binding_retry_now(late);
    cr_expect_eq(known_of_next(), 0);
}

Test(late_binding, of_a_pod_that_waited_for_room_no_time_is_measured)
{
    expect_unmeasured_after_a_wait();
}

Test(late_binding, of_a_pod_that_waited_for_a_job_that_brings_room_no_time_is_measured)
{
    room_may_come = true;
    expect_unmeasured_after_a_wait();
}

/* A restarted agent finds what it made before. */
Test(late_binding, what_stands_already_is_not_measured)
{
    make_pod("a", "n1", 1, "1Gi");
    stands(3, 1024, 10);
    list((struct given[]){{3, "a"}}, 1);
    read_pods();
    cr_expect_eq(known_of_next(), 0);
}

Test(late_binding, what_is_bound_anew_is_not_measured)
{
    make_pod("a", "n1", 1, "1Gi");
    list((struct given[]){{3, "a"}}, 1);
    read_pods();
    expect_bound("a", 1, 1024);
    late_binding_again(late, /* only= */ NULL);
    cr_expect_eq(known_of_next(), 0);
}

Test(late_binding, only_what_lost_something_is_bound_anew)
{
    struct device_slots lost = {0};
    make_pod("a", "n1", 1, "1Gi");
    make_pod("b", "n1", 1, "2Gi");
    list((struct given[]){{3, "a"}, {4, "b"}}, 2);
    read_pods();
    expect_bound("a", 1, 1024);
    expect_bound("b", 1, 2048);
    late_binding_again(late, &lost);
    expect_none();
    device_slots_put(&lost, 4);
    late_binding_again(late, &lost);
    expect_bound("b", 1, 2048);
    expect_none();
}

Test(late_binding, a_list_of_the_moment_of_the_grant_may_show_its_pod_and_the_next_confirms_it)
{
    make_pod("a", "n1", 1, "1Gi");
    grant(3);
    list_after(0, (struct given[]){{3, "a"}}, 1);
    read_pods();
    expect_none();
    list((struct given[]){{3, "a"}}, 1);
    read_pods();
    expect_bound("a", 1, 1024);
}

/* --- What the kubelet makes for a pod after the grant --- */

static bool is_reported(const char *why)
{
    struct unbound news;
    bool is_news = late_binding_news(late, &news);
    cr_expect(!is_news || strcmp(news.why, why) == 0, "%s", news.why);
    return is_news;
}

Test(late_binding, a_pod_waits_in_silence_for_what_the_kubelet_makes_and_is_not_measured_meanwhile)
{
    make_pod("a", "n1", 1, "1Gi");
    list((struct given[]){{3, "a"}}, 1);
    read_pods();
    ready = false;
    expect_none();
    clock_fake_advance(clk, 4000);
    late_binding_retry_now(late);
    expect_none();
    cr_expect_not(is_reported(""));
    cr_expect_eq(late_binding_due_mono_ms(late), clock_mono_ms(clk) + 1000,
                 "a look in vain is due");
    ready = true;
    expect_none();
    late_binding_retry_now(late);
    cr_expect_eq(known_of_next(), clock_mono_us(clk));
}

Test(late_binding, a_pod_that_waits_for_long_is_reported_once_and_read_anew)
{
    make_pod("a", "n1", 1, "1Gi");
    list((struct given[]){{3, "a"}}, 1);
    read_pods();
    ready = false;
    expect_none();
    for (int i = 0; i < 8; i++) {
        clock_fake_advance(clk, 5000);
        expect_none();
        read_pods();
        expect_none();
        cr_expect_eq(is_reported("a has no cgroup"), i == 0, "%d", i);
    }
    ready = true;
    late_binding_retry_now(late);
    expect_bound("a", 1, 1024);
}

Test(late_binding, the_slots_of_one_container_are_bound_together)
{
    make_pod("a", "n1", 2, "2Gi");
    list((struct given[]){{9, "a"}, {3, "a"}}, 2);
    read_pods();
    expect_bound("a", 2, 1024);
}

Test(late_binding, what_nobody_holds_any_more_is_released)
{
    unsigned slot;
    make_pod("a", "n1", 1, "1Gi");
    list((struct given[]){{3, "a"}}, 1);
    read_pods();
    expect_bound("a", 1, 1024);
    cr_expect_not(released(&slot));
    list(NULL, 0);
    expect_release(3);
    cr_expect_not(released(&slot));
}

/* Neither is due by itself: nobody is woken until the other job has ended. */
Test(late_binding, a_slot_in_another_jobs_hands_waits_and_holds_up_no_other)
{
    unsigned slot;
    struct unbound u;
    make_pod("a", "n1", 1, "1Gi");
    make_pod("b", "n1", 1, "1Gi");
    list((struct given[]){{3, "a"}, {4, "b"}}, 2);
    read_pods();
    device_slots_put(&in_hand, 3);
    cr_expect_not(released(&slot));
    expect_bound("b", 1, 1024);
    expect_none();
    cr_expect_eq(late_binding_due_mono_ms(late), INT64_MAX);
    cr_expect_not(late_binding_news(late, &u), "its pod is not reported");
    in_hand = (struct device_slots){0};
    expect_bound("a", 1, 1024);
}

Test(late_binding, a_slot_behind_a_call_that_hangs_is_reported_and_tried_again)
{
    struct unbound u;
    make_pod("a", "n1", 1, "1Gi");
    list((struct given[]){{3, "a"}}, 1);
    read_pods();
    device_slots_put(&in_hand, 3);
    hangs = true;
    expect_none();
    cr_assert(late_binding_news(late, &u));
    cr_expect_str_eq(u.why, "a call does not return");
    cr_expect_lt(late_binding_due_mono_ms(late), clock_mono_ms(clk) + 15000);
    in_hand = (struct device_slots){0};
    late_binding_retry_now(late);
    expect_bound("a", 1, 1024);
}

Test(late_binding, a_release_in_another_jobs_hands_waits_and_holds_up_no_other)
{
    unsigned slot = 0;
    late_binding_found(late, (unsigned[]){3, 4}, 2);
    list(NULL, 0);
    device_slots_put(&in_hand, 3);
    cr_assert(released(&slot));
    cr_expect_eq(slot, 4);
    cr_expect_not(released(&slot));
    cr_expect_eq(late_binding_due_mono_ms(late), INT64_MAX);
    in_hand = (struct device_slots){0};
    cr_assert(released(&slot));
    cr_expect_eq(slot, 3);
}

Test(late_binding, a_pod_without_room_waits_for_a_job_that_may_bring_it_and_is_reported_afterwards)
{
    struct unbound u;
    make_pod("a", "n1", 1, "1Gi");
    stands(7, 65536, 100);
    list((struct given[]){{3, "a"}}, 1);
    read_pods();
    room_may_come = true;
    expect_none();
    cr_expect_not(late_binding_news(late, &u));
    room_may_come = false;
    expect_none();
    cr_expect(late_binding_news(late, &u));
}

static bool lost(unsigned *ret)
{
    struct device_slots made = {0};
    device_slots_add(&made, &card);
    return late_binding_lost(late, &made, ret);
}

Test(late_binding, a_slice_that_somebody_removed_is_made_again_once)
{
    unsigned slot = 0;
    make_pod("a", "n1", 1, "1Gi");
    list((struct given[]){{3, "a"}}, 1);
    cr_expect_not(lost(&slot), "it has none yet");
    read_pods();
    expect_bound("a", 1, 1024);
    cr_expect_not(lost(&slot), "it stands");
    card.sgpu.n = 0;
    cr_assert(lost(&slot));
    cr_expect_eq(slot, 3);
    cr_expect_not(lost(&slot), "it is on its way");
    expect_none();
    read_pods();
    expect_bound("a", 1, 1024);
    cr_expect_not(lost(&slot));
}

Test(late_binding, nothing_is_released_while_it_is_not_known_who_holds_what)
{
    unsigned slot;
    make_pod("a", "n1", 1, "1Gi");
    list((struct given[]){{3, "a"}}, 1);
    read_pods();
    expect_bound("a", 1, 1024);
    list(NULL, 0);
    holders_unknown(&holders);
    cr_expect_not(released(&slot));
    cr_expect_gt(late_binding_due_mono_ms(late), clock_mono_ms(clk), "and nobody is woken");
}

Test(late_binding, a_slot_that_is_granted_anew_is_read_anew_even_for_a_pod_of_the_same_name)
{
    make_pod("a", "n1", 1, "1Gi");
    list((struct given[]){{3, "a"}}, 1);
    read_pods();
    expect_bound("a", 1, 1024);
    remove_pod("a");
    make_pod("a", "n1", 1, "2Gi");
    clock_fake_advance(clk, 10);
    grant(3);
    expect_none();
    list((struct given[]){{3, "a"}}, 1);
    read_pods();
    expect_bound("a", 1, 2048);
}

/* Another pod of the same name gets the same slot. */
static void replace_pod(void)
{
    remove_pod("a");
    make_pod("a", "n1", 1, "2Gi");
    clock_fake_advance(clk, 10);
    grant(3);
    list((struct given[]){{3, "a"}}, 1);
}

static int replace_while_read(void *arg, const struct kc_call *call, struct err *e)
{
    bool *done = arg;
    (void)e;
    if (call->verb != KC_GET || !call->after || *done)
        return 0;
    *done = true;
    replace_pod();
    return 0;
}

Test(late_binding, a_pod_is_not_bound_by_what_was_being_read_of_an_earlier_one_of_its_name)
{
    bool done = false;
    make_pod("a", "n1", 1, "1Gi");
    list((struct given[]){{3, "a"}}, 1);
    kc_fake_hook(kc, replace_while_read, &done);
    read_pods();
    cr_assert(done);
    expect_bound("a", 1, 2048);
}

Test(late_binding, a_pod_is_not_bound_by_an_answer_about_an_earlier_one_of_its_name)
{
    make_pod("a", "n1", 1, "1Gi");
    list((struct given[]){{3, "a"}}, 1);
    cr_assert(pod_reader_step(pods, scope));
    replace_pod();
    read_pods();
    expect_bound("a", 1, 2048);
}

Test(late_binding, a_restarted_agent_binds_again_and_releases_what_is_found_and_not_held)
{
    make_pod("a", "n1", 1, "1Gi");
    list((struct given[]){{3, "a"}}, 1);
    late_binding_found(late, (unsigned[]){3, 5}, 2);
    expect_release(5);
    read_pods();
    expect_bound("a", 1, 1024);
    unsigned slot;
    clock_fake_advance(clk, 60000);
    cr_expect_not(released(&slot));
}

Test(late_binding, the_slices_of_one_container_stand_already_and_are_counted_once)
{
    make_pod("a", "n1", 2, "64Gi");
    stands(3, 32768, 5);
    stands(9, 32768, 5);
    list((struct given[]){{3, "a"}, {9, "a"}}, 2);
    read_pods();
    auto_slot_binding struct slot_binding b = {0};
    cr_assert(next(&b));
    cr_expect_eq((int)b.unplaced.kind, 0, "%s", err_msg(&b.unplaced));
}

/* No place is found, and the binding is tried with what stands. */
static void expect_unplaced(const char *pod, const char *why, const struct err *outcome)
{
    auto_slot_binding struct slot_binding b = {0};
    cr_assert(next(&b), "%s", pod);
    cr_expect_str_eq(b.pod, pod);
    cr_expect_str_eq(err_msg(&b.unplaced), why);
    cr_expect_str_empty(b.bound[0].card);
    late_binding_bound(late, &b, outcome);
}

Test(late_binding, what_earlier_pods_left_is_in_nobodys_way)
{
    auto_err struct err e = {0};
    (void)err_set(&e, ERR_UNAVAILABLE, "no place");
    make_pod("a", "n1", 1, "60Gi");
    make_pod("b", "n1", 1, "60Gi");
    stands(3, 32768, 50);
    stands(4, 32768, 50);
    list((struct given[]){{3, "a"}, {4, "b"}}, 2);
    read_pods();
    expect_unplaced("a", "61440 MiB are asked for, and 32768 are left on MetaX GPU 0", &e);
    expect_unplaced("b", "61440 MiB are asked for, and 32768 are left on MetaX GPU 0", &e);
    late_binding_retry_now(late);
    expect_none();
    card.sgpu.n = 0;
    late_binding_retry_now(late);
    expect_bound("a", 1, 61440);
    expect_none();
}

Test(late_binding, a_slice_that_stands_stays_its_pods_whatever_became_of_the_card)
{
    struct unbound u;
    make_pod("a", "n1", 1, "1Gi");
    stands(3, 1024, 10);
    open_card = false;
    list((struct given[]){{3, "a"}}, 1);
    read_pods();
    expect_unplaced("a", "MetaX GPU 0 takes no new slices at the moment", NULL);
    expect_none();
    cr_expect_not(late_binding_news(late, &u));
}

Test(late_binding, what_has_no_room_says_so_once_and_waits_for_it)
{
    struct unbound u;
    make_pod("a", "n1", 1, "1Gi");
    card.sgpu.n = 1;
    card.sgpu.items[0] = (struct sgpu_slice){.quota = {65536, 100}, .foreign = true};
    list((struct given[]){{3, "a"}}, 1);
    read_pods();
    expect_none();
    cr_assert(late_binding_news(late, &u));
    cr_expect_str_eq(u.pod, "a");
    cr_expect_str_eq(u.why, "1024 MiB are asked for, and 0 are left on MetaX GPU 0");
    cr_expect_not(late_binding_news(late, &u));
    expect_none();
    card.sgpu.n = 0;
    late_binding_retry_now(late);
    expect_bound("a", 1, 1024);
}

Test(late_binding, what_has_no_room_may_come_to_ask_for_less)
{
    make_pod("a", "n1", 1, "128Gi");
    list((struct given[]){{3, "a"}}, 1);
    read_pods();
    expect_none();
    card.sgpu.n = 1;
    card.sgpu.items[0] = (struct sgpu_slice){.quota = {60 * 1024, 10}, .foreign = true};
    remove_pod("a");
    make_pod("a", "n1", 1, "8Gi");
    clock_fake_advance(clk, 20000);
    expect_none();
    read_pods();
    expect_none();
    remove_pod("a");
    make_pod("a", "n1", 1, "1Gi");
    clock_fake_advance(clk, 20000);
    expect_none();
    read_pods();
    expect_bound("a", 1, 1024);
}

/* A node whose cards are read each second, or where other pods come and go. */
Test(late_binding, a_pod_without_room_is_read_again_however_often_room_is_looked_for)
{
    bool bound = false;
    make_pod("a", "n1", 1, "8Gi");
    card.sgpu.n = 1;
    card.sgpu.items[0] = (struct sgpu_slice){.quota = {60 * 1024, 10}, .foreign = true};
    list((struct given[]){{3, "a"}}, 1);
    read_pods();
    expect_none();
    remove_pod("a");
    make_pod("a", "n1", 1, "1Gi");
    for (int i = 0; i < 30 && !bound; i++) {
        auto_slot_binding struct slot_binding b = {0};
        clock_fake_advance(clk, 500);
        late_binding_retry_now(late);
        bound = next(&b);
        read_pods();
    }
    cr_expect(bound);
}

Test(late_binding, a_pod_that_cannot_be_read_or_understood_is_read_again)
{
    struct unbound u;
    list((struct given[]){{3, "a"}}, 1);
    read_pods();
    expect_none();
    cr_assert(late_binding_news(late, &u), "there is no such pod");
    make_pod("a", "n1", 1, "none");
    clock_fake_advance(clk, 20000);
    expect_none();
    read_pods();
    cr_assert(late_binding_news(late, &u));
    cr_expect_str_eq(u.why, ".koordinator.sh/gpu-memory: \"none\" is not a quantity");
    remove_pod("a");
    make_pod("a", "n1", 1, "1Gi");
    clock_fake_advance(clk, 20000);
    expect_none();
    read_pods();
    expect_bound("a", 1, 1024);
}

/* The API server's image of a static pod, which somebody may delete: the kubelet makes it again,
 * and the pod runs on. */
static void make_mirror(const char *name)
{
    auto_json json_t *pod = NULL;
    auto_err struct err e = {0};
    auto_free char *text = xasprintf(
        "apiVersion: v1\nkind: Pod\n"
        "metadata: {name: %s, namespace: ns, annotations: {kubernetes.io/config.mirror: '8d5f'}}\n"
        "spec: {nodeName: n1, containers: [{name: main, resources: {limits: "
        "{metax-tech.com/sgpu: '1', koordinator.sh/gpu-memory: 1Gi}}}]}",
        name);
    cr_assert_eq(yaml_load(text, strlen(text), &pod, &e), 0, "%s", err_msg(&e));
    const struct kc_target target = {.res = &resource_pods, .ns = "ns"};
    cr_assert_eq(kc_create(kc, scope, &target, &(struct kc_write){.body = pod}, NULL, &e), 0, "%s",
                 err_msg(&e));
}

static int forbid(struct kc *c, struct scope *s, const struct kc_target *t, json_t **ret_obj,
                  struct err *e)
{
    (void)c;
    (void)s;
    (void)ret_obj;
    return err_set(e, ERR_FORBIDDEN, "cannot get resource \"pods\" %s", t->name);
}

/* Nobody is left to wonder why the container is not created: what to do is said, once, and when it
 * was done the slice is made. */
Test(late_binding, an_agent_that_may_not_read_pods_says_what_to_do)
{
    static const struct kc_ops ops = {.get = forbid};
    struct kc stranger = {.ops = &ops};
    struct unbound u;
    struct slot_binding b;
    pods = pod_reader_free(pods);
    late = late_binding_free(late);
    pods = pod_reader_new(&stranger);
    late = late_binding_new(&(struct late_binding_deps){pods, clk, "n1", 1});
    make_pod("a", "n1", 1, "1Gi");
    grant(0);
    clock_fake_advance(clk, 10);
    list((struct given[]){{0, "a"}}, 1);
    read_pods();
    cr_assert(late_binding_news(late, &u));
    cr_expect_str_eq(u.pod, "a");
    cr_expect_not_null(strstr(u.why, "may not read pods"), "%s", u.why);
    cr_expect_not_null(strstr(u.why, "install config/slots and label the Node"), "%s", u.why);
    cr_expect_not(late_binding_news(late, &u), "it is said once");
    cr_expect_not(next(&b));
    clock_fake_advance(clk, 20000);
    cr_expect_not(next(&b));
    read_pods();
    cr_expect_not(late_binding_news(late, &u), "the same is not said again");
    cr_expect_lt(late_binding_due_mono_ms(late), clock_mono_ms(clk) + 15000, "it is tried again");
}

static bool may_read;

static int forbid_at_first(struct kc *c, struct scope *s, const struct kc_target *t,
                           json_t **ret_obj, struct err *e)
{
    if (!may_read)
        return forbid(c, s, t, ret_obj, e);
    return err_set(e, ERR_NOT_FOUND, "%s", t->name);
}

/* Before any pod is here, so that none comes and waits; and until somebody gives the right. */
Test(late_binding, the_right_to_read_pods_is_asked_for_before_a_pod_needs_it)
{
    static const struct kc_ops ops = {.get = forbid_at_first};
    struct kc stranger = {.ops = &ops};
    pods = pod_reader_free(pods);
    late = late_binding_free(late);
    pods = pod_reader_new(&stranger);
    late = late_binding_new(&(struct late_binding_deps){pods, clk, "n1", 1});
    may_read = false;
    cr_expect_eq(late_binding_due_mono_ms(late), INT64_MAX);
    late_binding_ask_right(late, true);
    cr_expect_null(late_binding_forbidden(late), "it is not known yet");
    cr_assert(pod_reader_step(pods, scope));
    cr_expect(late_binding_take(late), "news");
    cr_expect_not_null(strstr(late_binding_forbidden(late), "install config/slots and label"));
    late_binding_ask_right(late, true);
    cr_expect_not(pod_reader_step(pods, scope), "not at once");
    cr_expect_lt(late_binding_due_mono_ms(late), clock_mono_ms(clk) + 15000);
    late_binding_ask_right(late, false);
    cr_expect_eq(late_binding_due_mono_ms(late), INT64_MAX, "no slices are made for pods");
    late_binding_ask_right(late, true);
    cr_assert(pod_reader_step(pods, scope));
    cr_expect_not(late_binding_take(late), "it is as it was");
    may_read = true;
    clock_fake_advance(clk, 15000);
    late_binding_ask_right(late, true);
    cr_assert(pod_reader_step(pods, scope));
    cr_expect(late_binding_take(late));
    cr_expect_null(late_binding_forbidden(late));
    cr_expect_eq(late_binding_due_mono_ms(late), INT64_MAX, "nothing more is asked");
    clock_fake_advance(clk, 60000);
    late_binding_ask_right(late, true);
    cr_expect_not(pod_reader_step(pods, scope));
}

Test(late_binding, a_right_that_is_taken_away_is_missed_with_the_next_pod)
{
    static const struct kc_ops ops = {.get = forbid_at_first};
    struct kc stranger = {.ops = &ops};
    pods = pod_reader_free(pods);
    late = late_binding_free(late);
    pods = pod_reader_new(&stranger);
    late = late_binding_new(&(struct late_binding_deps){pods, clk, "n1", 1});
    may_read = true;
    late_binding_ask_right(late, true);
    cr_assert(pod_reader_step(pods, scope));
    cr_expect_not(late_binding_take(late), "as was thought");
    may_read = false;
    grant(0);
    list((struct given[]){{0, "a"}}, 1);
    cr_assert(pod_reader_step(pods, scope));
    cr_expect(late_binding_take(late));
    cr_expect_not_null(late_binding_forbidden(late));
}

Test(late_binding, a_static_pod_is_the_same_when_its_mirror_is_made_again)
{
    for (unsigned i = 0; i < 2; i++) {
        make_mirror("a");
        list((struct given[]){{3, "a"}}, 1);
        read_pods();
        auto_slot_binding struct slot_binding b = {0};
        cr_assert(next(&b));
        cr_expect_str_eq(b.uid, "8d5f");
        late_binding_bound(late, &b, NULL);
        remove_pod("a");
        list(NULL, 0); /* as an agent that starts again */
    }
}

Test(late_binding, a_pod_of_another_node_is_nothing_to_us)
{
    struct unbound u;
    make_pod("a", "n2", 1, "1Gi");
    list((struct given[]){{3, "a"}}, 1);
    read_pods();
    expect_none();
    cr_assert(late_binding_news(late, &u));
    cr_expect_str_eq(u.why, "the pod of this name is not on this node");
}

Test(late_binding, a_binding_that_failed_is_tried_again_later)
{
    make_pod("a", "n1", 1, "1Gi");
    list((struct given[]){{3, "a"}}, 1);
    read_pods();
    auto_slot_binding struct slot_binding b = {0};
    auto_err struct err e = {0};
    cr_assert(next(&b));
    (void)err_set(&e, ERR_SYSTEM, "disk full");
    late_binding_bound(late, &b, &e);
    expect_none();
    clock_fake_advance(clk, 20000);
    expect_none();
    read_pods();
    expect_bound("a", 1, 1024);
}

Test(late_binding, a_pod_that_ends_while_its_slice_is_made_leaves_nothing)
{
    make_pod("a", "n1", 1, "1Gi");
    list((struct given[]){{3, "a"}}, 1);
    read_pods();
    auto_slot_binding struct slot_binding b = {0};
    cr_assert(next(&b));
    list(NULL, 0);
    late_binding_bound(late, &b, NULL);
    expect_release(3);
}

Test(late_binding, what_is_bound_is_told_anew_without_asking_for_its_pod)
{
    auto_slot_binding struct slot_binding b = {0};
    make_pod("a", "n1", 1, "1Gi");
    list((struct given[]){{3, "a"}}, 1);
    read_pods();
    expect_bound("a", 1, 1024);
    expect_none();
    late_binding_again(late, /* only= */ NULL);
    cr_assert(next(&b));
    cr_expect_eq(b.bound[0].slot, 3);
    cr_expect_eq(b.bound[0].quota.memory_mib, 1024, "in the place of its own slice");
    late_binding_again(late, /* only= */ NULL);
    expect_none();
    late_binding_bound(late, &b, NULL);
    expect_none();
}

Test(late_binding, a_released_slice_that_still_shows_holds_up_nobody)
{
    unsigned slot = 0;
    list(NULL, 0);
    stands(5, 1024, 10);
    cr_assert(released(&slot));
    cr_expect_not(is_sick(5));
    late_binding_released(late, 5, NULL);
    cr_expect_not(released(&slot), "its card could not be read since");
    cr_expect(is_sick(5));
    cr_expect_gt(late_binding_due_mono_ms(late), clock_mono_ms(clk));
    clock_fake_advance(clk, 20000);
    expect_release(5);
    cr_expect_not(is_sick(5));
    cr_expect_not(released(&slot));
    cr_expect_eq(late_binding_due_mono_ms(late), INT64_MAX);
}

Test(late_binding, a_release_that_failed_is_tried_again_and_wakes_nobody_meanwhile)
{
    unsigned slot = 0;
    auto_err struct err e = {0};
    list(NULL, 0);
    late_binding_found(late, (unsigned[]){5}, 1);
    cr_assert(released(&slot));
    cr_expect_not(released(&slot), "it is in work");
    (void)err_set(&e, ERR_UNAVAILABLE, "in use");
    cr_expect_not(is_sick(5));
    late_binding_released(late, 5, &e);
    cr_expect(is_sick(5) && !is_sick(4));
    cr_expect_not(released(&slot));
    cr_expect_gt(late_binding_due_mono_ms(late), clock_mono_ms(clk));
    clock_fake_advance(clk, 20000);
    expect_release(5);
    cr_expect_not(is_sick(5));
}

/* --- Shares --- */

static void list_share(unsigned number, const char *pod)
{
    struct holder *listed = NULL;
    size_t count = 0;
    *XPUSH(listed, count) = (struct holder){.id = xasprintf("share@%u", number),
                                            .ns = xstrdup("ns"),
                                            .pod = xstrdup(pod),
                                            .container = xstrdup("main"),
                                            .resource = xstrdup("nvidia.com/gpu")};
    if (holders_list(&holders, listed, count, clock_mono_ms(clk) + 1))
        late_binding_follow(late, &holders);
}

static void make_share_pod(const char *name, const char *memory)
{
    auto_json json_t *pod = NULL;
    auto_free char *text =
        xasprintf("apiVersion: v1\nkind: Pod\nmetadata: {name: %s, namespace: ns}\n"
                  "spec: {nodeName: n1, containers: [{name: main, resources: {limits: "
                  "{nvidia.com/gpu: '1', nvidia.com/gpumem: '%s'}}}]}",
                  name, memory);
    cr_assert_eq(yaml_load(text, strlen(text), &pod, NULL), 0);
    const struct kc_target target = {.res = &resource_pods, .ns = "ns"};
    cr_assert_eq(kc_create(kc, scope, &target, &(struct kc_write){.body = pod}, NULL, NULL), 0);
}

Test(late_binding, a_share_is_bound_on_the_card_that_gives_it)
{
    auto_slot_binding struct slot_binding b = {0};
    make_share_pod("a", "3000");
    list_share(7, "a");
    read_pods();
    cr_assert(next(&b));
    cr_expect_eq(b.bound[0].slot, slot_at(SLOT_POOL_SHARE, 7));
    cr_expect_str_eq(b.bound[0].card, "GPU-1");
    cr_expect_eq(b.bound[0].quota.memory_mib, 3000);
    late_binding_bound(late, &b, NULL);
    expect_none();
}

Test(late_binding, a_pod_without_room_for_its_share_waits_and_is_told_of)
{
    struct unbound u;
    make_share_pod("a", "90000");
    list_share(7, "a");
    read_pods();
    expect_none();
    cr_assert(late_binding_news(late, &u));
    cr_expect(u.of_shares);
    cr_expect(strstr(u.why, "90000 MiB"), "%s", u.why);
}

Test(late_binding, what_a_neighbour_leaves_is_not_told_each_time)
{
    struct unbound u;
    make_share_pod("a", "90000");
    list_share(7, "a");
    read_pods();
    expect_none();
    cr_assert(late_binding_news(late, &u));
    share_card.used = (struct fraction_size){1000, 0, 1}; /* another number in the reason */
    late_binding_retry_now(late);
    expect_none();
    cr_expect_not(late_binding_news(late, &u));
}

Test(late_binding, while_a_share_is_released_a_pod_waits_without_a_word)
{
    struct unbound u;
    auto_slot_binding struct slot_binding b = {0};
    make_share_pod("a", "3000");
    share_card.used = share_card.total;
    room_may_come = true;
    list_share(7, "a");
    read_pods();
    expect_none();
    cr_expect_not(late_binding_news(late, &u));
    share_card.used = (struct fraction_size){0};
    cr_expect(next(&b));
}
