/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "base/sb.h"
#include "base/xalloc.h"

#include "api/allocation.h"
#include "kubeclient/fake/fake.h"
#include "scheduler/choice.h"
#include "scheduler/node_cards.h"

/* What is chosen, on a model of an API server whose Devices and pods the view follows. */

enum { MAX_NAMES = 8 };

static struct clock *clk;
static struct scope *scope;
static struct kc *kc;
static struct view *view;
static struct informer *devices, *pods;
static struct choice choice; /* the last one */
static struct sb grown;      /* the nodes that had more room, in order */

static void on_grown(void *arg, const char *node)
{
    (void)arg;
    sb_addf(&grown, "%s ", node);
}

static struct informer *follow(const struct object_type *type)
{
    return informer_new(kc, &(struct informer_opts){.type = type, .clk = clk});
}

static void set_up(void)
{
    log_setup(LOG_ERROR, LOG_LOGFMT, 2);
    clk = clock_fake_new(0);
    scope = scope_new(NULL, -1);
    kc = kc_fake_new(clk);
    kc_fake_watch_drains(kc, true);
    grown = SB_INIT(1000);
    view = view_new(clk, on_grown, NULL);
    devices = follow(&node_cards_type);
    pods = follow(&pod_shares_type);
    view_follow(view, devices, pods);
}

static void tear_down(void)
{
    choice_done(&choice);
    (void)informer_free(devices);
    (void)informer_free(pods);
    (void)view_free(view);
    (void)kc_free(kc);
    (void)clock_free(clk);
    (void)scope_free(scope);
    sb_done(&grown);
}

TestSuite(scheduler_choice, .init = set_up, .fini = tear_down);

/* What the API server has by now is seen. */
static void see(void)
{
    auto_err struct err e = {0};
    for (int i = 0; i < 2; i++) {
        (void)!informer_step(devices, scope, /* ret_wait_ms= */ NULL, &e);
        (void)!informer_step(pods, scope, /* ret_wait_ms= */ NULL, &e);
    }
}

static json_t *object(const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    auto_free char *text = xvasprintf(fmt, ap);
    va_end(ap);
    json_error_t why;
    json_t *o = json_loads(text, 0, &why);
    cr_assert(o, "%s: %s", why.text, text);
    return o;
}

static void create(const struct object_type *type, const char *ns, json_t *take)
{
    auto_err struct err e = {0};
    auto_json json_t *o = take;
    const struct kc_target t = {.res = type->resource, .ns = ns};
    cr_assert_eq(kc_create(kc, scope, &t, &(struct kc_write){.body = o}, NULL, &e), 0, "%s",
                 err_msg(&e));
}

/* A Device with this status, which has a path of its own. */
static void create_device(const char *name, json_t *status_take)
{
    auto_err struct err e = {0};
    const struct kc_target t = {.res = node_cards_type.resource,
                                .name = name,
                                .subresource = "status"};
    auto_json json_t *status = object("{}");
    (void)json_object_set_new(status, "status", status_take);
    create(
        &node_cards_type, NULL,
        object(
            "{\"apiVersion\": \"gpu.cleave.dev/v1alpha1\", \"kind\": \"Device\", \"metadata\": {\"name\": \"%s\"}}",
            name));
    cr_assert_eq(kc_patch(kc, scope, &t, &(struct kc_write){.body = status, .how = KC_MERGE}, NULL,
                          &e),
                 0, "%s", err_msg(&e));
}

#define CARD                                                                                       \
    "\"vendor\": \"nvidia\", \"model\": \"NVIDIA H100 80GB HBM3\", \"numaNode\": 0, "              \
    "\"memoryMiB\": 81559, \"healthy\": true, \"mode\": \"native\""
#define FRACTIONAL                                                                                 \
    CARD ", \"fractional\": {\"memoryMiB\": 81559, \"computePercent\": 100, \"maxShares\": 10, "   \
         "\"enforcement\": \"none\"}"

/* A node with cards NAME-0, NAME-1, …: as many that give shares, and as many that give themselves. */
static void node(const char *name, int fractional, int whole, const char *more)
{
    auto_sb struct sb cards = SB_INIT(10000);
    for (int i = 0; i < fractional + whole; i++)
        sb_addf(&cards, "%s{\"uuid\": \"%s-%d\", \"index\": %d, %s%s}", i ? ", " : "", name, i, i,
                i < fractional ? FRACTIONAL : CARD, i ? "" : more);
    create_device(name, object("{\"devices\": [%s]}", sb_str(&cards)));
}

#define LIMITS(limits)                                                                             \
    "\"containers\": [{\"name\": \"main\", \"resources\": {\"limits\": {" limits "}}}]"
#define PART(mib) LIMITS("\"nvidia.com/gpu\": \"1\", \"nvidia.com/gpumem\": \"" #mib "\"")
#define WHOLE(n)  LIMITS("\"nvidia.com/gpu\": \"" #n "\"")

static json_t *pod(const char *name, const char *annotations, const char *spec)
{
    return object(
        "{\"apiVersion\": \"v1\", \"kind\": \"Pod\", \"metadata\": {\"name\": \"%s\", "
        "\"namespace\": \"ns\", \"uid\": \"uid-%s\", \"annotations\": {%s}}, \"spec\": {%s}}",
        name, name, annotations, spec);
}

static const char *kept(void)
{
    static char text[200];
    text[0] = '\0';
    for (size_t i = 0; i < choice.n_kept; i++)
        (void)snprintf(text + strlen(text), sizeof(text) - strlen(text), "%s%s", i ? " " : "",
                       choice.kept[i]);
    return text;
}

/* Chooses for a pod; the result is kept(). */
static const char *choose(json_t *take, const char *const *names)
{
    auto_err struct err e = {0};
    auto_json json_t *p = take;
    auto_pod_ask struct pod_ask ask = {0};
    size_t n = 0;
    while (names[n])
        n++;
    cr_assert_eq(pod_ask_of(p, &ask, &e), 0, "%s", err_msg(&e));
    choice_done(&choice);
    choice_make(view, &ask, names, n, &choice);
    return kept();
}
#define NAMES(...) ((const char *const[]){__VA_ARGS__, NULL})

/* The uuid of the card that was assumed for the pod on the node; "" where nothing was. */
static const char *assumed(const char *uid, const char *on)
{
    static char uuid[64];
    view_begin(view);
    auto_free char *text = view_confirm(view, uid, on);
    view_end(view);
    uuid[0] = '\0';
    if (!text)
        return uuid;
    AUTO(allocation) struct allocation a = {0};
    auto_json json_t *annotations = json_loads(text, 0, NULL);
    const char *record = json_string_value(json_object_get(annotations, ALLOCATION_ANNOTATION));
    cr_assert_eq(allocation_parse(record, &a, NULL), 0, "%s", text);
    (void)snprintf(uuid, sizeof(uuid), "%s", a.containers[0].shares[0].uuid);
    return uuid;
}

/* The pod as the API server has it once it is bound by what was assumed. */
static void bind(const char *name, const char *on, json_t *take)
{
    auto_json json_t *unbound = take;
    auto_free char *uid = xasprintf("uid-%s", name);
    view_begin(view);
    auto_free char *text = view_confirm(view, uid, on);
    view_end(view);
    cr_assert(text);
    (void)json_object_set_new(json_object_get(unbound, "metadata"), "annotations",
                              json_loads(text, 0, NULL));
    (void)json_object_set_new(json_object_get(unbound, "spec"), "nodeName", json_string(on));
    create(&pod_shares_type, "ns", json_incref(unbound));
}

static void delete (const char *name)
{
    auto_err struct err e = {0};
    const struct kc_target t = {.res = pod_shares_type.resource, .ns = "ns", .name = name};
    cr_assert_eq(kc_remove(kc, scope, &t, NULL, &e), 0, "%s", err_msg(&e));
}

/* --- Nodes --- */

Test(scheduler_choice, a_pod_without_cards_may_go_anywhere)
{
    node("a", 1, 0, "");
    see();
    cr_expect_str_eq(choose(pod("p", "", LIMITS("")), NAMES("a", "b")), "a b");
}

Test(scheduler_choice, one_node_is_kept_the_fullest_or_where_the_pod_says_so_the_emptiest)
{
    node("a", 2, 0, "");
    node("b", 2, 0, "");
    see();
    cr_expect_str_eq(choose(pod("p", "", PART(3000)), NAMES("a", "b")), "a");
    cr_expect_str_eq(choose(pod("q", "", PART(3000)), NAMES("b", "a")), "a");
    cr_expect_str_eq(choose(pod("r", "\"hami.io/node-scheduler-policy\": \"spread\"", PART(3000)),
                            NAMES("a", "b")),
                     "b");
}

Test(scheduler_choice, whole_cards_come_from_nodes_without_shares_first)
{
    node("a", 2, 0, "");
    node("b", 0, 2, "");
    see();
    cr_expect_str_eq(choose(pod("p", "", WHOLE(1)), NAMES("a", "b", "c")), "b c",
                     "kube-scheduler counts those");
    cr_expect_str_eq(choose(pod("p", "", WHOLE(1)), NAMES("a")), "a");
    cr_expect_str_eq(choose(pod("q", "", PART(3000)), NAMES("b")), "");
    cr_expect_str_eq(choice.refused[0].why, "no card of the node is given out in shares");
    cr_expect(choice.refused[0].never);
}

Test(scheduler_choice, cards_that_nobody_shares_are_given_out_as_a_whole_and_first)
{
    node("a", 1, 1, "");
    see();
    (void)choose(pod("p", "", WHOLE(1)), NAMES("a"));
    cr_expect_str_eq(assumed("uid-p", "a"), "a-1");
    (void)choose(pod("q", "", PART(3000)), NAMES("a"));
    cr_expect_str_eq(assumed("uid-q", "a"), "a-0");
}

/* --- Room --- */

Test(scheduler_choice, what_was_assumed_is_taken_until_it_is_too_long_ago)
{
    node("a", 1, 0, "");
    see();
    cr_expect_str_eq(choose(pod("p", "", PART(50000)), NAMES("a")), "a");
    cr_expect_str_eq(choose(pod("q", "", PART(40000)), NAMES("a")), "");
    cr_expect_str_eq(choice.refused[0].why,
                     "container main needs 40000 MiB on one card; the best of 1 has 31559 MiB");
    cr_expect_not(choice.refused[0].never);
    cr_expect_str_eq(choose(pod("p", "", PART(60000)), NAMES("a")), "a",
                     "a pod does not compete with itself");
    clock_fake_advance(clk, VIEW_ASSUMED_MS);
    cr_expect_str_eq(assumed("uid-p", "a"), "");
    cr_expect_str_eq(choose(pod("q", "", PART(40000)), NAMES("a")), "a");
}

Test(scheduler_choice, a_binding_that_was_written_holds_until_it_is_seen)
{
    node("a", 1, 0, "");
    see();
    (void)choose(pod("p", "", PART(50000)), NAMES("a"));
    bind("p", "a", pod("p", "", PART(50000)));
    clock_fake_advance(clk, VIEW_ASSUMED_MS);
    cr_expect_str_eq(choose(pod("q", "", PART(40000)), NAMES("a")), "", "not seen yet");
    see();
    clock_fake_advance(clk, VIEW_BOUND_MS);
    cr_expect_str_eq(choose(pod("q", "", PART(40000)), NAMES("a")), "", "seen");
    delete ("p");
    sb_reset(&grown);
    see();
    cr_expect_str_eq(choose(pod("q", "", PART(40000)), NAMES("a")), "a");
    cr_expect_str_eq(sb_str(&grown), "a ");
}

Test(scheduler_choice, a_pod_that_was_not_bound_gives_its_room_back)
{
    node("a", 1, 0, "");
    see();
    (void)choose(pod("p", "", PART(50000)), NAMES("a"));
    sb_reset(&grown);
    view_begin(view);
    view_forget(view, "uid-p");
    view_end(view);
    cr_expect_str_eq(sb_str(&grown), "a ");
    cr_expect_str_eq(choose(pod("q", "", PART(40000)), NAMES("a")), "a");
}

Test(scheduler_choice, shares_of_pods_without_a_record_are_those_that_the_agent_tells)
{
    node(
        "a", 1, 0,
        ", \"partitions\": [{\"uuid\": \"a-0/share.0\", \"profile\": \"share\", \"slice\": {\"id\": 0, "
        "\"memoryMiB\": 50000, \"computePercent\": 0}, \"inUse\": true, \"inUseBy\": [{\"namespace\": "
        "\"ns\", \"name\": \"old\"}]}]");
    see();
    cr_expect_str_eq(choose(pod("q", "", PART(40000)), NAMES("a")), "");
    cr_expect_str_eq(choose(pod("q", "", PART(30000)), NAMES("a")), "a");
}

Test(scheduler_choice, a_card_that_a_pod_holds_as_a_whole_is_full)
{
    node("a", 1, 0, ", \"inUse\": true, \"inUseBy\": [{\"namespace\": \"ns\", \"name\": \"old\"}]");
    see();
    cr_expect_str_eq(choose(pod("q", "", PART(1000)), NAMES("a")), "");
}

Test(scheduler_choice, a_sick_card_and_one_that_is_to_change_get_no_shares)
{
    node("a", 1, 0, ", \"pendingMode\": \"mig\"");
    see();
    cr_expect_str_eq(choose(pod("q", "", PART(1000)), NAMES("a")), "");
}

/* --- Pods --- */

Test(scheduler_choice, a_pod_that_cannot_be_meant_is_refused_for_good_everywhere)
{
    auto_err struct err e = {0};
    auto_json json_t *p = pod("p", "", PART(3221225472));
    auto_pod_ask struct pod_ask ask = {0};
    cr_assert_lt(pod_ask_of(p, &ask, &e), 0);
    cr_expect(strstr(err_msg(&e), "container main"), "%s", err_msg(&e));
    choice_refuse_all(NAMES("a", "b"), 2, &e, &choice);
    cr_expect_eq(choice.n_refused, 2);
    cr_expect(choice.refused[1].never);
}

Test(scheduler_choice, a_bound_pod_takes_the_most_that_it_has_at_any_time)
{
    auto_pod_shares struct pod_shares s = {0};
    AUTO(allocation) struct allocation a = {0};
    auto_json json_t *p = pod(
        "p", "",
        "\"initContainers\": [{\"name\": \"i\"}, {\"name\": \"s\", \"restartPolicy\": \"Always\"}], "
        "\"containers\": [{\"name\": \"m\"}]");
    cr_assert_eq(allocation_parse("{\"v\":1,\"c\":["
                                  "{\"n\":\"i\",\"s\":[{\"u\":\"A\",\"m\":9000,\"c\":0}]},"
                                  "{\"n\":\"s\",\"s\":[{\"u\":\"A\",\"m\":1000,\"c\":10}]},"
                                  "{\"n\":\"m\",\"s\":[{\"u\":\"A\",\"m\":2000,\"c\":20},"
                                  "{\"u\":\"B\",\"m\":500,\"c\":0}]}],\"p\":0}",
                                  &a, NULL),
                 0);
    pod_shares_add(&s, p, &a);
    cr_assert_eq(s.n, 2);
    cr_expect_str_eq(s.items[0].uuid, "A");
    cr_expect_eq(s.items[0].size.memory_mib, 9000);
    cr_expect_eq(s.items[0].size.percent, 30);
    cr_expect_eq(s.items[0].size.shares, 2);
    cr_expect_eq(s.items[1].size.memory_mib, 500);
}
