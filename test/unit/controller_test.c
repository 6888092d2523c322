/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <fcntl.h>
#include <pthread.h>
#include <string.h>
#include <unistd.h>

#include "base/jx.h"
#include "base/log.h"
#include "base/sb.h"

#include "controller/controller.h"
#include "kc_script_support.h"
#include "service/liveness.h"
#include "service/metrics.h"

static const struct kc_resource nodes = {.group = "",
                                         .version = "v1",
                                         .plural = "nodes",
                                         .kind = "Node"};
static const struct object_type node_type = {.resource = &nodes};

/* A reconciler that answers as told and writes down what it was asked. */
struct bench {
    struct clock *clk;
    struct controller *c;
    enum err_kind fails_with;
    int64_t requeue_after_ms;
    struct sb seen;
};

static struct bench b;

static int reconcile(void *self, struct scope *s, const struct object_key *k,
                     struct reconcile_result *r, struct err *e)
{
    (void)s;
    struct bench *bench = self;
    sb_addf(&bench->seen, "%s ", k->name);
    r->requeue_after_ms = bench->requeue_after_ms;
    return bench->fails_with ? err_set(e, bench->fails_with, "as told") : 0;
}

static void setup(void)
{
    log_setup(LOG_ERROR, LOG_LOGFMT, open("/dev/null", O_WRONLY | O_CLOEXEC));
    b = (struct bench){.clk = clock_fake_new(0), .seen = SB_INIT(10000)};
    b.c = controller_new("test", reconcile, &b, 1, b.clk);
}

static void teardown(void)
{
    (void)controller_free(b.c);
    (void)clock_free(b.clk);
    sb_done(&b.seen);
}

TestSuite(controller, .init = setup, .fini = teardown);

static const struct object_key a = {.name = "a"};

static bool step(void)
{
    return controller_step(b.c, /* s= */ NULL);
}

Test(controller, reconciles_what_is_queued_and_forgets_success)
{
    wq_add(controller_queue(b.c), &a);
    cr_assert(step());
    cr_assert_not(step());
    cr_assert_str_eq(sb_str(&b.seen), "a ");
}

Test(controller, an_error_is_retried_with_growing_delay)
{
    b.fails_with = ERR_UNAVAILABLE;
    wq_add(controller_queue(b.c), &a);
    (void)step();
    cr_assert_not(step());
    clock_fake_advance(b.clk, 5);
    cr_assert(step());
    clock_fake_advance(b.clk, 9);
    cr_assert_not(step());
    clock_fake_advance(b.clk, 1);
    cr_assert(step());
    cr_assert_eq(wq_failures(controller_queue(b.c), &a), 3);
}

Test(controller, success_after_errors_starts_the_count_anew)
{
    b.fails_with = ERR_UNAVAILABLE;
    wq_add(controller_queue(b.c), &a);
    (void)step();
    clock_fake_advance(b.clk, 5);
    b.fails_with = 0;
    (void)step();
    cr_assert_eq(wq_failures(controller_queue(b.c), &a), 0);
}

Test(controller, terminal_errors_wait_for_a_change)
{
    b.fails_with = ERR_TERMINAL;
    wq_add(controller_queue(b.c), &a);
    (void)step();
    clock_fake_advance(b.clk, 10000000);
    cr_assert_not(step());
    b.fails_with = 0;
    wq_add(controller_queue(b.c), &a);
    cr_assert(step());
}

/* As credentials are while they rotate; a server's refusal has a status and is one, too. */
Test(controller, what_is_invalid_may_be_valid_later)
{
    b.fails_with = ERR_INVALID;
    wq_add(controller_queue(b.c), &a);
    (void)step();
    clock_fake_advance(b.clk, 5);
    cr_assert(step());
}

Test(controller, requeue_after_comes_back_after_that_time)
{
    b.requeue_after_ms = 30000;
    wq_add(controller_queue(b.c), &a);
    (void)step();
    clock_fake_advance(b.clk, 29999);
    cr_assert_not(step());
    clock_fake_advance(b.clk, 1);
    cr_assert(step());
    cr_assert_eq(wq_failures(controller_queue(b.c), &a), 0);
}

/* A server that takes its time for each of many requests: the reconcile ends, is tried again and
 * looks hung to nobody. */
static int reconcile_slowly(void *self, struct scope *s, const struct object_key *k,
                            struct reconcile_result *r, struct err *e)
{
    int64_t *ret_left_ms = self;
    (void)k;
    (void)r;
    *ret_left_ms = scope_left_ms(s);
    return err_set(e, ERR_TIMEOUT, "as a request says whose scope has ended");
}

Test(controller, a_reconcile_ends_before_it_looks_hung)
{
    int64_t left_ms = 0;
    auto_scope struct scope *life = scope_new(NULL, -1);
    auto_controller struct controller *slow =
        controller_new("slow", reconcile_slowly, &left_ms, 1, b.clk);
    wq_add(controller_queue(slow), &a);
    cr_assert(controller_step(slow, life));
    cr_expect_gt(left_ms, 0);
    cr_expect_leq(left_ms, CONTROLLER_RECONCILE_MS);
    cr_expect_leq(CONTROLLER_RECONCILE_MS + 2 * 60 * 1000, CONTROLLER_HANG_MS);
    cr_expect_eq(wq_failures(controller_queue(slow), &a), 1);
    clock_fake_advance(b.clk, 5);
    cr_expect(controller_step(slow, life));
}

/* Watches */

static void follow(const char *events, predicate_fn *keep, map_fn *map)
{
    const struct script_call calls[] = {{SCRIPT_STREAM, .brings = events, .lasts_ms = 2000}};
    auto_kc struct kc *kc = kc_script_new(calls, b.clk);
    auto_informer struct informer *inf =
        informer_new(kc, &(struct informer_opts){.type = &node_type, .clk = b.clk});
    controller_watch(b.c, inf, keep, map);
    cr_assert_eq(informer_step(inf, NULL, NULL, NULL), 0);
    while (step())
        ;
}

Test(controller, a_watch_enqueues_the_objects_own_key)
{
    follow("+x@1 !@2 ~x@3 +y@4 -x@5", NULL, NULL);
    cr_assert_str_eq(sb_str(&b.seen), "x y ");
}

static void to_upper_group(void *self, const struct object *o, struct wq *out)
{
    (void)self;
    wq_add(out, &(struct object_key){.name = object_name(o)[0] == 'g' ? "G" : "other"});
}

Test(controller, a_map_function_turns_other_kinds_into_keys_of_the_root)
{
    follow("+g1@1 +g2@2 +x@3 !@4", NULL, to_upper_group);
    cr_assert(strstr(sb_str(&b.seen), "G "));
    cr_assert(strstr(sb_str(&b.seen), "other "));
    cr_assert_eq(strlen(sb_str(&b.seen)), strlen("G other "));
}

static void by_version(void *self, const struct object *o, struct wq *out)
{
    (void)self;
    wq_add(out, &(struct object_key){.name = object_version(o)});
}

Test(controller, on_an_update_both_states_are_mapped)
{
    follow("!@2 +x@3 ~x@4", NULL, by_version);
    cr_assert_str_eq(sb_str(&b.seen), "3 4 ");
}

static bool only_deletes(const struct object *before, const struct object *after)
{
    (void)before;
    return !after;
}

Test(controller, a_predicate_keeps_changes_out)
{
    follow("+x@1 +y@2 !@3 ~y@4 -x@5", only_deletes, NULL);
    cr_assert_str_eq(sb_str(&b.seen), "x ");
}

static struct object *with_generation(int64_t generation, bool deleting)
{
    auto_json json_t *doc = json_pack("{s:{s:s,s:s,s:I,s:s*}}", "metadata", "name", "x", "uid", "u",
                                      "generation", (json_int_t)generation, "deletionTimestamp",
                                      deleting ? "2026-01-01T00:00:00Z" : NULL);
    struct object *o = NULL;
    cr_assert_eq(object_new(&node_type, doc, &o, NULL), 0);
    return o;
}

Test(controller, the_generation_predicate_is_deaf_to_status)
{
    auto_object struct object *one = with_generation(1, false);
    auto_object struct object *same = with_generation(1, false);
    auto_object struct object *two = with_generation(2, false);
    auto_object struct object *going = with_generation(1, true);
    cr_assert_not(predicate_generation(one, same));
    cr_assert(predicate_generation(one, two));
    cr_assert(predicate_generation(one, going));
    cr_assert(predicate_generation(NULL, one));
    cr_assert(predicate_generation(one, NULL));
}

/* Metrics */

static void run_with(enum err_kind kind, int64_t requeue_after_ms)
{
    b.fails_with = kind;
    b.requeue_after_ms = requeue_after_ms;
    wq_add(controller_queue(b.c), &a);
    (void)step();
}

Test(controller, counts_results_under_the_fields_usual_names)
{
    auto_metrics struct metrics *m = metrics_new();
    auto_sb struct sb text = SB_INIT(100000);
    controller_register_metrics(b.c, m);
    run_with(0, 0);
    run_with(0, 5);
    run_with(ERR_TERMINAL, 0);
    run_with(ERR_UNAVAILABLE, 0);
    metrics_write(m, &text);
    static const char *const lines[] = {
        "controller_runtime_reconcile_total{controller=\"test\",result=\"success\"} 1\n",
        "controller_runtime_reconcile_total{controller=\"test\",result=\"requeue_after\"} 1\n",
        "controller_runtime_reconcile_total{controller=\"test\",result=\"terminal_error\"} 1\n",
        "controller_runtime_reconcile_total{controller=\"test\",result=\"error\"} 1\n",
        "controller_runtime_reconcile_errors_total{controller=\"test\"} 2\n",
        "controller_runtime_reconcile_time_seconds_count{controller=\"test\"} 4\n",
        "controller_runtime_max_concurrent_reconciles{controller=\"test\"} 1\n",
        "controller_runtime_active_workers{controller=\"test\"} 0\n",
        "workqueue_retries_total{name=\"test\"} 1\n",
        "workqueue_adds_total{name=\"test\"} 4\n",
        "workqueue_depth{name=\"test\"} 0\n",
    };
    for (size_t i = 0; i < ARRAY_LEN(lines); i++)
        cr_assert(strstr(sb_str(&text), lines[i]), "%s not in\n%s", lines[i], sb_str(&text));
}

/* The ordinary case of a cache that lags is nothing to be woken for. */
Test(controller, a_conflict_is_tried_again_and_no_error)
{
    auto_metrics struct metrics *m = metrics_new();
    auto_sb struct sb text = SB_INIT(100000);
    controller_register_metrics(b.c, m);
    run_with(ERR_CONFLICT, 0);
    metrics_write(m, &text);
    cr_expect(strstr(sb_str(&text), "reconcile_total{controller=\"test\",result=\"requeue\"} 1\n"));
    cr_expect(strstr(sb_str(&text), "reconcile_errors_total{controller=\"test\"} 0\n"));
    cr_expect(strstr(sb_str(&text), "workqueue_retries_total{name=\"test\"} 1\n"));
}

Test(controller, run_joins_its_workers_when_the_scope_ends)
{
    auto_scope struct scope *s = scope_new(NULL, -1);
    auto_err struct err e = {0};
    scope_cancel(s);
    cr_assert_eq(controller_run(b.c, s, &e), -ERR_CANCELED);
}

/* --- A reconcile that hangs --- */

/* What the hanging reconcile and its test say to each other. */
struct hang {
    int begun[2], go_on[2]; /* pipes */
};

static int hang(void *self, struct scope *s, const struct object_key *k, struct reconcile_result *r,
                struct err *e)
{
    const struct hang *h = self;
    char c = 0;
    (void)s;
    (void)k;
    (void)r;
    cr_assert_eq(write(h->begun[1], &c, 1), 1);
    return read(h->go_on[0], &c, 1) == 1 ? 0 : err_set(e, ERR_SYSTEM, "the test is over");
}

struct running {
    struct controller *c;
    struct scope *s;
    pthread_t thread;
};

static void *run_it(void *arg)
{
    const struct running *r = arg;
    (void)!controller_run(r->c, r->s, NULL);
    return NULL;
}

/* Whoever has ended hangs no more. */
static void end_hang(struct hang *h, struct running *r, struct heartbeats *beats)
{
    auto_sb struct sb text = SB_INIT(1000);
    scope_cancel(r->s);
    cr_assert_eq(pthread_join(r->thread, NULL), 0);
    cr_expect_not(controller_hangs(r->c));
    cr_expect_eq(liveness_page(beats, &text), 200);
    cr_expect_str_eq(sb_str(&text), "ok\n");
    (void)controller_free(r->c);
    (void)scope_free(r->s);
    for (int i = 0; i < 2; i++) {
        (void)close(h->begun[i]);
        (void)close(h->go_on[i]);
    }
}

Test(controller, a_worker_that_hangs_is_stale_until_it_gets_on)
{
    struct hang h;
    char c = 0;
    cr_assert_eq(pipe2(h.begun, O_CLOEXEC), 0);
    cr_assert_eq(pipe2(h.go_on, O_CLOEXEC), 0);
    auto_heartbeats struct heartbeats *beats = heartbeats_new(b.clk);
    struct running r = {.c = controller_new("node-labels", hang, &h, 1, b.clk),
                        .s = scope_new(NULL, -1)};
    controller_set_beats(r.c, beats);
    cr_assert_eq(pthread_create(&r.thread, NULL, run_it, &r), 0);
    clock_fake_advance(b.clk, 2L * CONTROLLER_HANG_MS); /* nothing to do is no hang */
    cr_expect_not(controller_hangs(r.c));
    wq_add(controller_queue(r.c), &a);
    cr_assert_eq(read(h.begun[0], &c, 1), 1);
    clock_fake_advance(b.clk, CONTROLLER_HANG_MS);
    cr_expect_not(controller_hangs(r.c));
    clock_fake_advance(b.clk, 1000);
    cr_expect(controller_hangs(r.c));
    auto_sb struct sb text = SB_INIT(1000);
    cr_expect_eq(liveness_page(beats, &text), 500);
    cr_expect_str_eq(sb_str(&text), "node-labels/0 hangs: no progress for 601 s (limit 600 s)\n");
    cr_assert_eq(write(h.go_on[1], &c, 1), 1);
    end_hang(&h, &r, beats);
}

/* With a fake clock nobody wakes the worker for a delay: as if a wake-up had been lost. */
Test(controller, keys_that_idle_workers_do_not_take_are_a_hang)
{
    struct hang h;
    char c = 0;
    cr_assert_eq(pipe2(h.begun, O_CLOEXEC), 0);
    cr_assert_eq(pipe2(h.go_on, O_CLOEXEC), 0);
    cr_assert_eq(write(h.go_on[1], "gg", 2), 2);
    auto_heartbeats struct heartbeats *beats = heartbeats_new(b.clk);
    struct running r = {.c = controller_new("node-labels", hang, &h, 1, b.clk),
                        .s = scope_new(NULL, -1)};
    controller_set_beats(r.c, beats);
    wq_add(controller_queue(r.c), &a);
    clock_fake_advance(b.clk, 2L * CONTROLLER_UNTAKEN_MS);
    cr_expect_not(controller_hangs(r.c), "it stands by: nobody is to take keys");
    cr_assert_eq(pthread_create(&r.thread, NULL, run_it, &r), 0);
    cr_assert_eq(read(h.begun[0], &c, 1), 1); /* it takes keys now */
    wq_add_after(controller_queue(r.c), &a, 1000);
    while (wq_stats(controller_queue(r.c)).processing)
        (void)scope_wait_ms(r.s, 1);
    clock_fake_advance(b.clk, 1000 + CONTROLLER_UNTAKEN_MS);
    cr_expect_not(controller_hangs(r.c));
    clock_fake_advance(b.clk, 1000);
    cr_expect(controller_hangs(r.c));
    auto_sb struct sb text = SB_INIT(1000);
    cr_expect_eq(liveness_page(beats, &text), 500);
    cr_expect_str_eq(sb_str(&text),
                     "queue of node-labels hangs: no progress for 121 s (limit 120 s)\n");
    end_hang(&h, &r, beats);
}
