/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>

#include "base/jx.h"
#include "base/log.h"
#include "base/sb.h"
#include "base/xalloc.h"

#include "kc_script_support.h"
#include "kubeclient/informer.h"

static const struct kc_resource nodes = {.group = "",
                                         .version = "v1",
                                         .plural = "nodes",
                                         .kind = "Node"};

static int transforms;

/* The record is the version; a spec that is a number cannot be read. */
static int transform(const json_t *obj, void **ret, struct err *e)
{
    transforms++;
    if (json_is_integer(JX_AT(obj, "spec")))
        return err_set(e, ERR_INVALID, ".spec: is not an object");
    *ret = xstrdup(JX_STR_AT(obj, "metadata", "resourceVersion"));
    return 0;
}

static const struct object_type node_type = {&nodes, transform, free};

struct bench {
    struct clock *clk;
    struct kc *kc;
    struct informer *inf;
    struct sb told;
};

/* Told as "+a@5 ", "~a@5>6 ", "-a@7 " (seen) and "-a@7? " (missed). */
static void on_change(void *arg, const struct object *before, const struct object *after,
                      bool stale)
{
    struct bench *b = arg;
    if (!before)
        sb_addf(&b->told, "+%s@%s ", object_name(after), object_version(after));
    else if (after)
        sb_addf(&b->told, "~%s@%s>%s ", object_name(after), object_version(before),
                object_version(after));
    else
        sb_addf(&b->told, "-%s@%s%s ", object_name(before), object_version(before),
                stale ? "?" : "");
}

static void setup_opts(struct bench *b, const struct script_call *calls, struct informer_opts opts)
{
    log_setup(LOG_ERROR, LOG_LOGFMT, 2);
    transforms = 0;
    b->clk = clock_fake_new(0);
    b->kc = kc_script_new(calls, b->clk);
    b->told = SB_INIT(10000);
    opts.type = &node_type;
    opts.clk = b->clk;
    b->inf = informer_new(b->kc, &opts);
    informer_add_handler(b->inf, on_change, b);
}

static void setup(struct bench *b, const struct script_call *calls)
{
    setup_opts(b, calls, (struct informer_opts){0});
}

static void step(struct bench *b)
{
    auto_err struct err e = {0};
    (void)!informer_step(b->inf, /* s= */ NULL, /* ret_wait_ms= */ NULL, &e);
}

static void teardown(struct bench *b)
{
    (void)informer_free(b->inf);
    (void)kc_free(b->kc);
    (void)clock_free(b->clk);
    sb_done(&b->told);
}

static bool has(struct bench *b, const char *name)
{
    auto_object struct object *o =
        store_get(informer_store(b->inf), &(struct object_key){.name = name});
    return o != NULL;
}

Test(informer, tells_adds_updates_and_deletes)
{
    const struct script_call calls[] = {
        {SCRIPT_STREAM, .brings = "+a@3 !@5 ~a@6 +b@7 -a@8", .lasts_ms = 2000}};
    struct bench b = {0};
    setup(&b, calls);
    cr_assert_not(informer_has_synced(b.inf));
    step(&b);
    cr_assert_str_eq(sb_str(&b.told), "+a@3 ~a@3>6 +b@7 -a@8 ");
    cr_assert(informer_has_synced(b.inf));
    cr_assert(has(&b, "b"));
    cr_assert_not(has(&b, "a"));
    teardown(&b);
}

Test(informer, is_not_synced_before_the_state_is_complete)
{
    const struct script_call calls[] = {{SCRIPT_STREAM, .brings = "+a@3", .lasts_ms = 2000}};
    struct bench b = {0};
    setup(&b, calls);
    step(&b);
    cr_assert_not(informer_has_synced(b.inf));
    cr_assert_not(has(&b, "a"));
    cr_assert_str_eq(sb_str(&b.told), "");
    teardown(&b);
}

Test(informer, a_relist_tells_what_happened_in_the_gap)
{
    const struct script_call calls[] = {{SCRIPT_STREAM,
                                         .brings = "+gone@1 +same@2 +newer@3 +other@a4 !@5",
                                         .end = {.kind = ERR_EXPIRED, .http_status = 410}},
                                        {SCRIPT_STREAM, .from = "5",
                                         .brings = "+same@2 +newer@8 +other@b9 !@10",
                                         .lasts_ms = 2000}};
    struct bench b = {0};
    setup(&b, calls);
    step(&b);
    sb_reset(&b.told);
    step(&b);
    const char *told = sb_str(&b.told);
    cr_assert(strstr(told, "-gone@1? "), "%s", told);
    cr_assert(strstr(told, "~newer@3>8 "), "%s", told);
    cr_assert(strstr(told, "-other@4? +other@9 "), "%s", told);
    cr_assert_not(strstr(told, "same"), "%s", told);
    teardown(&b);
}

Test(informer, a_relist_does_not_transform_what_it_knows)
{
    const struct script_call calls[] = {{SCRIPT_STREAM, .brings = "+a@1 +b@2 !@5",
                                         .end = {.kind = ERR_EXPIRED, .http_status = 410}},
                                        {SCRIPT_STREAM, .from = "5", .brings = "+a@1 +b@8 !@10",
                                         .lasts_ms = 2000}};
    struct bench b = {0};
    setup(&b, calls);
    step(&b);
    step(&b);
    cr_assert_eq(transforms, 3);
    teardown(&b);
}

Test(informer, readers_see_the_old_state_until_the_new_one_is_whole)
{
    const struct script_call calls[] = {{SCRIPT_STREAM, .brings = "+a@1 !@5",
                                         .end = {.kind = ERR_EXPIRED, .http_status = 410}},
                                        {SCRIPT_STREAM, .from = "5", .brings = "+b@8",
                                         .lasts_ms = 2000}};
    struct bench b = {0};
    setup(&b, calls);
    step(&b);
    step(&b);
    cr_assert(has(&b, "a"));
    cr_assert_not(has(&b, "b"));
    teardown(&b);
}

Test(informer, deletions_during_the_initial_stream_count)
{
    const struct script_call calls[] = {
        {SCRIPT_STREAM, .brings = "+a@1 +b@2 -a@3 ~b@4 !@5", .lasts_ms = 2000}};
    struct bench b = {0};
    setup(&b, calls);
    step(&b);
    cr_assert_str_eq(sb_str(&b.told), "+b@4 ");
    teardown(&b);
}

Test(informer, a_deletion_during_the_initial_stream_counts_when_its_last_state_cannot_be_read)
{
    const struct script_call calls[] = {
        {SCRIPT_STREAM, .brings = "+a@1 +b@2 -?a@3 !@5", .lasts_ms = 2000}};
    struct bench b = {0};
    setup(&b, calls);
    step(&b);
    cr_assert_str_eq(sb_str(&b.told), "+b@2 ");
    teardown(&b);
}

Test(informer, an_object_that_cannot_be_read_stops_nobody)
{
    const struct script_call calls[] = {
        {SCRIPT_STREAM, .brings = "+bad@1 +a@2 !@5 ~bad@6 +b@7", .lasts_ms = 2000}};
    struct bench b = {0};
    setup(&b, calls);
    step(&b);
    cr_assert_str_eq(sb_str(&b.told), "+a@2 +b@7 ");
    cr_assert_eq(informer_stats(b.inf).broken_objects, 2);
    cr_assert(store_has_seen(informer_store(b.inf), "7"));
    teardown(&b);
}

Test(informer, a_namesake_in_the_stream_is_another_object)
{
    const struct script_call calls[] = {
        {SCRIPT_STREAM, .brings = "+a@x1 !@5 ~a@y6", .lasts_ms = 2000}};
    struct bench b = {0};
    setup(&b, calls);
    step(&b);
    cr_assert_str_eq(sb_str(&b.told), "+a@1 -a@1? +a@6 ");
    teardown(&b);
}

Test(informer, bookmarks_move_the_stores_version)
{
    const struct script_call calls[] = {{SCRIPT_STREAM, .brings = "!@5 .@40", .lasts_ms = 2000}};
    struct bench b = {0};
    setup(&b, calls);
    step(&b);
    cr_assert(store_has_seen(informer_store(b.inf), "40"));
    teardown(&b);
}

Test(informer, asks_for_one_name_and_for_selectors)
{
    const struct script_call calls[] = {{SCRIPT_STREAM, .brings = "!@5", .lasts_ms = 2000}};
    struct bench b = {0};
    setup_opts(&b, calls,
               (struct informer_opts){.name = "n1",
                                      .fields = "spec.unschedulable=false",
                                      .labels = "pool=gpu"});
    step(&b);
    cr_assert_str_eq(kc_script_fields(b.kc), "metadata.name=n1,spec.unschedulable=false");
    cr_assert_str_eq(kc_script_labels(b.kc), "pool=gpu");
    teardown(&b);
}

Test(informer, waiting_for_the_cache_ends_with_the_scope)
{
    struct bench b = {0};
    setup(&b, NULL);
    auto_scope struct scope *s = scope_new(NULL, 0);
    auto_err struct err e = {0};
    cr_assert_eq(informer_wait_synced(b.inf, s, &e), -ERR_TIMEOUT);
    cr_assert(strstr(err_msg(&e), "nodes"), "%s", err_msg(&e));
    teardown(&b);
}

/* A server that sends objects without end */

Test(informer, holds_no_more_objects_than_its_bound)
{
    const struct script_call calls[] =
        {{SCRIPT_STREAM, .brings = "+a@1 +b@2 ~a@3 -b@4 +d@4 -d@5 !@6 +b@6 ~a@7 +c@8",
          .lasts_ms = 2000},
         {SCRIPT_STREAM, .from = "8", .brings = "+a@9 +b@9 +c@9"},
         {SCRIPT_LIST, .from = "8", .brings = "+a@10 +b@10 +c@10", .version = "10"},
         {SCRIPT_STREAM, .from = "8", .brings = "+a@7 !@12", .lasts_ms = 2000},
         {.verb = (enum script_verb) - 1}};
    struct bench b = {0};
    setup_opts(&b, calls, (struct informer_opts){.max_objects = 2});
    auto_err struct err e = {0};
    cr_expect_eq(informer_step(b.inf, NULL, NULL, &e), -ERR_TOO_LARGE);
    cr_expect_str_eq(e.msg, "more than 2 objects of nodes, which is all that a cache holds");
    step(&b);
    step(&b);
    cr_expect_eq(store_count(informer_store(b.inf)), 2, "the last state that it could hold");
    cr_expect_str_eq(sb_str(&b.told), "+a@3 +b@6 ~a@3>7 ");
    step(&b);
    cr_expect_str_eq(sb_str(&b.told), "+a@3 +b@6 ~a@3>7 -b@6? ");
    teardown(&b);
}

Test(informer, of_one_name_holds_no_other)
{
    const struct script_call calls[] = {{SCRIPT_STREAM,
                                         .brings = "+b@1 +a@2 !@6 +c@7 ~b@8 ~a@9 -b@10",
                                         .lasts_ms = 2000},
                                        {SCRIPT_WATCH, .from = "10", .lasts_ms = 2000},
                                        {.verb = (enum script_verb) - 1}};
    struct bench b = {0};
    setup_opts(&b, calls, (struct informer_opts){.name = "a"});
    step(&b);
    step(&b);
    cr_expect_str_eq(sb_str(&b.told), "+a@2 ~a@2>9 ");
    cr_expect_eq(store_count(informer_store(b.inf)), 1);
    cr_expect_eq(informer_stats(b.inf).broken_objects, 3);
    teardown(&b);
}
