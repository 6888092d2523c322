/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <pthread.h>
#include <string.h>

#include "base/xalloc.h"

#include "kubeclient/workqueue.h"

static const struct object_key a = {.name = "a"};
static const struct object_key b = {.name = "b"};
static const struct object_key c = {.ns = "ns", .name = "c"};

static struct clock *clk;
static struct wq *q;

static void setup(void)
{
    clk = clock_fake_new(0);
    q = wq_new("test", clk);
}

static void teardown(void)
{
    (void)wq_free(q);
    (void)clock_free(clk);
}

TestSuite(workqueue, .init = setup, .fini = teardown);

/* Takes the next key and ends the work on it; its text, or "-" when none is due. Static. */
static const char *run_one(void)
{
    static char text[64];
    struct object_key k;
    if (!wq_try_get(q, &k))
        return "-";
    auto_free char *key = object_key_text(&k);
    (void)snprintf(text, sizeof(text), "%s", key);
    wq_done(q, &k);
    return text;
}

Test(workqueue, gives_keys_first_come_first_served)
{
    wq_add(q, &b);
    wq_add(q, &c);
    wq_add(q, &a);
    cr_assert_str_eq(run_one(), "b");
    cr_assert_str_eq(run_one(), "ns/c");
    cr_assert_str_eq(run_one(), "a");
    cr_assert_str_eq(run_one(), "-");
}

Test(workqueue, queues_a_key_once_however_often_it_is_added)
{
    for (int i = 0; i < 5; i++)
        wq_add(q, &a);
    cr_assert_str_eq(run_one(), "a");
    cr_assert_str_eq(run_one(), "-");
}

Test(workqueue, never_gives_a_key_to_two_workers)
{
    struct object_key first;
    struct object_key second;
    wq_add(q, &a);
    cr_assert(wq_try_get(q, &first));
    wq_add(q, &a);
    cr_assert_not(wq_try_get(q, &second));
}

Test(workqueue, readd_while_processing_runs_once_more)
{
    struct object_key k;
    wq_add(q, &a);
    cr_assert(wq_try_get(q, &k));
    wq_add(q, &a);
    wq_add(q, &a);
    wq_done(q, &k);
    cr_assert_str_eq(run_one(), "a");
    cr_assert_str_eq(run_one(), "-");
}

Test(workqueue, the_key_stays_valid_until_done_whatever_happens_to_it)
{
    struct object_key k;
    wq_add(q, &c);
    cr_assert(wq_try_get(q, &k));
    wq_forget(q, &c);
    cr_assert_str_eq(k.ns, "ns");
    cr_assert_str_eq(k.name, "c");
    wq_done(q, &k);
}

Test(workqueue, delayed_keys_come_when_their_time_has_come)
{
    wq_add_after(q, &a, 100);
    wq_add_after(q, &b, 50);
    cr_assert_str_eq(run_one(), "-");
    clock_fake_advance(clk, 50);
    cr_assert_str_eq(run_one(), "b");
    cr_assert_str_eq(run_one(), "-");
    clock_fake_advance(clk, 50);
    cr_assert_str_eq(run_one(), "a");
}

Test(workqueue, of_two_delays_of_a_key_the_earlier_counts)
{
    wq_add_after(q, &a, 100);
    wq_add_after(q, &a, 20);
    wq_add_after(q, &a, 500);
    clock_fake_advance(clk, 20);
    cr_assert_str_eq(run_one(), "a");
    clock_fake_advance(clk, 1000);
    cr_assert_str_eq(run_one(), "-");
}

Test(workqueue, a_delay_of_zero_or_less_is_no_delay)
{
    wq_add_after(q, &a, 0);
    wq_add_after(q, &b, -5);
    cr_assert_str_eq(run_one(), "a");
    cr_assert_str_eq(run_one(), "b");
}

Test(workqueue, many_delays_come_in_their_order)
{
    enum { KEYS = 200 };
    for (int i = 0; i < KEYS; i++) {
        auto_free char *name = xasprintf("k%03d", (i * 73) % KEYS);
        wq_add_after(q, &(struct object_key){.name = name}, 1 + (i * 73) % KEYS);
    }
    for (int i = 0; i < KEYS; i++) {
        clock_fake_advance(clk, 1);
        auto_free char *name = xasprintf("k%03d", i);
        cr_assert_str_eq(run_one(), name);
    }
}

/* How long until the key comes back after a rate-limited add, in steps of a millisecond. */
static int64_t rate_limited_delay_ms(const struct object_key *k)
{
    wq_add_rate_limited(q, k);
    for (int64_t ms = 0; ms < 20000; ms++) {
        if (strcmp(run_one(), "-") != 0)
            return ms;
        clock_fake_advance(clk, 1);
    }
    return -1;
}

Test(workqueue, failures_of_a_key_double_its_delay_from_5_ms)
{
    for (int64_t expected = 5; expected <= 5120; expected *= 2)
        cr_assert_eq(rate_limited_delay_ms(&a), expected);
    cr_assert_eq(wq_failures(q, &a), 11);
}

Test(workqueue, the_delay_stops_growing_at_1000_seconds)
{
    for (int i = 0; i < 40; i++) {
        wq_add_rate_limited(q, &a);
        clock_fake_advance(clk, 1000000);
        cr_assert_str_eq(run_one(), "a");
    }
    wq_add_rate_limited(q, &a);
    clock_fake_advance(clk, 999999);
    cr_assert_str_eq(run_one(), "-");
}

Test(workqueue, forget_starts_the_count_anew)
{
    (void)rate_limited_delay_ms(&a);
    (void)rate_limited_delay_ms(&a);
    wq_forget(q, &a);
    cr_assert_eq(wq_failures(q, &a), 0);
    cr_assert_eq(rate_limited_delay_ms(&a), 5);
}

Test(workqueue, all_keys_together_fail_100_times_at_once_and_then_10_a_second)
{
    for (int i = 0; i < 102; i++) {
        auto_free char *name = xasprintf("k%d", i);
        wq_add_rate_limited(q, &(struct object_key){.name = name});
    }
    clock_fake_advance(clk, 99);
    for (int i = 0; i < 100; i++)
        cr_assert_str_neq(run_one(), "-");
    cr_assert_str_eq(run_one(), "-");
    clock_fake_advance(clk, 1);
    cr_assert_str_eq(run_one(), "k100");
    cr_assert_str_eq(run_one(), "-");
    clock_fake_advance(clk, 100);
    cr_assert_str_eq(run_one(), "k101");
}

Test(workqueue, after_shutdown_what_is_queued_still_comes_and_nothing_new)
{
    struct object_key k;
    wq_add(q, &a);
    wq_add_after(q, &b, 10);
    wq_shut_down(q);
    wq_add(q, &c);
    cr_assert(wq_get(q, &k));
    cr_assert_str_eq(k.name, "a");
    wq_done(q, &k);
    clock_fake_advance(clk, 10);
    cr_assert_not(wq_get(q, &k));
}

Test(workqueue, shutdown_now_drops_what_is_queued)
{
    struct object_key k;
    wq_add(q, &a);
    wq_add(q, &b);
    cr_assert(wq_try_get(q, &k));
    wq_add(q, &a);
    wq_shut_down_now(q);
    wq_done(q, &k);
    cr_assert_str_eq(run_one(), "a");
    cr_assert_not(wq_get(q, &k));
}

static void *get_one(void *arg)
{
    struct object_key k;
    bool *ret = arg;
    *ret = wq_get(q, &k);
    return NULL;
}

Test(workqueue, shutdown_wakes_who_waits)
{
    pthread_t t;
    bool got = true;
    cr_assert_eq(pthread_create(&t, NULL, get_one, &got), 0);
    wq_shut_down(q);
    cr_assert_eq(pthread_join(t, NULL), 0);
    cr_assert_not(got);
}

Test(workqueue, a_getter_on_the_real_clock_wakes_for_a_delayed_key)
{
    auto_wq struct wq *real = wq_new("real", clock_real());
    struct object_key k;
    wq_add_after(real, &b, 40);
    wq_add_after(real, &a, 3);
    cr_assert(wq_get(real, &k));
    cr_assert_str_eq(k.name, "a");
    wq_done(real, &k);
    cr_assert(wq_get(real, &k));
    cr_assert_str_eq(k.name, "b");
    wq_done(real, &k);
}

static void *finish_all(void *arg)
{
    (void)arg;
    struct object_key k;
    while (wq_get(q, &k))
        wq_done(q, &k);
    return NULL;
}

Test(workqueue, drain_waits_until_everything_is_done)
{
    pthread_t t;
    wq_add(q, &a);
    wq_add(q, &b);
    wq_shut_down(q);
    cr_assert_eq(pthread_create(&t, NULL, finish_all, NULL), 0);
    wq_drain(q);
    struct wq_stats st = wq_stats(q);
    cr_assert_eq(st.queued + st.processing, 0);
    cr_assert_eq(pthread_join(t, NULL), 0);
}

static void note_event(void *arg, enum wq_event event, int64_t ms)
{
    int64_t *seen = arg;
    seen[event] += event == WQ_ADDED || event == WQ_RETRIED ? 1 : ms;
}

Test(workqueue, an_observer_learns_of_adds_retries_and_times)
{
    int64_t seen[4] = {0};
    struct object_key k;
    wq_observe(q, note_event, seen);
    wq_add(q, &a);
    wq_add(q, &a);
    clock_fake_advance(clk, 30);
    cr_assert(wq_try_get(q, &k));
    clock_fake_advance(clk, 12);
    cr_assert_eq(wq_stats(q).longest_work_ms, 12);
    wq_add_rate_limited(q, &k);
    wq_done(q, &k);
    cr_assert_eq(seen[WQ_ADDED], 1);
    cr_assert_eq(seen[WQ_RETRIED], 1);
    cr_assert_eq(seen[WQ_WAITED], 30);
    cr_assert_eq(seen[WQ_WORKED], 12);
    cr_assert_eq(wq_stats(q).delayed, 1);
}

Test(workqueue, waiting_time_counts_from_when_the_key_was_due)
{
    int64_t seen[4] = {0};
    wq_observe(q, note_event, seen);
    wq_add_after(q, &a, 100);
    clock_fake_advance(clk, 107);
    cr_assert_str_eq(run_one(), "a");
    cr_assert_eq(seen[WQ_WAITED], 7);
}

/* The heartbeat: is what is due taken? */

static bool is_stale_after(const struct heartbeat *beat, int64_t ms)
{
    clock_fake_advance(clk, ms);
    return heartbeat_is_stale(beat);
}

Test(workqueue, keys_that_nobody_takes_stop_its_heart)
{
    auto_heartbeats struct heartbeats *beats = heartbeats_new(clk);
    struct heartbeat *beat = heartbeat_add(beats, "queue", 1000);
    struct object_key k;
    wq_add(q, &a);
    cr_expect_not(is_stale_after(beat, 5000), "nobody was there to take it");
    wq_set_beat(q, beat);
    cr_expect_not(is_stale_after(beat, 1000));
    wq_add(q, &b);
    cr_expect(is_stale_after(beat, 1), "another key is no progress");
    cr_assert(wq_try_get(q, &k));
    cr_expect_not(is_stale_after(beat, 5000), "who has a key has a heartbeat of its own");
    wq_done(q, &k);
    cr_expect_not(is_stale_after(beat, 1000), "the key that is left waits since then");
    cr_expect(is_stale_after(beat, 1));
    cr_assert_str_eq(run_one(), "b");
    cr_expect_not(is_stale_after(beat, 5000), "there is nothing to take");
}

Test(workqueue, a_delay_that_nobody_wakes_up_for_stops_its_heart)
{
    auto_heartbeats struct heartbeats *beats = heartbeats_new(clk);
    struct heartbeat *beat = heartbeat_add(beats, "queue", 1000);
    wq_set_beat(q, beat);
    wq_add_after(q, &a, 60000);
    wq_add_after(q, &b, 20000);
    cr_expect_not(is_stale_after(beat, 21000));
    cr_expect(is_stale_after(beat, 1));
    cr_assert_str_eq(run_one(), "b");
    cr_expect_not(is_stale_after(beat, 39999));
    cr_expect(is_stale_after(beat, 1001));
    wq_shut_down(q);
    cr_expect_not(heartbeat_is_stale(beat), "nobody takes keys any more");
}
