/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <string.h>

#include "base/jx.h"
#include "base/log.h"

#include "controller/manager.h"
#include "kc_mini_support.h"

static const struct kc_resource nodes = {.group = "",
                                         .version = "v1",
                                         .plural = "nodes",
                                         .kind = "Node"};
static const struct object_type node_type = {.resource = &nodes};

/* One node in the cluster; the reconciler cancels the run when it sees it. */
struct bench {
    struct kc *kc;
    struct manager *m;
    struct scope *s;
    atomic_int reconciled;
    bool ready_then, leading_then;
};

static struct bench b;

static int reconcile(void *self, struct scope *s, const struct object_key *k,
                     struct reconcile_result *r, struct err *e)
{
    (void)s;
    (void)k;
    (void)r;
    (void)e;
    struct bench *bench = self;
    bench->ready_then = manager_is_ready(bench->m);
    bench->leading_then = manager_is_leading(bench->m);
    atomic_fetch_add(&bench->reconciled, 1);
    scope_cancel(bench->s);
    return 0;
}

static void add_parts(void)
{
    struct informer *inf =
        informer_new(b.kc, &(struct informer_opts){.type = &node_type, .clk = clock_real()});
    struct controller *c = controller_new("test", reconcile, &b, 2, clock_real());
    controller_watch(c, inf, NULL, NULL);
    manager_add_informer(b.m, inf);
    manager_add_controller(b.m, c);
}

static void setup(void)
{
    log_setup(LOG_ERROR, LOG_LOGFMT, open("/dev/null", O_WRONLY | O_CLOEXEC));
    memset(&b, 0, sizeof(b));
    b.kc = kc_mini_new();
    auto_json json_t *node = json_pack("{s:{s:s,s:s}}", "metadata", "name", "n1", "uid", "u");
    kc_mini_put(b.kc, node);
    b.m = manager_new(&(struct manager_opts){.sync_timeout_ms = 120000});
    b.s = scope_new(NULL, 120000);
}

static void teardown(void)
{
    (void)manager_free(b.m);
    (void)scope_free(b.s);
    (void)kc_free(b.kc);
}

TestSuite(manager, .init = setup, .fini = teardown);

static int run(void)
{
    auto_err struct err e = {0};
    return manager_run(b.m, b.s, &e);
}

static struct elector *new_elector(int64_t lease_ms)
{
    return elector_new(b.kc, &(struct elector_opts){.ns = "cleave",
                                                    .name = "lease",
                                                    .identity = "me",
                                                    .lease_ms = lease_ms,
                                                    .renew_deadline_ms = lease_ms * 2 / 3,
                                                    .retry_ms = lease_ms / 10,
                                                    .clk = clock_real()});
}

Test(manager, syncs_caches_then_reconciles_and_stops_cleanly)
{
    add_parts();
    cr_assert_eq(run(), 0);
    cr_assert_eq(atomic_load(&b.reconciled), 1);
    cr_assert(b.ready_then && b.leading_then);
    cr_assert_not(manager_is_ready(b.m) || manager_is_leading(b.m));
}

Test(manager, leads_before_it_reconciles_and_releases_the_lease_at_the_end)
{
    add_parts();
    manager_set_elector(b.m, new_elector(15000));
    cr_assert_eq(run(), 0);
    cr_assert_eq(atomic_load(&b.reconciled), 1);
    auto_json json_t *lease = kc_mini_object(b.kc, "lease");
    cr_assert_str_eq(JX_STR_AT(lease, "spec", "holderIdentity"), "");
}

Test(manager, caches_that_do_not_sync_are_an_error)
{
    (void)manager_free(b.m);
    b.m = manager_new(&(struct manager_opts){.sync_timeout_ms = 20});
    kc_mini_refuse_watches(b.kc);
    add_parts();
    cr_assert_eq(run(), -ERR_TIMEOUT);
    cr_assert_eq(atomic_load(&b.reconciled), 0);
}

static int fail_at_once(void *arg, struct scope *s, struct err *e)
{
    (void)arg;
    (void)s;
    return err_set(e, ERR_SYSTEM, "no such port");
}

Test(manager, a_service_that_fails_ends_everything_with_its_error)
{
    manager_add_service(b.m, "http", fail_at_once, NULL);
    cr_assert_eq(run(), -ERR_SYSTEM);
}

static int take_the_lease(void *arg, struct scope *s, struct err *e)
{
    (void)arg;
    while (!manager_is_leading(b.m) && scope_wait_ms(s, 1))
        ;
    auto_json json_t *lease =
        json_pack("{s:{s:s,s:s},s:{s:s,s:i,s:s}}", "metadata", "namespace", "cleave", "name",
                  "lease", "spec", "holderIdentity", "other", "leaseDurationSeconds", 15,
                  "renewTime", "2026-01-01T00:00:00.000000Z");
    kc_mini_put(b.kc, lease);
    (void)scope_wait_ms(s, -1);
    return scope_check(s, e);
}

Test(manager, a_lost_lease_ends_the_process_with_an_error)
{
    manager_set_elector(b.m, new_elector(1000));
    manager_add_service(b.m, "thief", take_the_lease, NULL);
    cr_assert_eq(run(), -ERR_TIMEOUT);
    cr_assert_not(manager_is_leading(b.m));
}

Test(manager, stopping_while_it_waits_for_the_lease_is_no_error)
{
    auto_json json_t *lease =
        json_pack("{s:{s:s,s:s},s:{s:s,s:i}}", "metadata", "namespace", "cleave", "name", "lease",
                  "spec", "holderIdentity", "other", "leaseDurationSeconds", 15);
    kc_mini_put(b.kc, lease);
    add_parts();
    manager_set_elector(b.m, new_elector(15000));
    (void)scope_free(b.s);
    b.s = scope_new(NULL, 100);
    cr_assert_eq(run(), 0);
    cr_assert_eq(atomic_load(&b.reconciled), 0);
}

Test(manager, writes_the_last_events_before_it_ends)
{
    struct recorder *r = recorder_new(b.kc, &(struct recorder_opts){.controller = "c",
                                                                    .instance = "i",
                                                                    .clk = clock_real()});
    manager_set_recorder(b.m, r);
    recorder_event_about(r, &(struct event_about){.resource = &nodes, .name = "n1"},
                         /* warning= */ false, "Stopping", "bye");
    scope_cancel(b.s);
    cr_assert_eq(run(), 0);
    cr_assert_eq(kc_mini_writes(b.kc), 1);
}

static struct clock *beats_clock;

/* Time goes by until somebody ends it. */
static int hang(void *self, struct scope *s, const struct object_key *k, struct reconcile_result *r,
                struct err *e)
{
    (void)self;
    (void)k;
    (void)r;
    clock_fake_advance(beats_clock, CONTROLLER_HANG_MS + 1000);
    (void)scope_wait_ms(s, -1);
    return scope_check(s, e);
}

Test(manager, workers_that_hang_lose_the_lease_which_is_not_given_back)
{
    beats_clock = clock_fake_new(0);
    auto_heartbeats struct heartbeats *beats = heartbeats_new(beats_clock);
    struct controller *c = controller_new("test", hang, NULL, 2, clock_real());
    manager_add_controller(b.m, c);
    manager_set_elector(b.m, new_elector(1000));
    manager_set_beats(b.m, beats);
    wq_add(controller_queue(c), &(struct object_key){.name = "n1"});
    cr_assert_eq(run(), -ERR_TIMEOUT);
    /* What a worker that hangs has under way must not outlast the lease: it runs out. */
    auto_json json_t *lease = kc_mini_object(b.kc, "lease");
    cr_assert_str_eq(JX_STR_AT(lease, "spec", "holderIdentity"), "me");
    (void)clock_free(beats_clock);
}

static int do_nothing(void *self, struct scope *s, const struct object_key *k,
                      struct reconcile_result *r, struct err *e)
{
    (void)self;
    (void)s;
    (void)k;
    (void)r;
    (void)e;
    return 0;
}

/* As many as cleave-controller has with --workers=16. */
Test(manager, every_worker_of_many_controllers_has_a_heartbeat)
{
    auto_heartbeats struct heartbeats *beats = heartbeats_new(clock_real());
    for (int i = 0; i < 8; i++)
        manager_add_controller(b.m, controller_new("test", do_nothing, NULL, 16, clock_real()));
    manager_set_beats(b.m, beats);
    cr_expect(heartbeats_check(beats, NULL));
}
