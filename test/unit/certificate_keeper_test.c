/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <string.h>

#include "base/auto.h"
#include "base/jx.h"
#include "base/xalloc.h"

#include "kubeclient/base64.h"
#include "kubeclient/fake/fake.h"
#include "scheduler/certificate_keeper.h"
#include "scheduler/certificate_objects.h"

/* A keeper on a model of an API server, and what its two objects have in the end. */

#define HOST  "cleave-webhook.cleave-system.svc"
#define NS    "cleave-system"
#define NAME  "cleave-webhook-certificate"
#define HOUR  (INT64_C(3600) * 1000)
#define VALID (90 * 24 * HOUR)
#define START INT64_C(1700000000000)

static const struct kc_resource secrets = {"", "v1", "secrets", "Secret", true};
static const struct kc_resource configurations = {"admissionregistration.k8s.io", "v1",
                                                  "mutatingwebhookconfigurations",
                                                  "MutatingWebhookConfiguration", false};
static const struct kc_target secret_target = {&secrets, NS, NAME, NULL};
static const struct kc_target configuration_target = {&configurations, NULL, "cleave-pod-defaults",
                                                      NULL};

static struct clock *clk;
static struct scope *scope;
static struct kc *kc;
static struct certificate_keeper *keeper;
static struct controller *workers;

static void start(void)
{
    const struct certificate_keeper_opts o = {.kc = kc,
                                              .ns = NS,
                                              .secret = NAME,
                                              .configuration = "cleave-pod-defaults",
                                              .host = HOST,
                                              .valid_ms = VALID,
                                              .clk = clk,
                                              .seed = 1};
    keeper = certificate_keeper_new(&o);
    workers = certificate_keeper_workers(keeper);
}

static void stop(void)
{
    workers = controller_free(workers);
    keeper = certificate_keeper_free(keeper);
}

/* A keeper that knows nothing takes over. */
static void restart(void)
{
    stop();
    start();
}

static void create(const struct kc_target *t, const char *text)
{
    auto_err struct err e = {0};
    auto_json json_t *body = json_loads(text, 0, NULL);
    const struct kc_target all = {.res = t->res, .ns = t->ns};
    cr_assert(body);
    cr_assert_eq(kc_create(kc, scope, &all, &(struct kc_write){.body = body}, NULL, &e), 0, "%s",
                 err_msg(&e));
}

static void create_secret(void)
{
    create(&secret_target,
           "{\"apiVersion\": \"v1\", \"kind\": \"Secret\", \"metadata\": {\"name\": \"" NAME
           "\", \"namespace\": \"" NS "\", \"labels\": {\"a\": \"b\"}}}");
}

static void create_configuration(void)
{
    create(
        &configuration_target,
        "{\"apiVersion\": \"admissionregistration.k8s.io/v1\", \"kind\": \"MutatingWebhookConfiguration\", "
        "\"metadata\": {\"name\": \"cleave-pod-defaults\"}, \"webhooks\": [{\"name\": \"a\", "
        "\"clientConfig\": {\"service\": {\"name\": \"s\"}}}, {\"name\": \"b\", \"clientConfig\": {}}]}");
}

static void set_up(void)
{
    clk = clock_fake_new(START);
    scope = scope_new(NULL, -1);
    kc = kc_fake_new(clk);
    create_secret();
    create_configuration();
    start();
}

static void tear_down(void)
{
    stop();
    (void)kc_free(kc);
    (void)scope_free(scope);
    (void)clock_free(clk);
}

TestSuite(certificate_keeper, .init = set_up, .fini = tear_down);

/* Works for this long, in pieces: times that are due come up in their order. */
static void work_for(int64_t ms)
{
    const int64_t piece_ms = ms / 100 < 100 ? 100 : ms / 100;
    for (int64_t done = 0; done <= ms; done += piece_ms) {
        while (controller_step(workers, scope)) {
        }
        clock_fake_advance(clk, piece_ms);
    }
}

static json_t *get(const struct kc_target *t)
{
    auto_err struct err e = {0};
    json_t *obj = NULL;
    cr_assert_eq(kc_get(kc, scope, t, &obj, &e), 0, "%s", err_msg(&e));
    return obj;
}

static void look(struct certificate_seen *ret)
{
    auto_json json_t *secret = get(&secret_target);
    auto_json json_t *configuration = get(&configuration_target);
    certificate_view(secret, configuration, HOST, ret);
}

/* What is served is trusted, by all webhooks, and is fresh; nothing is under way. */
static void expect_good(void)
{
    auto_certificate_seen struct certificate_seen seen = {0};
    look(&seen);
    cr_assert(seen.current.pem);
    cr_assert(seen.bundle);
    cr_expect(strstr(seen.bundle, seen.current.pem));
    cr_expect_null(seen.next.pem);
    cr_expect_gt(seen.current.until_ms, clock_wall_ms(clk) + VALID / 3);
    cr_expect(certificate_keeper_is_well(keeper), "%s", certificate_keeper_says(keeper));
}

static char *current(void)
{
    auto_certificate_seen struct certificate_seen seen = {0};
    look(&seen);
    return TAKE(seen.current.pem);
}

/* Writes a member of the Secret's data; NULL: takes all of them out. */
static void spoil_secret(const char *member, const char *text)
{
    auto_err struct err e = {0};
    auto_json json_t *patch =
        member ? json_pack("{s:{s:s}}", "data", member, text) : json_pack("{s:n}", "data");
    const struct kc_write w = {.body = patch, .how = KC_MERGE};
    cr_assert_eq(kc_patch(kc, scope, &secret_target, &w, NULL, &e), 0, "%s", err_msg(&e));
}

static void spoil_bundle(const char *bundle)
{
    auto_err struct err e = {0};
    auto_json json_t *obj = get(&configuration_target);
    json_t *client =
        json_object_get(json_array_get(json_object_get(obj, "webhooks"), 1), "clientConfig");
    (void)json_object_set_new(client, "caBundle", json_string(bundle));
    const struct kc_write w = {.body = obj};
    cr_assert_eq(kc_update(kc, scope, &configuration_target, &w, NULL, &e), 0, "%s", err_msg(&e));
}

Test(certificate_keeper, an_empty_secret_ends_in_a_good_certificate_after_three_writes)
{
    size_t before = kc_fake_writes(kc);
    cr_expect_not(certificate_keeper_is_well(keeper));
    work_for(2000);
    expect_good();
    cr_expect_eq(kc_fake_writes(kc), before + 3);
    work_for(24 * HOUR);
    cr_expect_eq(kc_fake_writes(kc), before + 3, "there is nothing more to do");
}

Test(certificate_keeper, everything_else_of_the_objects_stays)
{
    work_for(2000);
    auto_json json_t *secret = get(&secret_target);
    auto_json json_t *configuration = get(&configuration_target);
    cr_expect_str_eq(JX_STR_AT(secret, "metadata", "labels", "a"), "b");
    cr_expect_eq(json_object_size(json_object_get(secret, "data")), 2);
    cr_expect_str_eq(JX_STR_AT(json_array_get(json_object_get(configuration, "webhooks"), 0),
                               "clientConfig", "service", "name"),
                     "s");
}

/* At no time is a certificate in the Secret's tls.crt that the bundle lacks. */
static int check_trust(void *arg, const struct kc_call *call, struct err *e)
{
    bool *busy = arg;
    (void)e;
    if (*busy || !call->after || call->verb == KC_GET)
        return 0;
    *busy = true;
    auto_certificate_seen struct certificate_seen seen = {0};
    look(&seen);
    if (seen.current.pem)
        cr_expect(seen.bundle && strstr(seen.bundle, seen.current.pem));
    *busy = false;
    return 0;
}

Test(certificate_keeper, it_is_renewed_in_time_and_trusted_all_the_while)
{
    bool busy = false;
    kc_fake_hook(kc, check_trust, &busy);
    work_for(2000);
    auto_free char *first = current();
    work_for(59 * 24 * HOUR);
    auto_free char *same = current();
    cr_expect_str_eq(first, same);
    work_for(2 * 24 * HOUR);
    work_for(60000);
    auto_free char *second = current();
    cr_expect_str_neq(first, second);
    expect_good();
    auto_certificate_seen struct certificate_seen seen = {0};
    look(&seen);
    cr_expect(strstr(seen.bundle, first), "the old one may be served still");
    certificate_seen_done(&seen);
    work_for(31 * 24 * HOUR);
    look(&seen);
    cr_expect_null(strstr(seen.bundle, first), "it has ended");
    cr_expect_str_eq(seen.bundle, second);
}

Test(certificate_keeper, years_of_renewals_leave_no_heap)
{
    bool busy = false;
    kc_fake_hook(kc, check_trust, &busy);
    for (int i = 0; i < 3 * 365; i++) {
        clock_fake_advance(clk, 24 * HOUR);
        work_for(1000);
    }
    auto_certificate_seen struct certificate_seen seen = {0};
    look(&seen);
    cr_expect_leq(seen.n_old, 1);
    cr_expect(certificate_keeper_is_well(keeper));
}

/* --- What goes wrong --- */

struct harm {
    int left;  /* calls that go well */
    bool lost; /* the write happens, and its answer is lost */
};

static int harm_write(void *arg, const struct kc_call *call, struct err *e)
{
    struct harm *h = arg;
    if (call->verb != KC_UPDATE || call->after != h->lost || h->left-- != 0)
        return 0;
    return err_set(e, ERR_UNAVAILABLE, "connection reset");
}

Test(certificate_keeper, a_keeper_that_ends_at_any_write_is_followed_by_another)
{
    for (int writes = 0; writes < 3; writes++)
        for (int lost = 0; lost < 2; lost++) {
            struct harm harm = {.left = writes, .lost = lost};
            spoil_secret(NULL, NULL);
            restart();
            kc_fake_hook(kc, harm_write, &harm);
            for (int i = 0; i < 10 && harm.left >= 0; i++) {
                while (harm.left >= 0 && controller_step(workers, scope)) {
                }
                clock_fake_advance(clk, 500);
            }
            cr_assert_eq(harm.left, -1);
            kc_fake_hook(kc, NULL, NULL);
            restart();
            work_for(60000);
            expect_good();
        }
}

Test(certificate_keeper, a_renewal_that_ends_at_any_write_is_ended_by_another)
{
    work_for(2000);
    for (int writes = 0; writes < 3; writes++) {
        auto_free char *before = current();
        struct harm harm = {.left = writes};
        clock_fake_advance(clk, 61 * 24 * HOUR);
        restart();
        kc_fake_hook(kc, harm_write, &harm);
        work_for(60000);
        cr_assert_lt(harm.left, 0);
        kc_fake_hook(kc, NULL, NULL);
        restart();
        work_for(60000);
        auto_free char *after = current();
        cr_expect_str_neq(before, after);
        expect_good();
    }
}

Test(certificate_keeper, garbage_in_the_secret_is_replaced)
{
    static const char *const members[] = {"tls.crt", "tls.key", "next.crt", "next.key", "old.crt"};
    work_for(2000);
    for (size_t i = 0; i < ARRAY_LEN(members); i++) {
        spoil_secret(members[i], "Z2FyYmFnZQ==");
        restart();
        work_for(60000);
        expect_good();
    }
}

Test(certificate_keeper, a_secret_that_was_made_anew_is_filled)
{
    auto_err struct err e = {0};
    work_for(2000);
    cr_assert_eq(kc_remove(kc, scope, &secret_target, NULL, &e), 0);
    restart();
    work_for(2000);
    cr_expect_not(certificate_keeper_is_well(keeper));
    cr_expect(strstr(certificate_keeper_says(keeper), "the Secret is missing"));
    create_secret();
    restart(); /* in the program, the informer tells */
    work_for(60000);
    expect_good();
}

Test(certificate_keeper, a_foreign_bundle_is_replaced)
{
    static const char *const bundles[] = {"", "Z2FyYmFnZQ==", "not base64"};
    work_for(2000);
    for (size_t i = 0; i < ARRAY_LEN(bundles); i++) {
        spoil_bundle(bundles[i]);
        restart();
        work_for(2000);
        expect_good();
    }
}

Test(certificate_keeper, without_a_configuration_it_says_so_and_the_server_has_its_pair)
{
    auto_err struct err e = {0};
    cr_assert_eq(kc_remove(kc, scope, &configuration_target, NULL, &e), 0);
    work_for(2000);
    cr_expect(
        strstr(certificate_keeper_says(keeper), "the MutatingWebhookConfiguration is missing"));
    auto_json json_t *secret = get(&secret_target);
    cr_expect(JX_AT(secret, "data", "tls.crt"));
    create_configuration();
    restart();
    work_for(2000);
    expect_good();
}

/* Two keepers, of which the second has written since the first one read. */
static int write_between(void *arg, const struct kc_call *call, struct err *e)
{
    bool *done = arg;
    (void)e;
    if (*done || call->verb != KC_UPDATE || call->after)
        return 0;
    *done = true;
    spoil_secret("other", "eA==");
    spoil_bundle("eA==");
    return 0;
}

Test(certificate_keeper, a_write_on_what_somebody_else_has_written_is_none)
{
    bool done = false;
    kc_fake_hook(kc, write_between, &done);
    while (!done && controller_step(workers, scope))
        clock_fake_advance(clk, 1000);
    auto_json json_t *secret = get(&secret_target);
    cr_expect_null(JX_AT(secret, "data", "next.crt"));
    work_for(60000);
    expect_good();
}

static int refuse_writes(void *arg, const struct kc_call *call, struct err *e)
{
    (void)arg;
    if (call->verb != KC_UPDATE || call->after)
        return 0;
    return err_set(e, ERR_FORBIDDEN, "no right to update");
}

Test(certificate_keeper, a_keeper_that_may_not_write_says_so)
{
    kc_fake_hook(kc, refuse_writes, NULL);
    work_for(1000);
    cr_expect_not(certificate_keeper_is_well(keeper));
    cr_expect(strstr(certificate_keeper_says(keeper), "the last look or write failed"));
    kc_fake_hook(kc, NULL, NULL);
    work_for(60000);
    expect_good();
}

/* Another program takes the bundle out as often as it is written. */
static int undo(void *arg, const struct kc_call *call, struct err *e)
{
    bool *busy = arg;
    (void)e;
    if (*busy || !call->after || call->verb != KC_UPDATE ||
        strcmp(call->target->res->plural, "mutatingwebhookconfigurations") != 0)
        return 0;
    *busy = true;
    spoil_bundle("eA==");
    *busy = false;
    return 0;
}

Test(certificate_keeper, a_quarrel_about_the_bundle_costs_few_writes)
{
    bool busy = false;
    kc_fake_hook(kc, undo, &busy);
    size_t before = kc_fake_calls(kc, KC_UPDATE);
    work_for(HOUR);
    cr_expect_lt(kc_fake_calls(kc, KC_UPDATE), before + 300);
}
