/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Informer, queue, controller, expectations, elector and recorder together, over the modelled API
 * server and without threads: what a reconciler lives in.
 */
#include <criterion/criterion.h>
#include <string.h>

#include "base/jx.h"
#include "base/log.h"
#include "base/xalloc.h"

#include "controller/controller.h"
#include "kubeclient/elector.h"
#include "kubeclient/expectations.h"
#include "kubeclient/fake/fake.h"
#include "kubeclient/recorder.h"

static const struct kc_resource devices = {.group = "gpu.cleave.dev",
                                           .version = "v1alpha1",
                                           .plural = "devices",
                                           .kind = "Device"};
static const struct kc_resource leases = {.group = "coordination.k8s.io",
                                          .version = "v1",
                                          .plural = "leases",
                                          .kind = "Lease",
                                          .namespaced = true};

/* The record: what is wanted and what is. */
struct device {
    int64_t wanted, is;
};

static int transform(const json_t *obj, void **ret, struct err *e)
{
    (void)e;
    struct device *d = xmalloc(sizeof(*d));
    d->wanted = json_integer_value(JX_AT(obj, "spec", "wanted"));
    d->is = json_integer_value(JX_AT(obj, "status", "is"));
    *ret = d;
    return 0;
}

static const struct object_type device_type = {&devices, transform, free};

/* A reconciler that makes status.is equal spec.wanted, one step at a time. */
struct bench {
    struct clock *clk;
    struct scope *s;
    struct kc *kc;
    struct informer *inf;
    struct controller *c;
    struct expectations *expect;
    int reconciles;
};

static struct bench b;

static int write_status(const struct object_key *k, int64_t is, struct scope *s, struct err *e)
{
    auto_json json_t *body = json_pack("{s:{s:I}}", "status", "is", (json_int_t)is);
    auto_json json_t *written = NULL;
    const struct kc_target t = {.res = &devices, .name = k->name, .subresource = "status"};
    const struct kc_write w = {.body = body, .how = KC_MERGE};
    TRY(kc_patch(b.kc, s, &t, &w, &written, e));
    expectations_wrote(b.expect, k, informer_store(b.inf),
                       JX_STR_AT(written, "metadata", "resourceVersion"));
    return 0;
}

static int reconcile(void *self, struct scope *s, const struct object_key *k,
                     struct reconcile_result *r, struct err *e)
{
    (void)self;
    (void)r;
    b.reconciles++;
    auto_object struct object *o = store_get(informer_store(b.inf), k);
    const struct device *d = o ? object_payload(o) : NULL;
    if (!d || d->is == d->wanted)
        return 0;
    return write_status(k, d->is + 1, s, e);
}

static void setup(void)
{
    log_setup(LOG_ERROR, LOG_LOGFMT, 2);
    memset(&b, 0, sizeof(b));
    b.clk = clock_fake_new(1767225600000);
    b.s = scope_new(NULL, -1);
    b.kc = kc_fake_new(b.clk);
    kc_fake_watch_drains(b.kc, true);
    b.inf = informer_new(b.kc, &(struct informer_opts){.type = &device_type, .clk = b.clk});
    b.c = controller_new("device", reconcile, NULL, 1, b.clk);
    b.expect = expectations_new();
    controller_await_writes(b.c, b.expect);
    controller_watch(b.c, b.inf, NULL, NULL);
}

static void teardown(void)
{
    (void)controller_free(b.c);
    (void)informer_free(b.inf);
    (void)expectations_free(b.expect);
    (void)kc_free(b.kc);
    (void)scope_free(b.s);
    (void)clock_free(b.clk);
}

TestSuite(caches, .init = setup, .fini = teardown);

static void create(const char *name, int wanted)
{
    auto_err struct err e = {0};
    auto_json json_t *body =
        json_pack("{s:s,s:s,s:{s:s},s:{s:i}}", "apiVersion", "gpu.cleave.dev/v1alpha1", "kind",
                  "Device", "metadata", "name", name, "spec", "wanted", wanted);
    cr_assert_eq(kc_create(b.kc, b.s, &(struct kc_target){.res = &devices},
                           &(struct kc_write){.body = body}, NULL, &e),
                 0, "%s", err_msg(&e));
}

static void want(const char *name, int wanted)
{
    auto_err struct err e = {0};
    auto_json json_t *body = json_pack("{s:{s:i}}", "spec", "wanted", wanted);
    cr_assert_eq(kc_patch(b.kc, b.s, &(struct kc_target){.res = &devices, .name = name},
                          &(struct kc_write){.body = body, .how = KC_MERGE}, NULL, &e),
                 0, "%s", err_msg(&e));
}

static void follow(void)
{
    auto_err struct err e = {0};
    (void)!informer_step(b.inf, b.s, NULL, &e);
}

static void work(void)
{
    while (controller_step(b.c, b.s))
        ;
}

/* Lets the caches and the controller run until nothing is due for a minute. */
static void settle(void)
{
    for (int i = 0; i < 60; i++) {
        follow();
        work();
        clock_fake_advance(b.clk, 1000);
    }
}

static int64_t status_in_cache(const char *name)
{
    auto_object struct object *o =
        store_get(informer_store(b.inf), &(struct object_key){.name = name});
    const struct device *d = o ? object_payload(o) : NULL;
    return d ? d->is : -1;
}

Test(caches, everything_converges_and_then_nothing_is_written)
{
    create("n1", 3);
    create("n2", 5);
    settle();
    cr_assert_eq(status_in_cache("n1"), 3);
    cr_assert_eq(status_in_cache("n2"), 5);
    want("n1", 7);
    settle();
    cr_assert_eq(status_in_cache("n1"), 7);
    size_t before = kc_fake_writes(b.kc);
    settle();
    cr_assert_eq(kc_fake_writes(b.kc), before);
}

Test(caches, a_key_waits_until_the_cache_shows_its_own_write)
{
    create("n1", 2);
    follow();
    work();
    cr_assert_eq(b.reconciles, 1);
    wq_add(controller_queue(b.c), &(struct object_key){.name = "n1"});
    work();
    cr_assert_eq(b.reconciles, 1);
    follow();
    clock_fake_advance(b.clk, EXPECTATIONS_RECHECK_MS);
    work();
    cr_assert_eq(b.reconciles, 2);
}

Test(caches, history_lost_on_the_server_is_made_up_for)
{
    create("n1", 0);
    create("gone", 0);
    follow();
    cr_assert_eq(kc_remove(b.kc, b.s, &(struct kc_target){.res = &devices, .name = "gone"},
                           /* if_uid= */ NULL, NULL),
                 0);
    want("n1", 1);
    kc_fake_compact(b.kc);
    settle();
    cr_assert_eq(status_in_cache("n1"), 1);
    cr_assert_eq(status_in_cache("gone"), -1);
}

Test(caches, an_informer_of_one_name_sees_nothing_else)
{
    create("n1", 0);
    create("n2", 0);
    auto_informer struct informer *one =
        informer_new(b.kc,
                     &(struct informer_opts){.type = &device_type, .name = "n2", .clk = b.clk});
    cr_assert_eq(informer_step(one, b.s, NULL, NULL), 0);
    cr_assert_eq(store_count(informer_store(one)), 1);
    auto_object struct object *o =
        store_get(informer_store(one), &(struct object_key){.name = "n2"});
    cr_assert_not_null(o);
}

static int fail_writes(void *arg, const struct kc_call *call, struct err *e)
{
    int *left = arg;
    if (call->verb != KC_PATCH || !call->after || *left <= 0)
        return 0;
    --*left;
    return err_set(e, ERR_TIMEOUT, "the answer was lost");
}

Test(caches, lost_answers_do_no_harm)
{
    int left = 3;
    create("n1", 4);
    kc_fake_hook(b.kc, fail_writes, &left);
    settle();
    cr_assert_eq(left, 0);
    cr_assert_eq(status_in_cache("n1"), 4);
}

Test(caches, election_works_against_the_model)
{
    int64_t wait_ms;
    struct elector_opts opts = {.ns = "ns", .name = "lease", .identity = "a", .clk = b.clk};
    auto_elector struct elector *first = elector_new(b.kc, &opts);
    opts.identity = "b";
    auto_elector struct elector *second = elector_new(b.kc, &opts);
    for (int i = 0; i < 5; i++) {
        cr_assert_eq(elector_step(first, b.s, &wait_ms, NULL), 0);
        cr_assert_eq(elector_step(second, b.s, &wait_ms, NULL), 0);
        clock_fake_advance(b.clk, 2000);
    }
    cr_assert(elector_is_leader(first) && !elector_is_leader(second));
    cr_assert_eq(elector_release(first, b.s, NULL), 0);
    cr_assert_eq(elector_step(second, b.s, &wait_ms, NULL), 0);
    cr_assert(elector_is_leader(second));
    auto_json json_t *lease = NULL;
    cr_assert_eq(kc_get(b.kc, b.s, &(struct kc_target){.res = &leases, .ns = "ns", .name = "lease"},
                        &lease, NULL),
                 0);
    cr_assert_eq(json_integer_value(JX_AT(lease, "spec", "leaseTransitions")), 1);
}

Test(caches, events_work_against_the_model)
{
    auto_recorder struct recorder *r =
        recorder_new(b.kc,
                     &(struct recorder_opts){.controller = "c", .instance = "i", .clk = b.clk});
    create("n1", 0);
    follow();
    auto_object struct object *o =
        store_get(informer_store(b.inf), &(struct object_key){.name = "n1"});
    size_t before = kc_fake_writes(b.kc);
    for (int i = 0; i < 5; i++) {
        recorder_event(r, o, /* warning= */ false, "Applied", "applied");
        recorder_step(r, b.s, NULL);
    }
    cr_assert_eq(recorder_stats(r).given_up, 0);
    cr_assert_eq(kc_fake_writes(b.kc) - before, 2);
}
