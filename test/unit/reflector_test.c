/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>

#include "base/jx.h"
#include "base/log.h"
#include "base/sb.h"

#include "kc_script_support.h"
#include "kubeclient/reflector.h"

static const struct kc_resource nodes = {.group = "",
                                         .version = "v1",
                                         .plural = "nodes",
                                         .kind = "Node"};

/* A sink that writes down what it is told: "[" begin, "]version" commit, items and changes as in
 * the script's language. */
struct bench {
    struct clock *clk;
    struct kc *kc;
    struct reflector *r;
    struct sb told;
    int64_t wait_ms;
};

static void note(struct bench *b, enum kc_change change, const json_t *obj)
{
    static const char marks[] = {'+', '~', '-', '.'};
    const char *name = JX_STR_AT(obj, "metadata", "name");
    sb_addf(&b->told, "%c%s@%s ", marks[change], name ? name : "",
            JX_STR_AT(obj, "metadata", "resourceVersion"));
}

static void on_begin(void *arg)
{
    struct bench *b = arg;
    sb_add(&b->told, "[ ");
}

static int on_item(void *arg, enum kc_change change, const json_t *obj, struct err *e)
{
    (void)e;
    note(arg, change, obj);
    return 0;
}

static void on_commit(void *arg, const char *version)
{
    struct bench *b = arg;
    sb_addf(&b->told, "]%s ", version);
}

static int on_change(void *arg, enum kc_change change, const json_t *obj, const char *version,
                     struct err *e)
{
    (void)version;
    (void)e;
    note(arg, change, obj);
    return 0;
}

static void setup(struct bench *b, const struct script_call *calls)
{
    log_setup(LOG_ERROR, LOG_LOGFMT, 2);
    b->clk = clock_fake_new(0);
    b->kc = kc_script_new(calls, b->clk);
    b->told = SB_INIT(10000);
    const struct reflector_opts opts = {
        .target = {.res = &nodes},
        .clk = b->clk,
        .seed = 1,
        .sink = {b, on_begin, on_item, on_commit, on_change},
    };
    b->r = reflector_new(b->kc, &opts);
}

static void step(struct bench *b)
{
    auto_err struct err e = {0};
    (void)!reflector_step(b->r, /* s= */ NULL, &b->wait_ms, &e);
}

static void teardown(struct bench *b)
{
    (void)reflector_free(b->r);
    (void)kc_free(b->kc);
    (void)clock_free(b->clk);
    sb_done(&b->told);
}

#define END_OF_SCRIPT                                                                              \
    {                                                                                              \
        .verb = (enum script_verb) - 1                                                             \
    }
/* Client-go's first delay: 0.8 s and up to 100 % on top. */
#define assert_first_backoff(b)                                                                    \
    cr_assert((b)->wait_ms >= 800 && (b)->wait_ms <= 1600, "waits %ld ms", (long)(b)->wait_ms)

/* The state as a stream */

Test(reflector, streams_the_state_and_goes_on_with_changes_in_the_same_call)
{
    const struct script_call calls[] = {{SCRIPT_STREAM, .brings = "+a@3 +b@4 .@5 !@7 ~a@8 -b@9",
                                         .lasts_ms = 300000},
                                        {SCRIPT_WATCH, .from = "9", .brings = "+c@10",
                                         .lasts_ms = 300000},
                                        END_OF_SCRIPT};
    struct bench b = {0};
    setup(&b, calls);
    step(&b);
    cr_assert_eq(b.wait_ms, 0);
    step(&b);
    cr_assert_str_eq(sb_str(&b.told), "[ +a@3 +b@4 ]7 ~a@8 -b@9 +c@10 ");
    teardown(&b);
}

Test(reflector, asks_for_a_watch_of_random_length_between_5_and_10_minutes)
{
    const struct script_call calls[] = {{SCRIPT_STREAM, .brings = "!@7", .lasts_ms = 2000},
                                        {SCRIPT_WATCH, .from = "7", .lasts_ms = 2000},
                                        END_OF_SCRIPT};
    struct bench b = {0};
    setup(&b, calls);
    step(&b);
    int first_s = kc_script_timeout_s(b.kc);
    step(&b);
    int second_s = kc_script_timeout_s(b.kc);
    cr_assert(first_s >= 300 && first_s <= 600 && second_s >= 300 && second_s <= 600);
    cr_assert_neq(first_s, second_s);
    teardown(&b);
}

Test(reflector, a_bookmark_moves_the_version_and_is_passed_on)
{
    const struct script_call calls[] = {{SCRIPT_STREAM, .brings = "!@7 .@50", .lasts_ms = 300000},
                                        {SCRIPT_WATCH, .from = "50", .lasts_ms = 300000},
                                        END_OF_SCRIPT};
    struct bench b = {0};
    setup(&b, calls);
    step(&b);
    step(&b);
    cr_assert_str_eq(sb_str(&b.told), "[ ]7 .@50 ");
    teardown(&b);
}

Test(reflector, an_initial_stream_cut_off_starts_over_from_nothing)
{
    const struct script_call calls[] = {{SCRIPT_STREAM, .brings = "+a@3", .lasts_ms = 5000},
                                        {SCRIPT_STREAM, .brings = "+b@4 !@9", .lasts_ms = 5000},
                                        END_OF_SCRIPT};
    struct bench b = {0};
    setup(&b, calls);
    step(&b);
    assert_first_backoff(&b);
    step(&b);
    cr_assert_str_eq(sb_str(&b.told), "[ +a@3 [ +b@4 ]9 ");
    teardown(&b);
}

Test(reflector, a_server_without_watchlist_is_listed)
{
    const struct script_call calls[] =
        {{SCRIPT_STREAM, .end = {.kind = ERR_INVALID, .http_status = 422}},
         {SCRIPT_LIST, .from = "0", .brings = "+a@3", .version = "5"},
         {SCRIPT_WATCH, .from = "5", .brings = "~a@6", .lasts_ms = 2000},
         END_OF_SCRIPT};
    struct bench b = {0};
    setup(&b, calls);
    step(&b);
    cr_assert_eq(b.wait_ms, 0);
    step(&b);
    step(&b);
    cr_assert_str_eq(sb_str(&b.told), "[ [ +a@3 ]5 ~a@6 ");
    teardown(&b);
}

Test(reflector, a_relist_asks_for_what_is_not_older_than_the_last_version)
{
    const struct script_call calls[] = {{SCRIPT_STREAM, .brings = "!@7",
                                         .end = {.kind = ERR_EXPIRED, .http_status = 410}},
                                        {SCRIPT_STREAM, .from = "7",
                                         .end = {.kind = ERR_INVALID, .http_status = 400}},
                                        {SCRIPT_LIST, .from = "7", .version = "20"},
                                        END_OF_SCRIPT};
    struct bench b = {0};
    setup(&b, calls);
    step(&b);
    assert_first_backoff(&b);
    step(&b);
    step(&b);
    cr_assert_str_eq(sb_str(&b.told), "[ ]7 [ [ ]20 ");
    teardown(&b);
}

Test(reflector, a_version_the_server_does_not_know_is_given_up_at_once_for_the_latest)
{
    static const struct err too_large = {.kind = ERR_TIMEOUT,
                                         .http_status = 504,
                                         .reason = "ResourceVersionTooLarge"};
    const struct script_call calls[] = {{SCRIPT_STREAM, .brings = "!@700",
                                         .end = {.kind = ERR_EXPIRED, .http_status = 410}},
                                        {SCRIPT_STREAM, .from = "700", .end = too_large},
                                        {SCRIPT_STREAM, .brings = "+a@3 !@5", .lasts_ms = 2000},
                                        {SCRIPT_WATCH, .from = "5", .lasts_ms = 2000},
                                        END_OF_SCRIPT};
    struct bench b = {0};
    setup(&b, calls);
    step(&b);
    step(&b);
    cr_assert_eq(b.wait_ms, 0);
    step(&b);
    step(&b);
    cr_assert_str_eq(sb_str(&b.told), "[ ]700 [ [ +a@3 ]5 ");
    teardown(&b);
}

Test(reflector, a_version_that_the_server_cannot_read_is_given_up_for_the_latest)
{
    static const struct err refused = {.kind = ERR_INVALID, .http_status = 400};
    const struct script_call calls[] = {{SCRIPT_STREAM, .brings = "!@7 ~a@7O0 ",
                                         .end = {.kind = ERR_EXPIRED, .http_status = 410}},
                                        {SCRIPT_STREAM, .from = "7O0", .end = refused},
                                        {SCRIPT_LIST, .from = "7O0", .end = refused},
                                        {SCRIPT_LIST, .page_size = 500, .version = "8"},
                                        {SCRIPT_WATCH, .from = "8", .lasts_ms = 2000},
                                        END_OF_SCRIPT};
    struct bench b = {0};
    setup(&b, calls);
    for (int i = 0; i < 3; i++)
        step(&b);
    cr_assert_eq(b.wait_ms, 0);
    step(&b);
    step(&b);
    cr_assert_str_eq(sb_str(&b.told), "[ ]7 ~a@7O0 [ [ [ ]8 ");
    teardown(&b);
}

Test(reflector, a_list_whose_version_expired_is_repeated_at_once_in_pages)
{
    const struct script_call calls[] =
        {{SCRIPT_STREAM, .end = {.kind = ERR_INVALID, .http_status = 422}},
         {SCRIPT_LIST, .from = "0", .end = {.kind = ERR_EXPIRED, .http_status = 410}},
         {SCRIPT_LIST, .page_size = 500, .end = {.kind = ERR_EXPIRED, .http_status = 410}},
         {SCRIPT_LIST, .page_size = 0, .version = "9"},
         {SCRIPT_WATCH, .from = "9", .lasts_ms = 2000},
         END_OF_SCRIPT};
    struct bench b = {0};
    setup(&b, calls);
    for (int i = 0; i < 4; i++) {
        step(&b);
        cr_assert_eq(b.wait_ms, 0, "step %d", i);
    }
    step(&b);
    cr_assert_eq(kc_script_used(b.kc), 5);
    teardown(&b);
}

/* How a watch ends: one row of client-go's table each. The watch before it has brought version 7.
 */

struct watch_end {
    const char *name;
    struct err end;
    int64_t lasts_ms;
    const char *brings;
    enum script_verb then;
    bool backs_off;
};

static const struct watch_end watch_ends[] = {
    {"clean end", {0}, 300000, NULL, SCRIPT_WATCH, false},
    {"very short watch", {0}, 999, NULL, SCRIPT_STREAM, true},
    {"watch of one second", {0}, 1000, NULL, SCRIPT_WATCH, false},
    {"short watch with an event", {0}, 10, "+x@8", SCRIPT_WATCH, false},
    {"gone", {.kind = ERR_EXPIRED, .http_status = 410}, 5000, NULL, SCRIPT_STREAM, true},
    {"throttled", {.kind = ERR_THROTTLED, .http_status = 429}, 10, NULL, SCRIPT_WATCH, true},
    {"refused", {.kind = ERR_UNAVAILABLE, .sys_errno = ECONNREFUSED}, 10, NULL, SCRIPT_WATCH, true},
    {"broken after a while", {.kind = ERR_UNAVAILABLE}, 60000, NULL, SCRIPT_WATCH, false},
    {"broken at once", {.kind = ERR_UNAVAILABLE}, 10, NULL, SCRIPT_WATCH, true},
    {"internal error", {.kind = ERR_UNAVAILABLE, .http_status = 500}, 10, NULL, SCRIPT_WATCH, true},
    {"unavailable", {.kind = ERR_UNAVAILABLE, .http_status = 503}, 10, NULL, SCRIPT_STREAM, true},
    {"forbidden", {.kind = ERR_FORBIDDEN, .http_status = 403}, 10, NULL, SCRIPT_STREAM, true},
    {"unreadable event", {.kind = ERR_PROTOCOL}, 5000, NULL, SCRIPT_STREAM, true},
    {"gateway timeout", {.kind = ERR_TIMEOUT, .http_status = 504}, 10, NULL, SCRIPT_STREAM, true},
};

static void check_watch_end(const struct watch_end *row)
{
    const struct script_call calls[] = {{SCRIPT_STREAM, .brings = "!@7", .lasts_ms = 2000},
                                        {SCRIPT_WATCH, .from = "7", .brings = row->brings,
                                         .lasts_ms = row->lasts_ms, .end = row->end},
                                        {row->then, .from = row->brings ? "8" : "7",
                                         .brings = "!@9", .lasts_ms = 2000},
                                        END_OF_SCRIPT};
    struct bench b = {0};
    setup(&b, calls);
    step(&b);
    step(&b);
    cr_assert_eq(b.wait_ms > 0, row->backs_off, "%s: waits %ld ms", row->name, (long)b.wait_ms);
    step(&b);
    cr_assert_eq(kc_script_used(b.kc), 3, "%s", row->name);
    teardown(&b);
}

Test(reflector, ends_of_a_watch_are_answered_as_client_go_does)
{
    for (size_t i = 0; i < ARRAY_LEN(watch_ends); i++)
        check_watch_end(&watch_ends[i]);
}

/* The same for a WatchList before its state is complete. */
static const struct watch_end stream_ends[] = {
    {"very short", {0}, 10, NULL, SCRIPT_LIST, false},
    {"throttled", {.kind = ERR_THROTTLED, .http_status = 429}, 10, NULL, SCRIPT_STREAM, true},
    {"refused",
     {.kind = ERR_UNAVAILABLE, .sys_errno = ECONNREFUSED},
     10,
     NULL,
     SCRIPT_STREAM,
     true},
    {"server error", {.kind = ERR_UNAVAILABLE, .http_status = 503}, 10, NULL, SCRIPT_LIST, false},
    {"unsupported", {.kind = ERR_INVALID, .http_status = 422}, 10, NULL, SCRIPT_LIST, false},
    {"forbidden", {.kind = ERR_FORBIDDEN, .http_status = 403}, 10, NULL, SCRIPT_LIST, false},
};

static void check_stream_end(const struct watch_end *row)
{
    const struct script_call calls[] = {{SCRIPT_STREAM, .lasts_ms = row->lasts_ms, .end = row->end},
                                        {row->then, .from = row->then == SCRIPT_LIST ? "0" : NULL,
                                         .version = "9", .brings = NULL},
                                        END_OF_SCRIPT};
    struct bench b = {0};
    setup(&b, calls);
    step(&b);
    cr_assert_eq(b.wait_ms > 0, row->backs_off, "%s: waits %ld ms", row->name, (long)b.wait_ms);
    step(&b);
    cr_assert_eq(kc_script_used(b.kc), 2, "%s", row->name);
    teardown(&b);
}

Test(reflector, ends_of_an_initial_stream_are_answered_as_client_go_does)
{
    for (size_t i = 0; i < ARRAY_LEN(stream_ends); i++)
        check_stream_end(&stream_ends[i]);
}

Test(reflector, internal_errors_in_a_row_lead_to_a_relist_after_30_seconds)
{
    static const struct err internal = {.kind = ERR_UNAVAILABLE, .http_status = 500};
    const struct script_call calls[] = {{SCRIPT_STREAM, .brings = "!@7", .lasts_ms = 2000},
                                        {SCRIPT_WATCH, .from = "7", .end = internal},
                                        {SCRIPT_WATCH, .from = "7", .lasts_ms = 29999,
                                         .end = internal},
                                        {SCRIPT_WATCH, .from = "7", .lasts_ms = 1, .end = internal},
                                        {SCRIPT_STREAM, .from = "7", .brings = "!@8",
                                         .lasts_ms = 2000},
                                        END_OF_SCRIPT};
    struct bench b = {0};
    setup(&b, calls);
    for (int i = 0; i < 5; i++)
        step(&b);
    cr_assert_eq(kc_script_used(b.kc), 5);
    teardown(&b);
}

Test(reflector, delays_double_up_to_30_seconds_plus_jitter)
{
    static const struct err refused = {.kind = ERR_UNAVAILABLE, .sys_errno = ECONNREFUSED};
    const struct script_call calls[] = {{SCRIPT_STREAM, .end = refused},
                                        {SCRIPT_STREAM, .end = refused},
                                        {SCRIPT_STREAM, .end = refused},
                                        {SCRIPT_STREAM, .end = refused},
                                        {SCRIPT_STREAM, .end = refused},
                                        {SCRIPT_STREAM, .end = refused},
                                        {SCRIPT_STREAM, .end = refused},
                                        {SCRIPT_STREAM, .end = refused},
                                        END_OF_SCRIPT};
    static const int64_t base_ms[] = {800, 1600, 3200, 6400, 12800, 25600, 30000, 30000};
    struct bench b = {0};
    setup(&b, calls);
    for (size_t i = 0; i < ARRAY_LEN(base_ms); i++) {
        step(&b);
        cr_assert(b.wait_ms >= base_ms[i] && b.wait_ms <= 2 * base_ms[i], "%zu: %ld", i,
                  (long)b.wait_ms);
    }
    teardown(&b);
}

Test(reflector, a_servers_retry_after_is_respected)
{
    const struct script_call calls[] = {{SCRIPT_STREAM, .end = {.kind = ERR_THROTTLED,
                                                                .http_status = 429,
                                                                .retry_after_ms = 7000}},
                                        END_OF_SCRIPT};
    struct bench b = {0};
    setup(&b, calls);
    step(&b);
    cr_assert_eq(b.wait_ms, 7000);
    teardown(&b);
}

Test(reflector, an_event_without_a_version_is_passed_over)
{
    const struct script_call calls[] = {{SCRIPT_STREAM, .brings = "+a@ !@7 ~b@ .@9",
                                         .lasts_ms = 2000},
                                        {SCRIPT_WATCH, .from = "9", .lasts_ms = 2000},
                                        END_OF_SCRIPT};
    struct bench b = {0};
    setup(&b, calls);
    step(&b);
    step(&b);
    cr_assert_str_eq(sb_str(&b.told), "[ ]7 .@9 ");
    teardown(&b);
}

Test(reflector, run_ends_with_its_scope)
{
    const struct script_call calls[] = {{SCRIPT_STREAM, .end = {.kind = ERR_CANCELED}},
                                        END_OF_SCRIPT};
    struct bench b = {0};
    setup(&b, calls);
    auto_scope struct scope *s = scope_new(NULL, -1);
    auto_err struct err e = {0};
    scope_cancel(s);
    cr_assert_eq(reflector_run(b.r, s, &e), -ERR_CANCELED);
    teardown(&b);
}

/* 130 digits: no number of an API server's. */
#define TEN      "1234567890"
#define FIFTY    TEN TEN TEN TEN TEN
#define TOO_LONG FIFTY FIFTY TEN TEN TEN

/* Asked from such a version our own client would refuse the request, for ever. */
Test(reflector, a_version_that_is_too_long_is_an_error_and_is_not_kept)
{
    const struct script_call calls[] =
        {{SCRIPT_STREAM, .brings = "!@7 ~a@8 ~a@" TOO_LONG " ~a@9", .lasts_ms = 2000},
         {SCRIPT_STREAM, .from = "8", .brings = "+a@8 !@" TOO_LONG, .lasts_ms = 2000},
         {SCRIPT_LIST, .from = "8", .brings = "+a@8", .version = TOO_LONG},
         {SCRIPT_STREAM, .from = "8", .brings = "+a@9 !@9", .lasts_ms = 2000},
         END_OF_SCRIPT};
    struct bench b = {0};
    setup(&b, calls);
    step(&b);
    assert_first_backoff(&b);
    for (int i = 0; i < 3; i++)
        step(&b);
    cr_assert_str_eq(sb_str(&b.told), "[ ]7 ~a@8 [ +a@8 [ +a@8 [ +a@9 ]9 ");
    teardown(&b);
}
