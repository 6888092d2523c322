/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "base/yaml.h"

#include "nodeagent/loop/card_track.h"

struct bench {
    struct clock *clk;
    struct rng rng;
    struct card_track_clock time;
    struct device_spec before, now;
    struct card_tracks tracks;
};

static void read_spec(const char *devices, struct device_spec *ret)
{
    auto_json json_t *list = NULL;
    cr_assert_eq(yaml_load(devices, strlen(devices), &list, NULL), 0, "%s", devices);
    auto_json json_t *obj = json_pack("{s:{s:O}}", "spec", "devices", list);
    auto_err struct err e = {0};
    cr_assert_eq(device_spec_decode(obj, ret, &e), 0, "%s", err_msg(&e));
}

/* Tracks that follow the first spec, each of whose cards was attempted with this outcome. */
static void bench_init(struct bench *b, const char *devices, enum txn_outcome outcome)
{
    *b = (struct bench){.clk = clock_fake_new(1000000)};
    rng_init(&b->rng, 1);
    b->time = (struct card_track_clock){b->clk, &b->rng};
    const struct device_spec none = {0};
    read_spec(devices, &b->before);
    card_tracks_follow(&b->tracks, &none, &b->before, false);
    const struct txn_result r = {.outcome = outcome};
    for (size_t i = 0; i < b->tracks.n; i++)
        card_track_note(&b->tracks.items[i], &b->before.devices[i], &r, &b->time);
}

static struct card_track *follow(struct bench *b, const char *devices)
{
    read_spec(devices, &b->now);
    card_tracks_follow(&b->tracks, &b->before, &b->now, true);
    return card_tracks_find(&b->tracks, "a");
}

static void bench_done(struct bench *b)
{
    card_tracks_done(&b->tracks);
    device_spec_done(&b->before);
    device_spec_done(&b->now);
    (void)clock_free(b->clk);
}

static int64_t pause_ms(const struct bench *b)
{
    return card_track_due_mono_ms(&b->tracks.items[0]) - clock_mono_ms(b->clk);
}

#define MIG_A "mode: mig, mig: {profiles: [{profile: 1g.10gb, count: 2}]}"

Test(card_track, a_new_card_is_pending_and_one_that_is_no_longer_wanted_is_forgotten)
{
    struct bench b;
    bench_init(&b, "[{uuid: a, mode: native}]", TXN_APPLIED);
    (void)follow(&b, "[{uuid: b, mode: native}]");
    cr_expect_null(card_tracks_find(&b.tracks, "a"));
    const struct card_track *t = card_tracks_find(&b.tracks, "b");
    cr_assert_not_null(t);
    cr_expect(card_track_is_due(t, clock_mono_ms(b.clk)));
    bench_done(&b);
}

/* The longest UUID of a spec is longer than any card's: cut, it would be another card's. */
Test(card_track, the_longest_uuid_of_a_spec_is_kept_whole)
{
    struct bench b;
    char longest[97];
    char spec[256];
    memset(longest, 'a', 96);
    longest[96] = '\0';
    (void)snprintf(spec, sizeof(spec), "[{uuid: %s, " MIG_A "}]", longest);
    bench_init(&b, spec, TXN_APPLIED);
    cr_expect(card_tracks_find(&b.tracks, longest));
    longest[95] = '\0';
    cr_expect_null(card_tracks_find(&b.tracks, longest));
    bench_done(&b);
}

Test(card_track, only_a_wish_that_means_something_else_is_attempted_again)
{
    static const struct {
        const char *now;
        bool again;
    } cases[] = {
        {"[{uuid: a, " MIG_A "}]", false},
        {"[{uuid: a, " MIG_A ", source: {kind: GPUProfile, name: other, generation: 9}}]", false},
        {"[{uuid: a, " MIG_A ", sharing: {timeSlicing: {replicas: 4}}}]", false},
        {"[{uuid: b, mode: native}, {uuid: a, " MIG_A "}]", false},
        {"[{uuid: a, mode: native}]", true},
        {"[{uuid: a, mode: mig, mig: {profiles: [{profile: 1g.10gb, count: 3}]}}]", true},
        {"[{uuid: a, " MIG_A ", failurePolicy: hold}]", true},
        {"[{uuid: a, " MIG_A ", rollout: {drain: evict, timeoutSeconds: 5}}]", true},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct bench b;
        bench_init(&b, "[{uuid: a, " MIG_A ", source: {kind: GPUProfile, name: p}}]", TXN_APPLIED);
        const struct card_track *t = follow(&b, cases[i].now);
        cr_assert_not_null(t);
        cr_expect_eq(t->memo.progress == PROGRESS_PENDING, cases[i].again, "%s", cases[i].now);
        bench_done(&b);
    }
}

/* How a card is shared is no part of the wish, and may be what was refused. */
Test(card_track, a_card_that_was_refused_is_judged_anew_with_each_spec)
{
    struct bench b;
    bench_init(&b, "[{uuid: a, " MIG_A ", sharing: {mps: {replicas: 4}}}]", TXN_APPLIED);
    card_track_refuse(&b.tracks.items[0], "MPSUnsupported", "why");
    const struct card_track *t =
        follow(&b, "[{uuid: a, " MIG_A ", sharing: {timeSlicing: {replicas: 4}}}]");
    cr_assert_not_null(t);
    cr_expect_eq(t->memo.progress, PROGRESS_PENDING);
    cr_expect(card_track_is_due(t, clock_mono_ms(b.clk)));
    bench_done(&b);
}

Test(card_track, what_is_done_or_cannot_be_is_not_due_by_itself)
{
    static const enum txn_outcome rests[] = {TXN_APPLIED, TXN_NOTHING_TO_DO, TXN_HELD,
                                             TXN_INFEASIBLE};
    for (size_t i = 0; i < ARRAY_LEN(rests); i++) {
        struct bench b;
        bench_init(&b, "[{uuid: a, mode: native}]", rests[i]);
        cr_expect_eq(card_track_due_mono_ms(&b.tracks.items[0]), INT64_MAX);
        bench_done(&b);
    }
}

Test(card_track, failures_are_tried_again_with_growing_pauses_and_a_success_resets_them)
{
    struct bench b;
    bench_init(&b, "[{uuid: a, mode: native}]", TXN_ROLLED_BACK);
    struct card_track *t = &b.tracks.items[0];
    const struct txn_result failed = {.outcome = TXN_FAILED};
    const struct txn_result applied = {.outcome = TXN_APPLIED};
    int64_t first = pause_ms(&b);
    int64_t last = first;
    for (int i = 0; i < 12; i++) {
        card_track_note(t, &b.before.devices[0], &failed, &b.time);
        last = pause_ms(&b);
        cr_expect_leq(last, 300000 + 60000);
    }
    cr_expect_gt(last, 10 * first);
    card_track_note(t, &b.before.devices[0], &applied, &b.time);
    card_track_note(t, &b.before.devices[0], &failed, &b.time);
    cr_expect_lt(pause_ms(&b), 3000);
    bench_done(&b);
}

Test(card_track, a_drain_has_one_beginning_and_with_eviction_an_end)
{
    struct bench b;
    bench_init(&b, "[{uuid: a, mode: native, rollout: {drain: evict, timeoutSeconds: 60}}]",
               TXN_IN_USE);
    struct card_track *t = &b.tracks.items[0];
    int64_t since = t->memo.drain_since_ms;
    cr_expect_eq(since, clock_wall_ms(b.clk));
    cr_expect_eq(t->memo.drain_deadline_ms, since + 60000);
    cr_expect_eq(t->retry_mono_ms, clock_mono_ms(b.clk) + 1000);
    clock_fake_advance(b.clk, 5000);
    const struct txn_result busy = {.outcome = TXN_IN_USE};
    const struct txn_result applied = {.outcome = TXN_APPLIED};
    card_track_note(t, &b.before.devices[0], &busy, &b.time);
    cr_expect_eq(t->memo.drain_since_ms, since);
    card_track_note(t, &b.before.devices[0], &applied, &b.time);
    cr_expect_eq(t->memo.drain_since_ms, 0);
    cr_expect_eq(t->memo.drain_deadline_ms, 0);
    bench_done(&b);
}

static const struct txn_result not_withdrawn = {.outcome = TXN_NOT_WITHDRAWN};

Test(card_track, a_card_waits_for_its_withdrawal_and_no_longer_than_its_patience)
{
    struct bench b;
    bench_init(&b, "[{uuid: a, mode: native}]", TXN_IN_USE);
    struct card_track *t = &b.tracks.items[0];
    card_track_begin(t);
    cr_expect_eq(t->memo.progress, PROGRESS_PENDING, "it is in change now");
    card_track_told(t, &(struct card_offer){0}, 5);
    card_track_await(t, clock_mono_ms(b.clk));
    cr_expect_not(card_track_is_due(t, clock_mono_ms(b.clk)));
    int64_t patience = pause_ms(&b);
    cr_expect(card_track_is_due(t, clock_mono_ms(b.clk) + patience));
    card_tracks_acked(&b.tracks, 4);
    cr_expect_not(card_track_is_due(t, clock_mono_ms(b.clk)), "an older status");
    card_tracks_acked(&b.tracks, 6);
    cr_expect(card_track_is_due(t, clock_mono_ms(b.clk)));
    bench_done(&b);
}

Test(card_track, what_waits_for_the_list_of_pods_is_not_woken_by_an_acknowledgement)
{
    struct bench b;
    bench_init(&b, "[{uuid: a, mode: native}]", TXN_IN_USE);
    struct card_track *t = &b.tracks.items[0];
    card_track_begin(t);
    t->withdrawn_mono_ms = clock_mono_ms(b.clk) + 1;
    card_track_told(t, &(struct card_offer){0}, 5);
    card_track_await(t, clock_mono_ms(b.clk));
    card_tracks_acked(&b.tracks, 6);
    cr_expect_not(card_track_is_due(t, clock_mono_ms(b.clk)));
    card_tracks_listed(&b.tracks);
    cr_expect(card_track_is_due(t, clock_mono_ms(b.clk)));
    bench_done(&b);
}

Test(card_track, a_daemon_that_does_not_end_is_waited_for_no_longer_however_many_lists_come)
{
    struct bench b;
    bench_init(&b, "[{uuid: a, mode: native}]", TXN_IN_USE);
    struct card_track *t = &b.tracks.items[0];
    int64_t now = clock_mono_ms(b.clk);
    card_track_begin(t);
    t->withdrawn_mono_ms = now;
    card_track_seal(t, now);
    card_track_await(t, now);
    int64_t patience = pause_ms(&b);
    card_tracks_listed(&b.tracks);
    card_track_seal(t, now + patience - 1);
    card_track_await(t, now + patience - 1);
    cr_expect_not(card_track_is_due(t, now + patience - 1));
    cr_expect(card_track_is_due(t, now + patience));
    card_track_note(t, &b.before.devices[0], &not_withdrawn, &b.time);
    cr_expect_eq(t->sealed_mono_ms, 0, "the next attempt has its own patience");
    bench_done(&b);
}

Test(card_track, what_is_said_again_is_told_since_the_first_time)
{
    struct bench b;
    bench_init(&b, "[{uuid: a, mode: native}]", TXN_APPLIED);
    struct card_track *t = &b.tracks.items[0];
    card_track_told(t, &(struct card_offer){.whole = true}, 5);
    card_track_told(t, &(struct card_offer){.whole = true}, 6);
    cr_expect_eq(t->told_number, 5);
    card_track_told(t, &(struct card_offer){0}, 7);
    cr_expect_eq(t->told_number, 7);
    bench_done(&b);
}

Test(card_track, an_attempt_without_its_withdrawal_begins_anew_at_once_and_then_with_pauses)
{
    struct bench b;
    bench_init(&b, "[{uuid: a, mode: native}]", TXN_IN_USE);
    struct card_track *t = &b.tracks.items[0];
    card_track_note(t, &b.before.devices[0], &not_withdrawn, &b.time);
    cr_expect_eq(t->memo.progress, PROGRESS_PENDING);
    cr_expect_eq(t->memo.result.outcome, TXN_IN_USE, "nothing came of it");
    card_track_begin(t);
    card_track_note(t, &b.before.devices[0], &not_withdrawn, &b.time);
    cr_expect_eq(t->memo.progress, PROGRESS_DONE);
    cr_expect_gt(pause_ms(&b), 0);
    cr_expect_not(t->memo.beginning);
    bench_done(&b);
}

/* The loop and the job see two different cards, each time. */
Test(card_track, an_attempt_that_is_surprised_twice_in_a_row_is_repeated_with_pauses)
{
    struct bench b;
    bench_init(&b, "[{uuid: a, mode: native}]", TXN_IN_USE);
    struct card_track *t = &b.tracks.items[0];
    card_track_note(t, &b.before.devices[0], &not_withdrawn, &b.time);
    cr_expect(card_track_is_due(t, clock_mono_ms(b.clk)), "at once");
    card_track_note(t, &b.before.devices[0], &not_withdrawn, &b.time);
    cr_expect_not(card_track_is_due(t, clock_mono_ms(b.clk)));
    int64_t pause = pause_ms(&b);
    card_track_note(t, &b.before.devices[0], &not_withdrawn, &b.time);
    cr_expect_gt(pause_ms(&b), pause);
    bench_done(&b);
}

Test(card_track, a_slice_that_is_withdrawn_is_told_anew)
{
    struct bench b;
    bench_init(&b, "[{uuid: a, mode: sgpu}]", TXN_APPLIED);
    struct card_track *t = &b.tracks.items[0];
    card_track_told(t, &(struct card_offer){.n = 2, .items = {{0, -1}, {1, -1}}}, 5);
    card_track_told(t, &(struct card_offer){.n = 1, .items = {{1, -1}}}, 6);
    cr_expect_eq(t->told_number, 6);
    bench_done(&b);
}
