/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <string.h>
#include <sys/eventfd.h>

#include "base/jx.h"
#include "base/log.h"
#include "base/xalloc.h"
#include "base/yaml.h"

#include "kubeclient/fake/fake.h"
#include "kubeclient/fault.h"
#include "nodeagent/loop/own_device.h"
#include "nodeagent/loop/status_writer.h"
#include "service/resources.h"

/* A status writer between a model of the API server and an informer that looks when it is told
 * to. */
struct bench {
    struct clock *clk;
    struct scope *scope;
    struct kc *server, *kc; /* kc spoils what the plan says */
    struct informer *inf;
    struct status_writer *pub;
    json_t *last_write;
};

static const struct kc_target device = {.res = &resource_devices, .name = "n1"};
static const struct kc_target device_status = {.res = &resource_devices,
                                               .name = "n1",
                                               .subresource = "status"};

static int note_write(void *arg, const struct kc_call *call, struct err *e)
{
    struct bench *b = arg;
    (void)e;
    if (call->verb != KC_UPDATE || call->after)
        return 0;
    json_decref(b->last_write);
    b->last_write = json_deep_copy(call->write->body);
    return 0;
}

static void bench_init(struct bench *b, struct kc_fault_plan plan)
{
    log_setup(LOG_ERROR, LOG_LOGFMT, 2);
    *b = (struct bench){.clk = clock_fake_new(1767323045000), .scope = scope_new(NULL, -1)};
    b->server = kc_fake_new(b->clk);
    kc_fake_watch_drains(b->server, true);
    kc_fake_hook(b->server, note_write, b);
    b->kc = kc_fault_new(b->server, &plan);
    const struct informer_opts o = {.type = &own_device_type, .name = "n1", .clk = b->clk};
    b->inf = informer_new(b->kc, &o);
    const struct status_writer_deps d = {b->kc, b->inf, "n1", b->clk, 1};
    b->pub = status_writer_new(&d);
}

static void bench_done(struct bench *b)
{
    (void)status_writer_free(b->pub);
    (void)informer_free(b->inf);
    (void)kc_free(b->kc);
    (void)kc_free(b->server);
    (void)clock_free(b->clk);
    (void)scope_free(b->scope);
    json_decref(b->last_write);
}

/* The informer catches up. A spoiled call is tried again. */
static void see(struct bench *b)
{
    for (int i = 0; i < 4; i++) {
        auto_err struct err e = {0};
        (void)!informer_step(b->inf, b->scope, NULL, &e);
    }
}

static int step(struct bench *b, struct err *e)
{
    bool done;
    return status_writer_step(b->pub, b->scope, &done, e);
}

static void step_good(struct bench *b)
{
    auto_err struct err e = {0};
    cr_assert_eq(step(b, &e), 0, "%s", err_msg(&e));
}

static json_t *yaml(const char *text)
{
    json_t *v = NULL;
    cr_assert_eq(yaml_load(text, strlen(text), &v, NULL), 0, "%s", text);
    return v;
}

static void put(struct bench *b, const char *status)
{
    status_writer_put(b->pub, yaml(status));
}

static json_t *stored(struct bench *b)
{
    json_t *obj = NULL;
    cr_assert_eq(kc_get(b->server, b->scope, &device, &obj, NULL), 0);
    return obj;
}

static void check_stored(struct bench *b, const char *status)
{
    auto_json json_t *obj = stored(b);
    auto_json json_t *expected = yaml(status);
    auto_free char *have = jx_dump(json_object_get(obj, "status"));
    cr_expect(json_equal(json_object_get(obj, "status"), expected), "%s, not %s", have, status);
}

/* The Device is there and holds the status. */
static void bench_publish(struct bench *b, const char *status)
{
    bench_init(b, (struct kc_fault_plan){0});
    put(b, status);
    see(b);
    step_good(b);
    see(b);
    step_good(b);
    check_stored(b, status);
}

Test(status_writer, nothing_is_done_before_the_first_look)
{
    struct bench b;
    bench_init(&b, (struct kc_fault_plan){0});
    put(&b, "{agentVersion: v1}");
    step_good(&b);
    cr_expect_eq(kc_fake_writes(b.server), 0);
    bench_done(&b);
}

Test(status_writer, the_device_is_made_when_it_is_missing_and_then_filled)
{
    struct bench b;
    bench_publish(&b, "{agentVersion: v1, observedGeneration: 1}");
    auto_json json_t *obj = stored(&b);
    cr_expect_null(json_object_get(obj, "spec"));
    struct status_writer_stats st = status_writer_stats(b.pub);
    cr_expect_eq(st.creates, 1);
    cr_expect_eq(st.writes, 1);
    cr_expect_eq(kc_fake_writes(b.server), 2);
    bench_done(&b);
}

Test(status_writer, a_status_is_acknowledged_when_the_server_holds_it_and_not_before)
{
    struct bench b;
    bench_init(&b, (struct kc_fault_plan){KC_FAULT_UNAVAILABLE, .at = 4});
    auto_err struct err e = {0};
    cr_expect_eq(status_writer_put(b.pub, yaml("{agentVersion: v1}")), 1);
    see(&b);
    step_good(&b);
    see(&b);
    cr_expect_eq(status_writer_acked(b.pub), 0);
    for (int i = 0; i < 3 && status_writer_acked(b.pub) == 0; i++)
        if (step(&b, &e) < 0)
            cr_expect_eq(status_writer_acked(b.pub), 0, "the write failed");
    cr_expect_eq(status_writer_acked(b.pub), 1);
    status_writer_kick(b.pub);
    cr_expect_eq(status_writer_put(b.pub, yaml("{agentVersion: v1}")), 2);
    cr_expect_eq(status_writer_acked(b.pub), 1, "it may have changed there");
    step_good(&b);
    cr_expect_eq(status_writer_acked(b.pub), 2, "it holds just that: no write is needed");
    eventfd_t grew = 0;
    cr_expect_eq(eventfd_read(status_writer_fd(b.pub), &grew), 0);
    cr_expect_eq(grew, 2);
    bench_done(&b);
}

/* Each reading of the cards puts a status: at rest none of them may wake the thread. */
Test(status_writer, a_status_that_the_server_has_is_acknowledged_at_once)
{
    struct bench b;
    bench_publish(&b, "{agentVersion: v1, bootID: x}");
    eventfd_t grew = 0;
    int64_t last = status_writer_acked(b.pub);
    cr_assert_eq(eventfd_read(status_writer_fd(b.pub), &grew), 0);
    cr_expect_eq(status_writer_put(b.pub, yaml("{bootID: x, agentVersion: v1}")), last + 1);
    cr_expect_eq(status_writer_acked(b.pub), last + 1);
    cr_expect_lt(eventfd_read(status_writer_fd(b.pub), &grew), 0, "nobody was woken");
    cr_expect_eq(status_writer_put(b.pub, yaml("{agentVersion: v2}")), last + 2);
    cr_expect_eq(status_writer_put(b.pub, yaml("{agentVersion: v1, bootID: x}")), last + 3);
    cr_expect_eq(status_writer_acked(b.pub), last + 1, "the one between may be on its way");
    step_good(&b);
    cr_expect_eq(status_writer_acked(b.pub), last + 3);
    bench_done(&b);
}

/* The status that somebody else wrote is to be corrected first. */
Test(status_writer, a_status_is_not_acknowledged_while_its_write_fails)
{
    struct bench b;
    auto_err struct err e = {0};
    bench_publish(&b, "{agentVersion: v1}");
    see(&b);
    int64_t last = status_writer_acked(b.pub);
    auto_json json_t *body = yaml("{metadata: {labels: {a: b}}, status: {agentVersion: other}}");
    const struct kc_write w = {.body = body, .how = KC_MERGE};
    cr_assert_eq(kc_patch(b.server, b.scope, &device_status, &w, NULL, NULL), 0);
    see(&b);
    cr_assert_eq(kc_patch(b.server, b.scope, &device, &w, NULL, NULL), 0);
    cr_assert_eq(step(&b, &e), -(int)ERR_CONFLICT);
    put(&b, "{agentVersion: v1}");
    cr_expect_eq(status_writer_acked(b.pub), last);
    see(&b);
    step_good(&b);
    check_stored(&b, "{agentVersion: v1}");
    cr_expect_eq(status_writer_acked(b.pub), last + 1);
    bench_done(&b);
}

Test(status_writer, nothing_is_written_when_nothing_differs)
{
    struct bench b;
    bench_publish(&b, "{agentVersion: v1, bootID: x}");
    size_t calls = kc_fake_calls(b.server, KC_UPDATE);
    see(&b);
    put(&b, "{bootID: x, agentVersion: v1}");
    step_good(&b);
    step_good(&b);
    cr_expect_eq(kc_fake_calls(b.server, KC_UPDATE), calls);
    cr_expect_eq(kc_fake_calls(b.server, KC_CREATE), 1);
    bench_done(&b);
}

Test(status_writer, the_whole_status_is_written_to_the_version_that_it_is_meant_for)
{
    struct bench b;
    bench_publish(&b, "{agentVersion: v1, bootID: x, summary: {gpus: 1, layout: a}}");
    see(&b);
    auto_json json_t *before = stored(&b);
    put(&b, "{agentVersion: v1, summary: {gpus: 2, layout: a}}");
    step_good(&b);
    cr_expect_str_eq(JX_STR_AT(b.last_write, "metadata", "uid"),
                     JX_STR_AT(before, "metadata", "uid"));
    cr_expect_str_eq(JX_STR_AT(b.last_write, "metadata", "resourceVersion"),
                     JX_STR_AT(before, "metadata", "resourceVersion"));
    check_stored(&b, "{agentVersion: v1, summary: {gpus: 2, layout: a}}");
    bench_done(&b);
}

Test(status_writer, a_write_to_an_outdated_version_waits_for_the_watch)
{
    struct bench b;
    bench_publish(&b, "{agentVersion: v1}");
    see(&b);
    auto_json json_t *body = yaml("metadata: {labels: {a: b}}");
    const struct kc_write w = {.body = body, .how = KC_MERGE};
    cr_assert_eq(kc_patch(b.server, b.scope, &device, &w, NULL, NULL), 0);
    put(&b, "{agentVersion: v2}");
    auto_err struct err e = {0};
    cr_expect_eq(step(&b, &e), -(int)ERR_CONFLICT);
    see(&b);
    step_good(&b);
    check_stored(&b, "{agentVersion: v2}");
    bench_done(&b);
}

Test(status_writer, it_reads_its_own_writes_before_the_watch_brings_them)
{
    struct bench b;
    bench_publish(&b, "{agentVersion: v1}");
    step_good(&b); /* the watch has not brought the last write */
    cr_expect_eq(kc_fake_calls(b.server, KC_UPDATE), 1);
    put(&b, "{agentVersion: v2}");
    step_good(&b);
    put(&b, "{agentVersion: v1}");
    step_good(&b);
    cr_expect_eq(kc_fake_calls(b.server, KC_UPDATE), 3, "back to what the stale view shows");
    check_stored(&b, "{agentVersion: v1}");
    bench_done(&b);
}

Test(status_writer, what_somebody_else_wrote_is_put_right)
{
    struct bench b;
    bench_publish(&b, "{agentVersion: v1, summary: {gpus: 2}}");
    see(&b);
    auto_json json_t *body = yaml("status: {agentVersion: null, summary: {gpus: 99, more: 1}}");
    const struct kc_write w = {.body = body, .how = KC_MERGE};
    cr_assert_eq(kc_patch(b.server, b.scope, &device_status, &w, NULL, NULL), 0);
    see(&b);
    step_good(&b);
    check_stored(&b, "{agentVersion: v1, summary: {gpus: 2}}");
    bench_done(&b);
}

Test(status_writer, a_device_made_anew_behind_its_back_is_not_written_by_mistake)
{
    struct bench b;
    bench_publish(&b, "{agentVersion: v1}");
    see(&b);
    cr_assert_eq(kc_remove(b.server, b.scope, &device, /* if_uid= */ NULL, NULL), 0);
    auto_json json_t *body = yaml("{apiVersion: gpu.cleave.dev/v1alpha1, kind: Device,"
                                  " metadata: {name: n1}}");
    const struct kc_write w = {.body = body};
    const struct kc_target kind = {.res = &resource_devices};
    cr_assert_eq(kc_create(b.server, b.scope, &kind, &w, NULL, NULL), 0);
    put(&b, "{agentVersion: v2}");
    auto_err struct err e = {0};
    cr_expect_lt(step(&b, &e), 0);
    auto_json json_t *obj = stored(&b);
    cr_expect_null(json_object_get(obj, "status"), "the other object was written");
    see(&b);
    step_good(&b);
    check_stored(&b, "{agentVersion: v2}");
    bench_done(&b);
}

/* What the informer sees once the server's data was put back to how it was at version 1. */
static void restore(struct bench *b)
{
    auto_json json_t *obj = stored(b);
    auto_json json_t *older = json_deep_copy(obj);
    (void)json_object_del(older, "status");
    (void)json_object_set_new(json_object_get(older, "metadata"), "resourceVersion",
                              json_string("1"));
    struct object *o = NULL;
    cr_assert_eq(object_new(&own_device_type, older, &o, NULL), 0);
    auto_object_list struct object_list all = {0};
    *XPUSH(all.items, all.count) = o;
    auto_store_deltas struct store_deltas deltas = {0};
    store_replace(informer_store(b->inf), &all, "1", &deltas);
}

Test(status_writer, what_a_restored_server_has_lost_is_written_again)
{
    struct bench b;
    bench_publish(&b, "{agentVersion: v1}");
    see(&b);
    size_t before = kc_fake_calls(b.server, KC_UPDATE);
    restore(&b);
    auto_err struct err e = {0};
    (void)!step(&b, &e); /* the server's own data is as it was: it refuses */
    cr_expect_eq(kc_fake_calls(b.server, KC_UPDATE), before + 1);
    cr_expect_str_eq(JX_STR_AT(b.last_write, "metadata", "resourceVersion"), "1");
    bench_done(&b);
}

Test(status_writer, a_deleted_device_comes_back)
{
    struct bench b;
    bench_publish(&b, "{agentVersion: v1}");
    see(&b);
    cr_assert_eq(kc_remove(b.server, b.scope, &device, /* if_uid= */ NULL, NULL), 0);
    put(&b, "{agentVersion: v2}");
    auto_err struct err e = {0};
    cr_expect_eq(step(&b, &e), -(int)ERR_NOT_FOUND);
    see(&b);
    step_good(&b);
    see(&b);
    step_good(&b);
    check_stored(&b, "{agentVersion: v2}");
    bench_done(&b);
}

/* The answer to a creation is lost, or another one was faster: the watch brings the object. */
Test(status_writer, a_device_that_is_there_already_is_no_error)
{
    struct bench b;
    bench_init(&b, (struct kc_fault_plan){KC_FAULT_TIMEOUT_AFTER_COMMIT, .at = 1});
    put(&b, "{agentVersion: v1}");
    see(&b);
    auto_err struct err e = {0};
    cr_expect_lt(step(&b, &e), 0);
    step_good(&b);
    cr_expect_eq(kc_fake_calls(b.server, KC_CREATE), 2);
    see(&b);
    step_good(&b);
    check_stored(&b, "{agentVersion: v1}");
    bench_done(&b);
}

/* --- Torture: the whole life with the k-th call failing --- */

static void settle(struct bench *b)
{
    for (int i = 0; i < 8; i++) {
        auto_err struct err e = {0};
        (void)!step(b, &e);
        see(b);
    }
}

static bool life(enum kc_fault fault, int at)
{
    struct bench b;
    bench_init(&b, (struct kc_fault_plan){fault, .at = at});
    see(&b);
    put(&b, "{agentVersion: v1, summary: {gpus: 1}}");
    settle(&b);
    put(&b, "{agentVersion: v1, summary: {gpus: 2}, bootID: x}");
    settle(&b);
    check_stored(&b, "{agentVersion: v1, summary: {gpus: 2}, bootID: x}");
    size_t calls = kc_fake_calls(b.server, KC_UPDATE) + kc_fake_calls(b.server, KC_CREATE);
    settle(&b);
    cr_expect_eq(kc_fake_calls(b.server, KC_UPDATE) + kc_fake_calls(b.server, KC_CREATE), calls,
                 "%s at %d: still writing", kc_fault_name(fault), at);
    cr_expect_eq(kc_fake_writes(b.server), 3, "%s at %d", kc_fault_name(fault), at);
    bool fired = kc_fault_fired(b.kc);
    bench_done(&b);
    return fired;
}

Test(status_writer, whichever_call_fails_the_status_arrives_and_rest_follows)
{
    static const enum kc_fault faults[] = {KC_FAULT_CONFLICT,  KC_FAULT_TIMEOUT_AFTER_COMMIT,
                                           KC_FAULT_THROTTLED, KC_FAULT_RESET,
                                           KC_FAULT_EXPIRED,   KC_FAULT_UNAVAILABLE};
    for (size_t i = 0; i < ARRAY_LEN(faults); i++) {
        int at = 1;
        while (at < 200 && life(faults[i], at))
            at++;
        cr_expect_gt(at, 1, "%s never happened", kc_fault_name(faults[i]));
        cr_expect_lt(at, 200);
    }
}
