/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <fcntl.h>
#include <pthread.h>
#include <string.h>

#include "base/jx.h"
#include "base/log.h"
#include "base/xalloc.h"

#include "kc_mini_support.h"
#include "kubeclient/recorder.h"

static const struct kc_resource nodes = {.group = "",
                                         .version = "v1",
                                         .plural = "nodes",
                                         .kind = "Node"};
static const struct kc_resource pods = {.group = "",
                                        .version = "v1",
                                        .plural = "pods",
                                        .kind = "Pod",
                                        .namespaced = true};
static const struct event_about n1 = {.resource = &nodes, .name = "n1", .uid = "u-1"};

#define MINUTE_MS 60000

static struct clock *clk;
static struct kc *kc;
static struct recorder *r;

static void setup(void)
{
    log_setup(LOG_ERROR, LOG_LOGFMT, open("/dev/null", O_WRONLY | O_CLOEXEC));
    clk = clock_fake_new(1767225600000);
    kc = kc_mini_new();
    r = recorder_new(kc, &(struct recorder_opts){.controller = "gpu.cleave.dev/controller",
                                                 .instance = "pod-0",
                                                 .clk = clk,
                                                 .seed = 1});
}

static void teardown(void)
{
    (void)recorder_free(r);
    (void)kc_free(kc);
    (void)clock_free(clk);
}

TestSuite(recorder, .init = setup, .fini = teardown);

static void step(void)
{
    recorder_step(r, /* s= */ NULL, /* ret_wait_ms= */ NULL);
}

static void record(const char *note)
{
    recorder_event_about(r, &n1, /* warning= */ false, "Repartitioned", "%s", note);
}

static json_int_t series_count(size_t nth)
{
    auto_json json_t *event = kc_mini_nth(kc, nth);
    return json_integer_value(JX_AT(event, "series", "count"));
}

Test(recorder, writes_an_event_with_everything_the_api_wants)
{
    recorder_event_about(r, &n1, /* warning= */ true, "Infeasible", "GPU %d: no room", 3);
    step();
    auto_json json_t *event = kc_mini_nth(kc, 0);
    cr_assert_str_eq(JX_STR_AT(event, "apiVersion"), "events.k8s.io/v1");
    cr_assert_str_eq(JX_STR_AT(event, "metadata", "namespace"), "default");
    cr_assert_str_eq(JX_STR_AT(event, "eventTime"), "2026-01-01T00:00:00.000000Z");
    cr_assert_str_eq(JX_STR_AT(event, "reportingController"), "gpu.cleave.dev/controller");
    cr_assert_str_eq(JX_STR_AT(event, "reportingInstance"), "pod-0");
    cr_assert_str_eq(JX_STR_AT(event, "action"), "Infeasible");
    cr_assert_str_eq(JX_STR_AT(event, "reason"), "Infeasible");
    cr_assert_str_eq(JX_STR_AT(event, "type"), "Warning");
    cr_assert_str_eq(JX_STR_AT(event, "note"), "GPU 3: no room");
    cr_assert_str_eq(JX_STR_AT(event, "regarding", "apiVersion"), "v1");
    cr_assert_str_eq(JX_STR_AT(event, "regarding", "kind"), "Node");
    cr_assert_str_eq(JX_STR_AT(event, "regarding", "name"), "n1");
    cr_assert_str_eq(JX_STR_AT(event, "regarding", "uid"), "u-1");
    cr_assert_null(JX_AT(event, "series"));
    cr_assert_eq(strncmp(JX_STR_AT(event, "metadata", "name"), "n1.", 3), 0);
}

Test(recorder, an_event_lies_in_the_namespace_of_what_it_is_about)
{
    recorder_event_about(r, &(struct event_about){.resource = &pods, .ns = "prod", .name = "p"},
                         /* warning= */ false, "Evicted", "evicted");
    step();
    auto_json json_t *event = kc_mini_nth(kc, 0);
    cr_assert_str_eq(JX_STR_AT(event, "metadata", "namespace"), "prod");
    cr_assert_str_eq(JX_STR_AT(event, "regarding", "namespace"), "prod");
}

Test(recorder, the_second_occurrence_makes_a_series_and_later_ones_are_only_counted)
{
    record("done");
    step();
    clock_fake_advance(clk, 1000);
    record("done");
    step();
    cr_assert_eq(series_count(0), 2);
    for (int i = 0; i < 10; i++)
        record("done");
    step();
    cr_assert_eq(series_count(0), 2);
    cr_assert_eq(kc_mini_writes(kc), 2);
    cr_assert_null(kc_mini_nth(kc, 1));
}

Test(recorder, the_final_count_is_written_6_minutes_after_the_last)
{
    for (int i = 0; i < 5; i++) {
        record("done");
        step();
    }
    clock_fake_advance(clk, 6 * MINUTE_MS - 1);
    step();
    cr_assert_eq(series_count(0), 2);
    clock_fake_advance(clk, 1);
    step();
    cr_assert_eq(series_count(0), 5);
    auto_json json_t *event = kc_mini_nth(kc, 0);
    cr_assert_str_eq(JX_STR_AT(event, "series", "lastObservedTime"), "2026-01-01T00:00:00.000000Z");
}

Test(recorder, a_series_that_goes_on_is_refreshed_every_30_minutes)
{
    record("done");
    step();
    for (int minute = 1; minute <= 29; minute++) {
        clock_fake_advance(clk, MINUTE_MS);
        record("done");
        step();
    }
    int before = kc_mini_writes(kc);
    clock_fake_advance(clk, 2 * MINUTE_MS);
    record("done");
    step();
    cr_assert_eq(before, 2);
    cr_assert_eq(kc_mini_writes(kc), 3);
    cr_assert_eq(series_count(0), 31);
}

Test(recorder, after_the_end_of_a_series_the_next_one_is_a_new_event)
{
    record("done");
    step();
    clock_fake_advance(clk, 6 * MINUTE_MS);
    step();
    record("done");
    step();
    auto_json json_t *second = kc_mini_nth(kc, 1);
    cr_assert_not_null(second);
}

Test(recorder, another_note_is_another_event)
{
    record("card 0");
    record("card 1");
    step();
    cr_assert_eq(kc_mini_writes(kc), 2);
}

Test(recorder, an_object_gets_25_events_at_once_and_then_one_in_5_minutes)
{
    for (int i = 0; i < 40; i++) {
        auto_free char *note = xasprintf("note %d", i);
        record(note);
    }
    step();
    cr_assert_eq(kc_mini_writes(kc), 25);
    cr_assert_eq(recorder_stats(r).dropped_spam, 15);
    clock_fake_advance(clk, 5 * MINUTE_MS);
    record("one more");
    record("too many");
    recorder_event_about(r, &(struct event_about){.resource = &nodes, .name = "n2"},
                         /* warning= */ false, "Other", "another object");
    step();
    cr_assert_eq(kc_mini_writes(kc), 27);
}

Test(recorder, a_full_queue_drops_and_counts)
{
    for (int i = 0; i < 1005; i++) {
        auto_free char *name = xasprintf("n%d", i);
        recorder_event_about(r, &(struct event_about){.resource = &nodes, .name = name},
                             /* warning= */ false, "Seen", "seen");
    }
    cr_assert_eq(recorder_stats(r).dropped_full, 5);
    step();
    cr_assert_eq(kc_mini_writes(kc), 1000);
}

Test(recorder, a_failing_server_is_tried_12_times_10_seconds_apart)
{
    kc_mini_fail(kc, 1000, ERR_UNAVAILABLE, 0);
    record("done");
    step();
    for (int tries = 2; tries <= 12; tries++) {
        clock_fake_advance(clk, 10000);
        step();
        cr_assert_eq(kc_mini_calls(kc), tries);
    }
    clock_fake_advance(clk, 10000);
    step();
    cr_assert_eq(kc_mini_calls(kc), 12);
    cr_assert_eq(recorder_stats(r).given_up, 1);
}

Test(recorder, a_refusal_is_not_tried_again)
{
    kc_mini_fail(kc, 1000, ERR_NOT_FOUND, 404);
    record("done");
    step();
    clock_fake_advance(clk, 10000);
    step();
    cr_assert_eq(kc_mini_calls(kc), 1);
}

Test(recorder, a_lost_answer_makes_no_second_event)
{
    kc_mini_lose_answers(kc, 1);
    record("done");
    step();
    clock_fake_advance(clk, 10000);
    step();
    cr_assert_eq(kc_mini_calls(kc), 2);
    cr_assert_null(kc_mini_nth(kc, 1));
    cr_assert_eq(recorder_stats(r).written, 1);
}

Test(recorder, an_event_that_the_server_forgot_is_made_again_with_its_count)
{
    record("done");
    step();
    auto_json json_t *event = kc_mini_nth(kc, 0);
    kc_mini_drop(kc, JX_STR_AT(event, "metadata", "name"));
    record("done");
    step();
    cr_assert_eq(series_count(0), 2);
}

Test(recorder, long_and_unreadable_notes_are_tamed)
{
    auto_free char *long_note = xmalloc(3001);
    memset(long_note, 'x', 3000);
    memcpy(long_note + 1022, "\xc3\xa9\xc3\xa9", 4);
    record(long_note);
    record("\xff\xfe");
    step();
    size_t lengths = 0;
    for (size_t i = 0; i < 2; i++) {
        auto_json json_t *event = kc_mini_nth(kc, i);
        lengths += strlen(JX_STR_AT(event, "note"));
    }
    cr_assert_eq(lengths, 1024 + 2);
}

Test(recorder, names_are_cut_to_what_the_api_takes)
{
    auto_free char *name = xmalloc(254);
    memset(name, 'a', 253);
    name[229] = '-';
    recorder_event_about(r, &(struct event_about){.resource = &nodes, .name = name},
                         /* warning= */ false, "Seen", "seen");
    step();
    auto_json json_t *event = kc_mini_nth(kc, 0);
    cr_assert_eq(strlen(JX_STR_AT(event, "metadata", "name")), 229 + 17);
}

Test(recorder, names_are_not_cut_inside_a_character)
{
    char name[240];
    memset(name, 'a', sizeof(name));
    memcpy(name + 229, "\xc3\xa9\0", 3);
    recorder_event_about(r, &(struct event_about){.resource = &nodes, .name = name},
                         /* warning= */ false, "Seen", "seen");
    step();
    auto_json json_t *event = kc_mini_nth(kc, 0);
    cr_assert_eq(strlen(JX_STR_AT(event, "metadata", "name")), 229 + 17);
}

Test(recorder, an_event_that_json_cannot_carry_is_dropped_and_counted)
{
    recorder_event_about(r, &(struct event_about){.resource = &nodes, .name = "\xff"},
                         /* warning= */ false, "Seen", "seen");
    cr_expect_eq(recorder_stats(r).dropped_unwritable, 1);
}

Test(recorder, nobody_to_record_to_is_no_error)
{
    recorder_event_about(NULL, &n1, /* warning= */ false, "Seen", "seen");
}

static void *run_recorder(void *arg)
{
    auto_err struct err e = {0};
    (void)!recorder_run(r, arg, &e);
    return NULL;
}

Test(recorder, run_wakes_for_what_is_recorded)
{
    auto_scope struct scope *s = scope_new(NULL, 120000);
    pthread_t t;
    cr_assert_eq(pthread_create(&t, NULL, run_recorder, s), 0);
    for (int i = 1; i <= 3; i++) {
        auto_free char *note = xasprintf("note %d", i);
        record(note);
        while (kc_mini_writes(kc) < i && scope_wait_ms(s, 1))
            ;
        cr_assert_eq(kc_mini_writes(kc), i);
    }
    scope_cancel(s);
    cr_assert_eq(pthread_join(t, NULL), 0);
}

Test(recorder, run_writes_what_waits_when_its_scope_ends)
{
    auto_scope struct scope *s = scope_new(NULL, -1);
    auto_err struct err e = {0};
    record("last words");
    scope_cancel(s);
    cr_assert_eq(recorder_run(r, s, &e), -ERR_CANCELED);
    cr_assert_eq(kc_mini_writes(kc), 1);
}
