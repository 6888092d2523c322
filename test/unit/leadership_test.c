/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <string.h>

#include "base/jx.h"
#include "base/log.h"
#include "base/xalloc.h"

#include "controller/leadership.h"
#include "kubeclient/fake/fake.h"
#include "service/resources.h"

/* A leader before an API server that refuses its writes to Nodes while it is told to. */

static struct clock *clk;
static struct scope *s;
static struct kc *api, *kc;
static struct recorder *recorder;
static struct leadership *lead;
static bool refuses;         /* writes to Nodes, by the policy */
static enum err_kind claims; /* how calls for Leaders end; 0: well */
static enum err_kind reads;  /* how GETs of Leaders end; 0: well */
static int64_t call_ms;      /* how long a call for Leaders takes */

static int judge(void *arg, const struct kc_call *call, struct err *e)
{
    (void)arg;
    bool is_leaders = strcmp(call->target->res->plural, "leaders") == 0;
    if (is_leaders && !call->after)
        clock_fake_advance(clk, call_ms);
    if (is_leaders && claims && !call->after)
        return err_set(e, claims, "injected");
    if (is_leaders && reads && !call->after && call->verb == KC_GET)
        return err_set(e, reads, "injected");
    if (refuses && !call->after && call->verb == KC_PATCH &&
        strcmp(call->target->res->plural, "nodes") == 0)
        return err_set(e, ERR_FORBIDDEN,
                       "nodes \"n1\" is forbidden: ValidatingAdmissionPolicy "
                       "'cleave-controller-leader' with binding 'cleave-controller-leader' denied "
                       "request: me does not lead: the Leader cleave-controller names \"other_1\"");
    return 0;
}

static void setup(void)
{
    log_setup(LOG_ERROR, LOG_LOGFMT, 2);
    clk = clock_fake_new(0);
    s = scope_new(NULL, -1);
    api = kc_fake_new(clk);
    refuses = false;
    claims = reads = 0;
    call_ms = 0;
    kc_fake_hook(api, judge, NULL);
    recorder = recorder_new(api, &(struct recorder_opts){.controller = "test",
                                                         .instance = "me_1",
                                                         .clk = clk,
                                                         .seed = 1});
    lead = leadership_new(&(struct leadership_opts){.kc = api,
                                                    .recorder = recorder,
                                                    .name = "cleave-controller",
                                                    .identity = "me_1",
                                                    .clk = clk,
                                                    .seed = 1});
    kc = leadership_kc_new(lead, api);
    auto_json json_t *node = json_pack("{s:s, s:s, s:{s:s}}", "apiVersion", "v1", "kind", "Node",
                                       "metadata", "name", "n1");
    const struct kc_target t = {.res = &resource_nodes};
    cr_assert_eq(kc_create(api, s, &t, &(struct kc_write){.body = node}, NULL, NULL), 0);
}

static void teardown(void)
{
    (void)kc_free(kc);
    (void)leadership_free(lead);
    (void)recorder_free(recorder);
    (void)kc_free(api);
    (void)scope_free(s);
    (void)clock_free(clk);
}

TestSuite(leadership, .init = setup, .fini = teardown);

static const struct kc_target leader = {.res = &resource_leaders, .name = "cleave-controller"};

static void put_holder(const char *holder)
{
    auto_json json_t *body = json_pack("{s:{s:s}}", "spec", "holder", holder);
    const struct kc_write w = {.body = body, .how = KC_MERGE};
    cr_assert_eq(kc_patch(api, s, &leader, &w, NULL, NULL), 0);
}

static void expect_holder(const char *holder)
{
    auto_json json_t *obj = NULL;
    cr_assert_eq(kc_get(api, s, &leader, &obj, NULL), 0);
    cr_expect_str_eq(JX_STR_AT(obj, "spec", "holder"), holder);
}

static int write_node(void)
{
    auto_json json_t *body =
        json_pack("{s:{s:{s:I}}}", "metadata", "annotations", "now", clock_mono_ms(clk));
    const struct kc_write w = {.body = body, .how = KC_MERGE};
    const struct kc_target t = {.res = &resource_nodes, .name = "n1"};
    return kc_patch(kc, s, &t, &w, NULL, NULL);
}

/* A write, and what follows if it was refused. */
static void write_and_look(void)
{
    (void)!write_node();
    leadership_step(lead, s);
}

static size_t events(void)
{
    recorder_step(recorder, s, NULL);
    return (size_t)recorder_stats(recorder).written;
}

Test(leadership, the_first_leader_makes_the_object)
{
    cr_assert_eq(leadership_claim(lead, s, NULL), 0);
    expect_holder("me_1");
    size_t writes = kc_fake_writes(api);
    cr_assert_eq(leadership_claim(lead, s, NULL), 0);
    cr_expect_eq(kc_fake_writes(api), writes, "it stands there already");
}

Test(leadership, the_next_leader_writes_its_own_name)
{
    cr_assert_eq(leadership_claim(lead, s, NULL), 0);
    put_holder("other_1");
    cr_assert_eq(leadership_claim(lead, s, NULL), 0);
    expect_holder("me_1");
}

/* An older release's cluster role, or resources that were not applied yet. */
Test(leadership, what_cannot_be_claimed_keeps_nobody_from_leading)
{
    static const enum err_kind kinds[] = {ERR_NOT_FOUND, ERR_FORBIDDEN, ERR_INVALID};
    for (size_t i = 0; i < ARRAY_LEN(kinds); i++) {
        claims = kinds[i];
        cr_expect_eq(leadership_claim(lead, s, NULL), 0);
    }
}

static void *end_soon(void *arg)
{
    while (kc_fake_calls(api, KC_GET) < 3)
        (void)sched_yield();
    scope_cancel(arg);
    return NULL;
}

Test(leadership, a_claim_is_tried_until_the_scope_ends)
{
    pthread_t thread;
    claims = ERR_UNAVAILABLE;
    auto_scope struct scope *mine = scope_new(NULL, -1);
    cr_assert_eq(pthread_create(&thread, NULL, end_soon, mine), 0);
    cr_expect_eq(leadership_claim(lead, mine, NULL), -(int)ERR_CANCELED);
    (void)pthread_join(thread, NULL);
}

/* A webhook that is gone, for one. The work begins, and a refusal leads to the next try. */
Test(leadership, a_claim_that_fails_for_long_keeps_nobody_from_leading)
{
    claims = ERR_UNAVAILABLE;
    call_ms = LEADERSHIP_CLAIM_MS / 2;
    cr_expect_eq(leadership_claim(lead, s, NULL), 0);
    cr_expect_eq(kc_fake_calls(api, KC_GET), 2);
    claims = 0;
    refuses = true;
    write_and_look();
    expect_holder("me_1");
}

/* Something that this program cannot read was written into it. */
Test(leadership, an_object_that_cannot_be_read_is_written_all_the_same)
{
    static const enum err_kind kinds[] = {ERR_PROTOCOL, ERR_TOO_LARGE};
    cr_assert_eq(leadership_claim(lead, s, NULL), 0);
    for (size_t i = 0; i < ARRAY_LEN(kinds); i++) {
        reads = 0;
        put_holder("other_1");
        reads = kinds[i];
        cr_assert_eq(leadership_claim(lead, s, NULL), 0);
        reads = 0;
        expect_holder("me_1");
    }
}

Test(leadership, a_refusal_under_another_name_is_answered_with_a_claim)
{
    cr_assert_eq(leadership_claim(lead, s, NULL), 0);
    put_holder("other_1");
    refuses = true;
    cr_assert_eq(write_node(), -(int)ERR_FORBIDDEN, "what the server says comes back");
    leadership_step(lead, s);
    expect_holder("me_1");
    cr_expect_not(leadership_is_refused(lead));
}

Test(leadership, an_object_that_was_removed_is_made_again_at_the_next_refusal)
{
    cr_assert_eq(leadership_claim(lead, s, NULL), 0);
    cr_assert_eq(kc_remove(api, s, &leader, NULL, NULL), 0);
    refuses = true;
    write_and_look();
    expect_holder("me_1");
}

Test(leadership, a_refusal_that_passes_is_nothing)
{
    cr_assert_eq(leadership_claim(lead, s, NULL), 0);
    refuses = true;
    write_and_look();
    clock_fake_advance(clk, LEADERSHIP_SETTLE_MS - 1);
    write_and_look();
    cr_expect_not(leadership_is_refused(lead));
    refuses = false;
    write_and_look();
    refuses = true;
    clock_fake_advance(clk, LEADERSHIP_SETTLE_MS);
    write_and_look();
    cr_expect_not(leadership_is_refused(lead), "counted anew since the success");
    cr_expect_eq(events(), 0);
}

Test(leadership, an_api_server_with_an_old_copy_is_reported_once_and_until_a_write_succeeds)
{
    cr_assert_eq(leadership_claim(lead, s, NULL), 0);
    refuses = true;
    write_and_look();
    clock_fake_advance(clk, LEADERSHIP_SETTLE_MS);
    write_and_look();
    cr_expect(leadership_is_refused(lead));
    cr_expect_eq(events(), 1);
    clock_fake_advance(clk, LEADERSHIP_SETTLE_MS);
    write_and_look();
    cr_expect_eq(events(), 1);
    refuses = false;
    cr_assert_eq(write_node(), 0);
    cr_expect_not(leadership_is_refused(lead));
}

Test(leadership, a_leader_whose_object_was_removed_while_it_was_refused_is_ready_again)
{
    cr_assert_eq(leadership_claim(lead, s, NULL), 0);
    refuses = true;
    write_and_look();
    clock_fake_advance(clk, LEADERSHIP_SETTLE_MS);
    write_and_look();
    cr_assert(leadership_is_refused(lead));
    cr_assert_eq(kc_remove(api, s, &leader, NULL, NULL), 0);
    write_and_look();
    expect_holder("me_1");
    cr_expect_not(leadership_is_refused(lead), "counted anew since the claim");
}

Test(leadership, a_leader_that_cannot_be_named_is_reported_too)
{
    cr_assert_eq(leadership_claim(lead, s, NULL), 0);
    put_holder("other_1");
    refuses = true;
    claims = ERR_UNAVAILABLE;
    write_and_look();
    cr_expect_not(leadership_is_refused(lead));
    clock_fake_advance(clk, LEADERSHIP_SETTLE_MS);
    write_and_look();
    cr_expect(leadership_is_refused(lead));
}

/* Time alone says nothing: without a later refusal the server may have caught up. */
Test(leadership, one_refusal_long_ago_is_not_reported)
{
    cr_assert_eq(leadership_claim(lead, s, NULL), 0);
    refuses = true;
    write_and_look();
    clock_fake_advance(clk, 10 * LEADERSHIP_SETTLE_MS);
    leadership_step(lead, s);
    cr_expect_not(leadership_is_refused(lead));
}

static int forbid(void *arg, const struct kc_call *call, struct err *e)
{
    (void)arg;
    if (call->after || call->verb != KC_PATCH)
        return 0;
    return err_set(e, ERR_FORBIDDEN, "cleave-controller cannot patch resource \"nodes\"");
}

Test(leadership, a_right_that_is_missing_is_no_question_of_who_leads)
{
    kc_fake_hook(api, forbid, NULL);
    for (int i = 0; i < 3; i++) {
        write_and_look();
        clock_fake_advance(clk, LEADERSHIP_SETTLE_MS);
    }
    cr_expect_not(leadership_is_refused(lead));
    cr_expect_eq(kc_fake_calls(api, KC_GET), 0);
}

/* --- Two installations in one cluster --- */

static void rival_writes(void)
{
    put_holder("rival_1");
    refuses = true;
    write_and_look();
    refuses = false;
}

Test(leadership, a_rival_that_comes_back_is_reported_once_and_not_fought)
{
    cr_assert_eq(leadership_claim(lead, s, NULL), 0);
    for (int i = 0; i < 3; i++) {
        rival_writes();
        expect_holder("me_1");
        clock_fake_advance(clk, 1000);
    }
    cr_expect_eq(events(), 1);
    rival_writes();
    expect_holder("rival_1");
    clock_fake_advance(clk, LEADERSHIP_CONTEST_MS);
    rival_writes();
    expect_holder("me_1");
    clock_fake_advance(clk, 1000);
    rival_writes();
    expect_holder("rival_1");
    cr_expect_eq(events(), 1);
}

Test(leadership, a_name_that_is_replaced_now_and_then_is_no_rival)
{
    cr_assert_eq(leadership_claim(lead, s, NULL), 0);
    for (int i = 0; i < 5; i++) {
        rival_writes();
        expect_holder("me_1");
        clock_fake_advance(clk, 3 * LEADERSHIP_CONTEST_MS);
    }
    cr_expect_eq(events(), 0);
}
