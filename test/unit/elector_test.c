/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <string.h>

#include "base/jx.h"
#include "base/log.h"
#include "base/xalloc.h"

#include "kc_mini_support.h"
#include "kubeclient/elector.h"

static const int64_t start_wall_ms = 1767225600000; /* 2026-01-01T00:00:00Z */

static struct clock *clk;
static struct kc *kc;
static struct elector *el;

static struct elector *new_elector(const char *identity)
{
    return elector_new(kc, &(struct elector_opts){.ns = "cleave",
                                                  .name = "controller",
                                                  .identity = identity,
                                                  .clk = clk,
                                                  .seed = 1});
}

static void setup(void)
{
    log_setup(LOG_ERROR, LOG_LOGFMT, 2);
    clk = clock_fake_new(start_wall_ms);
    kc = kc_mini_new();
    el = new_elector("me");
}

static void teardown(void)
{
    (void)elector_free(el);
    (void)kc_free(kc);
    (void)clock_free(clk);
}

TestSuite(elector, .init = setup, .fini = teardown);

/* One attempt; 0 or -kind. */
static int step(struct elector *who, int64_t *ret_wait_ms)
{
    auto_err struct err e = {0};
    auto_scope struct scope *s = scope_new(NULL, -1);
    return elector_step(who, s, ret_wait_ms, &e);
}

static int try_once(struct elector *who)
{
    int64_t ignored;
    return step(who, &ignored);
}

static void put_lease(const char *holder, int seconds, const char *renewed)
{
    auto_json json_t *lease =
        json_pack("{s:{s:s,s:s},s:{s:s,s:i,s:s,s:s,s:i}}", "metadata", "name", "controller",
                  "namespace", "cleave", "spec", "holderIdentity", holder, "leaseDurationSeconds",
                  seconds, "acquireTime", "2020-01-01T00:00:00.000000Z", "renewTime", renewed,
                  "leaseTransitions", 4);
    kc_mini_put(kc, lease);
}

static void assert_spec(const char *field, const char *value)
{
    auto_json json_t *lease = kc_mini_object(kc, "controller");
    cr_assert_str_eq(JX_STR_AT(lease, "spec", field), value);
}

static json_int_t spec_number(const char *field)
{
    auto_json json_t *lease = kc_mini_object(kc, "controller");
    return json_integer_value(JX_AT(lease, "spec", field));
}

Test(elector, creates_the_lease_when_there_is_none)
{
    int64_t wait_ms;
    cr_assert_not(elector_is_leader(el));
    cr_assert_eq(step(el, &wait_ms), 0);
    cr_assert(elector_is_leader(el));
    cr_assert_eq(wait_ms, 2000);
    assert_spec("holderIdentity", "me");
    assert_spec("acquireTime", "2026-01-01T00:00:00.000000Z");
    cr_assert_eq(spec_number("leaseDurationSeconds"), 15);
    cr_assert_eq(spec_number("leaseTransitions"), 0);
}

Test(elector, renews_with_one_write_and_no_read)
{
    (void)try_once(el);
    int before = kc_mini_calls(kc);
    clock_fake_advance(clk, 2000);
    cr_assert_eq(try_once(el), 0);
    cr_assert_eq(kc_mini_calls(kc) - before, 1);
    assert_spec("renewTime", "2026-01-01T00:00:02.000000Z");
    assert_spec("acquireTime", "2026-01-01T00:00:00.000000Z");
}

Test(elector, believes_no_peers_clock_but_waits_a_full_duration_of_its_own)
{
    put_lease("other", 15, "1999-01-01T00:00:00.000000Z");
    (void)try_once(el);
    clock_fake_advance(clk, 14999);
    (void)try_once(el);
    cr_assert_not(elector_is_leader(el));
    clock_fake_advance(clk, 1);
    (void)try_once(el);
    cr_assert(elector_is_leader(el));
    cr_assert_eq(spec_number("leaseTransitions"), 5);
}

Test(elector, a_renewal_of_the_peer_starts_the_wait_anew)
{
    put_lease("other", 15, "2026-01-01T00:00:00.000000Z");
    (void)try_once(el);
    clock_fake_advance(clk, 14000);
    put_lease("other", 15, "2026-01-01T00:00:01.000000Z");
    (void)try_once(el);
    clock_fake_advance(clk, 14000);
    (void)try_once(el);
    cr_assert_not(elector_is_leader(el));
    auto_free char *holder = elector_holder(el);
    cr_assert_str_eq(holder, "other");
}

Test(elector, takes_a_released_lease_at_once)
{
    put_lease("", 1, "2026-01-01T00:00:00.000000Z");
    (void)try_once(el);
    cr_assert(elector_is_leader(el));
}

Test(elector, tries_to_acquire_every_2_seconds_plus_jitter)
{
    int64_t wait_ms;
    put_lease("other", 15, "2026-01-01T00:00:00.000000Z");
    for (int i = 0; i < 20; i++) {
        (void)step(el, &wait_ms);
        cr_assert(wait_ms >= 2000 && wait_ms <= 2400, "%ld", (long)wait_ms);
    }
}

Test(elector, stops_being_leader_10_seconds_after_its_last_renewal_by_its_own_clock)
{
    (void)try_once(el);
    clock_fake_advance(clk, 9999);
    cr_assert(elector_is_leader(el));
    cr_assert_eq(elector_left_ms(el), 1);
    clock_fake_advance(clk, 1);
    cr_assert_not(elector_is_leader(el));
    cr_assert_eq(try_once(el), -ERR_TIMEOUT);
}

Test(elector, a_machine_that_was_suspended_does_not_believe_that_it_still_leads)
{
    (void)try_once(el);
    clock_fake_suspend(clk, 10000);
    cr_expect_not(elector_is_leader(el));
    cr_expect_eq(try_once(el), -ERR_TIMEOUT, "others may act by now");
}

Test(elector, a_peer_that_was_silent_while_we_slept_is_looked_at_before_its_lease_is_taken)
{
    put_lease("peer", 15, "2026-01-01T00:00:00.000000Z");
    (void)try_once(el);
    clock_fake_suspend(clk, 15000);
    put_lease("peer", 15, "2026-01-01T00:00:14.000000Z");
    (void)try_once(el);
    cr_expect_not(elector_is_leader(el), "it has renewed meanwhile");
    clock_fake_suspend(clk, 15000);
    (void)try_once(el);
    cr_expect(elector_is_leader(el), "it has not");
}

Test(elector, failed_renewals_are_repeated_until_the_deadline)
{
    int64_t wait_ms;
    (void)try_once(el);
    kc_mini_fail(kc, 1000, ERR_UNAVAILABLE, 503);
    for (int i = 0; i < 4; i++) {
        clock_fake_advance(clk, 2000);
        cr_assert_eq(step(el, &wait_ms), 0);
        cr_assert(elector_is_leader(el));
    }
    clock_fake_advance(clk, 2000);
    cr_assert_eq(step(el, &wait_ms), -ERR_TIMEOUT);
    cr_assert_not(elector_is_leader(el));
}

Test(elector, one_success_in_time_is_enough)
{
    (void)try_once(el);
    kc_mini_fail(kc, 4, ERR_UNAVAILABLE, 0);
    clock_fake_advance(clk, 4000);
    (void)try_once(el);
    clock_fake_advance(clk, 4000);
    (void)try_once(el);
    clock_fake_advance(clk, 1000);
    cr_assert_eq(try_once(el), 0);
    cr_assert_eq(elector_left_ms(el), 10000);
}

Test(elector, a_lost_answer_does_not_cost_the_lease)
{
    (void)try_once(el);
    clock_fake_advance(clk, 2000);
    kc_mini_lose_answers(kc, 1);
    cr_assert_eq(try_once(el), 0);
    cr_assert_eq(elector_left_ms(el), 10000);
    cr_assert_eq(spec_number("leaseTransitions"), 0);
}

Test(elector, a_lease_taken_by_another_is_lost_at_once)
{
    (void)try_once(el);
    put_lease("other", 15, "2026-01-01T00:00:01.000000Z");
    cr_assert_eq(try_once(el), -ERR_TIMEOUT);
    cr_assert_not(elector_is_leader(el));
}

Test(elector, a_lease_deleted_under_it_is_made_again)
{
    (void)try_once(el);
    kc_mini_drop(kc, "controller");
    cr_assert_eq(try_once(el), 0);
    cr_assert(elector_is_leader(el));
    assert_spec("holderIdentity", "me");
}

Test(elector, two_of_them_never_lead_together)
{
    auto_elector struct elector *rival = new_elector("rival");
    for (int i = 0; i < 200; i++) {
        /* The leader hangs for 12 s every now and then. */
        if (i % 16 < 10)
            (void)try_once(el);
        if (i % 11 < 8)
            (void)try_once(rival);
        cr_assert_not(elector_is_leader(el) && elector_is_leader(rival), "second %d", 2 * i);
        clock_fake_advance(clk, 2000);
        cr_assert_not(elector_is_leader(el) && elector_is_leader(rival), "second %d", 2 * i);
    }
}

static int release(struct elector *who)
{
    auto_err struct err e = {0};
    auto_scope struct scope *s = scope_new(NULL, -1);
    return elector_release(who, s, &e);
}

Test(elector, release_leaves_nobody_for_one_second)
{
    (void)try_once(el);
    cr_assert_eq(release(el), 0);
    cr_assert_not(elector_is_leader(el));
    assert_spec("holderIdentity", "");
    cr_assert_eq(spec_number("leaseDurationSeconds"), 1);
}

Test(elector, release_is_repeated_after_a_conflict)
{
    (void)try_once(el);
    auto_json json_t *lease = kc_mini_object(kc, "controller");
    kc_mini_put(kc, lease); /* somebody annotated it: another version */
    cr_assert_eq(release(el), 0);
    assert_spec("holderIdentity", "");
}

Test(elector, release_leaves_a_successors_lease_alone)
{
    (void)try_once(el);
    put_lease("other", 15, "2026-01-01T00:00:01.000000Z");
    cr_assert_eq(release(el), 0);
    assert_spec("holderIdentity", "other");
}

Test(elector, who_never_led_releases_nothing)
{
    cr_assert_eq(release(el), 0);
    cr_assert_eq(kc_mini_calls(kc), 0);
}

Test(elector, odd_leases_are_survived)
{
    auto_json json_t *odd = json_pack("{s:{s:s},s:{s:i,s:s}}", "metadata", "name", "controller",
                                      "spec", "holderIdentity", 5, "leaseDurationSeconds", "long");
    kc_mini_put(kc, odd);
    (void)try_once(el);
    cr_assert(elector_is_leader(el));
}

Test(elector, run_gives_the_lease_back_when_its_scope_ends)
{
    auto_scope struct scope *s = scope_new(NULL, 1000);
    auto_err struct err e = {0};
    cr_assert_eq(elector_run(el, s, &e), -ERR_TIMEOUT);
    assert_spec("holderIdentity", "");
}

/* The fence */

static const struct kc_resource nodes = {.group = "",
                                         .version = "v1",
                                         .plural = "nodes",
                                         .kind = "Node"};

static int write_node(struct kc *fence)
{
    auto_err struct err e = {0};
    auto_json json_t *node = json_pack("{s:{s:s}}", "metadata", "name", "n1");
    return kc_create(fence, NULL, &(struct kc_target){.res = &nodes},
                     &(struct kc_write){.body = node}, NULL, &e);
}

Test(elector, the_fence_lets_only_the_leader_write)
{
    auto_kc struct kc *fence = elector_fence_new(el, kc);
    cr_assert_eq(write_node(fence), -ERR_UNAVAILABLE);
    (void)try_once(el);
    cr_assert_eq(write_node(fence), 0);
    clock_fake_advance(clk, 10000);
    cr_assert_eq(write_node(fence), -ERR_UNAVAILABLE);
    cr_assert_eq(kc_remove(fence, NULL, &(struct kc_target){.res = &nodes, .name = "n1"}, "u",
                           NULL),
                 -ERR_UNAVAILABLE);
    auto_json json_t *seen = NULL;
    cr_assert_eq(kc_get(fence, NULL, &(struct kc_target){.res = &nodes, .name = "n1"}, &seen, NULL),
                 0);
}

/* A server that takes a write, while its sender is told to stop. */
struct slow {
    struct kc base;
    struct scope *senders;
};

static int create_slowly(struct kc *c, struct scope *s, const struct kc_target *t,
                         const struct kc_write *w, json_t **ret_obj, struct err *e)
{
    (void)t;
    (void)w;
    (void)ret_obj;
    scope_cancel(((struct slow *)(void *)c)->senders);
    return scope_check(s, e);
}

Test(elector, a_write_under_way_outlives_its_senders_cancellation)
{
    static const struct kc_ops ops = {.create = create_slowly};
    auto_scope struct scope *senders = scope_new(NULL, -1);
    struct slow server = {.base.ops = &ops, .senders = senders};
    auto_kc struct kc *fence = elector_fence_new(el, &server.base);
    auto_json json_t *node = json_pack("{s:{s:s}}", "metadata", "name", "n1");
    const struct kc_target t = {.res = &nodes};
    const struct kc_write w = {.body = node};
    (void)try_once(el);
    cr_expect_eq(kc_create(fence, senders, &t, &w, NULL, NULL), 0);
    cr_expect_eq(kc_create(fence, senders, &t, &w, NULL, NULL), -ERR_CANCELED, "none begins");
}

static bool works(void *arg)
{
    return *(const bool *)arg;
}

/* A replica whose workers hang would keep the lease for ever, and nobody would reconcile. */
Test(elector, who_no_longer_works_renews_no_more_and_another_takes_over)
{
    bool still = true;
    elector_set_check(el, works, &still);
    cr_assert_eq(try_once(el), 0);
    clock_fake_advance(clk, 2000);
    cr_assert_eq(try_once(el), 0);
    cr_assert(elector_is_leader(el));
    still = false;
    clock_fake_advance(clk, 2000);
    cr_expect_eq(try_once(el), -(int)ERR_TIMEOUT);
    cr_expect_not(elector_is_leader(el));
    auto_elector struct elector *other = new_elector("other");
    (void)try_once(other);
    clock_fake_advance(clk, 15000);
    cr_assert_eq(try_once(other), 0);
    cr_expect(elector_is_leader(other));
}
