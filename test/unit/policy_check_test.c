/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <string.h>

#include "base/jx.h"
#include "base/log.h"
#include "base/sb.h"
#include "base/xalloc.h"

#include "controller/policy_check.h"
#include "kubeclient/fake/fake.h"
#include "service/resources.h"

/* A leader before an API server that has some of the policies. */

enum { PAGE_BYTES = 1 << 16 };

static struct clock *clk;
static struct scope *s;
static struct kc *api;
static struct recorder *recorder;
static struct metrics *metrics;
static struct policy_check *check;
static const char *missing;  /* the policy that is not in force; NULL: none */
static enum err_kind broken; /* how the requests end; 0: they are judged */

/* The policy that has to refuse the request. */
static const char *policy_of(const struct kc_call *call)
{
    const struct kc_target *t = call->target;
    bool status = t->subresource && strcmp(t->subresource, "status") == 0;
    if (strcmp(t->res->plural, "nodes") == 0)
        return status ? "cleave-controller-node-status" : "cleave-controller-node";
    if (strcmp(t->res->plural, "devices") == 0)
        return *t->res->group == 's' ? "cleave-controller-koordinator"
               : status              ? "cleave-controller-device-status"
                                     : "cleave-controller-device";
    return strcmp(t->res->plural, "leaders") == 0  ? "cleave-controller-claim"
           : strcmp(t->res->plural, "leases") == 0 ? "cleave-controller-lease"
           : strcmp(t->res->plural, "events") == 0 ? "cleave-controller-event"
                                                   : "cleave-controller-eviction";
}

static int judge(void *arg, const struct kc_call *call, struct err *e)
{
    (void)arg;
    if (!call->write || call->after || !call->write->dry_run)
        return 0;
    if (broken)
        return err_set(e, broken, "injected");
    const char *policy = policy_of(call);
    if (missing && strcmp(policy, missing) == 0)
        return 0;
    return err_set(e, ERR_FORBIDDEN, "ValidatingAdmissionPolicy 'x-%s' denied request: no", policy);
}

static void put(const struct kc_resource *res, const char *name)
{
    auto_free char *version =
        *res->group ? xasprintf("%s/%s", res->group, res->version) : xstrdup(res->version);
    auto_json json_t *body = json_pack("{s:s, s:s, s:{s:s}}", "apiVersion", version, "kind",
                                       res->kind, "metadata", "name", name);
    const struct kc_target t = {.res = res};
    cr_assert_eq(kc_create(api, s, &t, &(struct kc_write){.body = body}, NULL, NULL), 0);
}

static void setup(void)
{
    log_setup(LOG_ERROR, LOG_LOGFMT, 2);
    clk = clock_fake_new(0);
    s = scope_new(NULL, -1);
    api = kc_fake_new(clk);
    metrics = metrics_new();
    missing = NULL;
    broken = 0;
    put(&resource_nodes, "n1");
    put(&resource_devices, "n1");
    put(&resource_leaders, "cleave-controller");
    kc_fake_hook(api, judge, NULL);
    recorder = recorder_new(api, &(struct recorder_opts){.controller = "test",
                                                         .instance = "me_1",
                                                         .clk = clk,
                                                         .seed = 1});
    check = policy_check_new(&(struct policy_check_opts){.kc = api,
                                                         .recorder = recorder,
                                                         .metrics = metrics,
                                                         .ns = "gpu-system",
                                                         .leader = "cleave-controller",
                                                         .identity = "me_1",
                                                         .clk = clk});
}

static void teardown(void)
{
    (void)policy_check_free(check);
    (void)recorder_free(recorder);
    (void)metrics_free(metrics);
    (void)kc_free(api);
    (void)scope_free(s);
    (void)clock_free(clk);
}

TestSuite(policy_check, .init = setup, .fini = teardown);

static int64_t events(void)
{
    recorder_step(recorder, s, NULL);
    return recorder_stats(recorder).written;
}

/* True when the metrics' page says this of a policy. */
static bool gauge(const char *policy, const char *value)
{
    auto_sb struct sb text = SB_INIT(PAGE_BYTES);
    metrics_write(metrics, &text);
    auto_free char *line =
        xasprintf("cleave_controller_policy_in_force{policy=\"%s\"} %s\n", policy, value);
    return strstr(sb_str(&text), line);
}

Test(policy_check, policies_that_refuse_are_in_force_and_nothing_is_written)
{
    size_t before = kc_fake_writes(api);
    cr_expect_eq(policy_check_step(check, s), POLICY_CHECK_PERIOD_MS);
    cr_expect_eq(kc_fake_writes(api), before);
    cr_expect_eq(events(), 0);
    cr_expect(gauge("cleave-controller-eviction", "1"));
    cr_expect(gauge("cleave-controller-koordinator", "1"));
}

static const char *const all[] = {
    "cleave-controller-claim",    "cleave-controller-lease",       "cleave-controller-event",
    "cleave-controller-node",     "cleave-controller-node-status", "cleave-controller-device",
    "cleave-controller-eviction", "cleave-controller-koordinator",
};

Test(policy_check, each_policy_that_lets_pass_is_reported_once_and_only_after_a_while)
{
    int64_t told = 0;
    for (size_t i = 0; i < ARRAY_LEN(all); i++) {
        missing = all[i];
        cr_expect_eq(policy_check_step(check, s), POLICY_CHECK_RETRY_MS, "%s", missing);
        cr_expect(gauge(missing, "0"), "%s", missing);
        clock_fake_advance(clk, POLICY_CHECK_SETTLE_MS - 1);
        (void)policy_check_step(check, s);
        cr_expect_eq(events(), told, "%s: a new policy takes effect after a moment", missing);
        clock_fake_advance(clk, 1);
        (void)policy_check_step(check, s);
        (void)policy_check_step(check, s);
        cr_expect_eq(events(), ++told, "%s", missing);
        missing = NULL;
        cr_expect_eq(policy_check_step(check, s), POLICY_CHECK_PERIOD_MS);
        cr_expect(gauge(all[i], "1"), "%s", all[i]);
        clock_fake_advance(clk, 3600000); /* past the recorder's bound for one object */
    }
}

Test(policy_check, an_answer_that_judges_nothing_says_nothing)
{
    static const enum err_kind kinds[] = {ERR_UNAVAILABLE, ERR_TIMEOUT, ERR_FORBIDDEN, ERR_INVALID};
    for (size_t i = 0; i < ARRAY_LEN(kinds); i++) {
        broken = kinds[i];
        cr_expect_eq(policy_check_step(check, s), POLICY_CHECK_PERIOD_MS);
        clock_fake_advance(clk, POLICY_CHECK_SETTLE_MS);
    }
    cr_expect_eq(events(), 0);
    cr_expect_not(gauge("cleave-controller-node", "0"));
    broken = 0;
    missing = "cleave-controller-node";
    (void)policy_check_step(check, s);
    broken = ERR_UNAVAILABLE;
    cr_expect_eq(policy_check_step(check, s), POLICY_CHECK_RETRY_MS, "what was seen stays");
    cr_expect(gauge("cleave-controller-node", "0"));
}
