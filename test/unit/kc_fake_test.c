/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <pthread.h>
#include <string.h>

#include "base/jx.h"
#include "base/sb.h"
#include "base/xalloc.h"

#include "kubeclient/fake/fake.h"

/* What only the fake can do; everything else is in kc_conformance_test. */

static const struct kc_resource pods = {"", "v1", "pods", "Pod", true};
static const struct kc_resource nodes = {"", "v1", "nodes", "Node", false};
static const struct kc_resource maps = {"", "v1", "configmaps", "ConfigMap", true};

#define WALL_MS 1700000000000

struct rig {
    struct clock *clock;
    struct kc *kc;
    struct scope *s;
};

static struct rig rig_new(void)
{
    struct rig r = {.clock = clock_fake_new(WALL_MS), .s = scope_new(NULL, 120000)};
    r.kc = kc_fake_new(r.clock);
    return r;
}

static void rig_done(struct rig *r)
{
    (void)kc_free(r->kc);
    (void)scope_free(r->s);
    (void)clock_free(r->clock);
}
#define auto_rig __attribute__((cleanup(rig_done)))

static json_t *create(struct rig *r, const struct kc_resource *res, const char *name,
                      json_t *more_take)
{
    auto_err struct err e = {0};
    auto_json json_t *body = json_pack("{s:s,s:s,s:{s:s}}", "apiVersion", "v1", "kind", res->kind,
                                       "metadata", "name", name);
    if (more_take)
        (void)json_object_update_recursive(body, more_take);
    json_decref(more_take);
    struct kc_target t = {.res = res, .ns = res->namespaced ? "ns" : NULL};
    json_t *obj = NULL;
    cr_assert_eq(kc_create(r->kc, r->s, &t, &(struct kc_write){.body = body}, &obj, &e), 0, "%s",
                 e.msg);
    return obj;
}

static bool exists(struct rig *r, const struct kc_resource *res, const char *name)
{
    struct kc_target t = {.res = res, .ns = res->namespaced ? "ns" : NULL, .name = name};
    return kc_get(r->kc, r->s, &t, NULL, NULL) == 0;
}

static int note(void *arg, enum kc_change change, const json_t *obj, struct err *e)
{
    (void)e;
    const char *name = JX_STR_AT(obj, "metadata", "name");
    const char *version = JX_STR_AT(obj, "metadata", "resourceVersion");
    sb_addf(arg, "%c%s ", "+~-!"[change], name ? name : version);
    return 0;
}

static int watch_from(struct rig *r, const char *version, struct sb *seen, struct err *e)
{
    struct kc_target t = {.res = &maps};
    struct kc_watch_opts o = {.resource_version = version};
    return kc_watch(r->kc, r->s, &t, &o, note, seen, e);
}

/* json_pack gives NULL for texts from outside that are missing or no UTF-8. */
Test(kc_fake, a_write_without_a_body_is_refused)
{
    auto_rig struct rig r = rig_new();
    auto_err struct err e = {0};
    const struct kc_target t = {.res = &nodes, .name = "n1"};
    const struct kc_write nothing = {.how = KC_MERGE};
    cr_expect_eq(kc_create(r.kc, r.s, &t, &nothing, NULL, &e), -(int)ERR_INVALID);
    cr_expect_str_eq(err_msg(&e), "Node n1 cannot be written: a text in it is missing or no UTF-8");
    cr_expect_eq(kc_update(r.kc, r.s, &t, &nothing, NULL, NULL), -(int)ERR_INVALID);
    cr_expect_eq(kc_patch(r.kc, r.s, &t, &nothing, NULL, NULL), -(int)ERR_INVALID);
}

Test(kc_fake, draining_watch_ends_when_it_has_caught_up)
{
    auto_rig struct rig r = rig_new();
    auto_err struct err e = {0};
    auto_sb struct sb seen = SB_INIT(1000);
    kc_fake_watch_drains(r.kc, true);
    auto_json json_t *a = create(&r, &maps, "a", NULL);
    auto_json json_t *b = create(&r, &maps, "b", NULL);
    cr_assert_eq(watch_from(&r, JX_STR_AT(a, "metadata", "resourceVersion"), &seen, &e), 0);
    cr_expect_str_eq(sb_str(&seen), "+b ");
    sb_reset(&seen);
    cr_assert_eq(watch_from(&r, JX_STR_AT(b, "metadata", "resourceVersion"), &seen, &e), 0);
    cr_expect_str_eq(sb_str(&seen), "");
}

Test(kc_fake, compaction_expires_older_versions_only)
{
    auto_rig struct rig r = rig_new();
    auto_err struct err e = {0};
    auto_sb struct sb seen = SB_INIT(1000);
    kc_fake_watch_drains(r.kc, true);
    auto_json json_t *a = create(&r, &maps, "a", NULL);
    auto_json json_t *b = create(&r, &maps, "b", NULL);
    kc_fake_compact(r.kc);
    cr_expect_eq(watch_from(&r, JX_STR_AT(a, "metadata", "resourceVersion"), &seen, &e),
                 -ERR_EXPIRED);
    cr_expect_eq(e.http_status, 410);
    cr_expect_eq(watch_from(&r, JX_STR_AT(b, "metadata", "resourceVersion"), &seen, &e), 0);
}

Test(kc_fake, bookmark_carries_the_version_of_other_kinds_changes)
{
    auto_rig struct rig r = rig_new();
    auto_err struct err e = {0};
    auto_sb struct sb seen = SB_INIT(1000);
    kc_fake_watch_drains(r.kc, true);
    auto_json json_t *a = create(&r, &maps, "a", NULL);
    auto_json json_t *n = create(&r, &nodes, "n", NULL);
    kc_fake_bookmark(r.kc);
    cr_assert_eq(watch_from(&r, JX_STR_AT(a, "metadata", "resourceVersion"), &seen, &e), 0);
    auto_free char *want = xasprintf("!%s ", JX_STR_AT(n, "metadata", "resourceVersion"));
    cr_expect_str_eq(sb_str(&seen), want);
}

/* ---- a watch in a thread of its own ---- */

struct watcher {
    struct rig *r;
    struct scope *s;
    char *from;
    struct sb seen;
    struct err e;
    int rc;
    pthread_t thread;
    kc_change_fn *fn;
};

static void *run_watch(void *arg)
{
    struct watcher *w = arg;
    struct kc_target t = {.res = &maps};
    struct kc_watch_opts o = {.resource_version = w->from};
    w->rc = kc_watch(w->r->kc, w->s, &t, &o, w->fn, w, &w->e);
    return NULL;
}

/* Creates "begin" and watches from there. */
static void start(struct watcher *w, struct rig *r, kc_change_fn *fn)
{
    json_t *begin = create(r, &maps, "begin", NULL);
    *w = (struct watcher){.r = r,
                          .s = scope_new(r->s, -1),
                          .from = xstrdup(JX_STR_AT(begin, "metadata", "resourceVersion")),
                          .seen = SB_INIT(1000),
                          .fn = fn};
    json_decref(begin);
    cr_assert_eq(pthread_create(&w->thread, NULL, run_watch, w), 0);
}

static void watcher_done(struct watcher *w)
{
    (void)scope_free(w->s);
    sb_done(&w->seen);
    err_clear(&w->e);
    free(w->from);
}

static int note_and_close(void *arg, enum kc_change change, const json_t *obj, struct err *e)
{
    struct watcher *w = arg;
    TRY(note(&w->seen, change, obj, e));
    kc_fake_close_watches(w->r->kc);
    return 0;
}

Test(kc_fake, waiting_watch_wakes_for_a_change_and_ends_when_closed)
{
    auto_rig struct rig r = rig_new();
    struct watcher w;
    start(&w, &r, note_and_close);
    json_decref(create(&r, &maps, "a", NULL));
    (void)pthread_join(w.thread, NULL);
    cr_expect_eq(w.rc, 0, "%s", w.e.msg);
    cr_expect_str_eq(sb_str(&w.seen), "+a ");
    watcher_done(&w);
}

static int note_and_cancel(void *arg, enum kc_change change, const json_t *obj, struct err *e)
{
    struct watcher *w = arg;
    TRY(note(&w->seen, change, obj, e));
    scope_cancel(w->s);
    return 0;
}

Test(kc_fake, waiting_watch_ends_with_its_scope)
{
    auto_rig struct rig r = rig_new();
    struct watcher w;
    start(&w, &r, note_and_cancel);
    json_decref(create(&r, &maps, "a", NULL));
    (void)pthread_join(w.thread, NULL);
    cr_expect_eq(w.rc, -ERR_CANCELED);
    watcher_done(&w);
}

/* ---- deletion ---- */

static void remove_object(struct rig *r, const struct kc_resource *res, const char *name)
{
    auto_err struct err e = {0};
    struct kc_target t = {.res = res, .ns = res->namespaced ? "ns" : NULL, .name = name};
    cr_assert_eq(kc_remove(r->kc, r->s, &t, /* if_uid= */ NULL, &e), 0, "%s", e.msg);
}

static json_t *owned_by(const json_t *first, const json_t *second)
{
    json_t *refs = json_array();
    const json_t *const owners[] = {first, second};
    for (size_t i = 0; i < 2 && owners[i]; i++)
        (void)json_array_append_new(refs, json_pack("{s:s,s:s,s:s,s:s}", "apiVersion", "v1", "kind",
                                                    "Node", "name", "n", "uid",
                                                    JX_STR_AT(owners[i], "metadata", "uid")));
    return json_pack("{s:{s:o}}", "metadata", "ownerReferences", refs);
}

Test(kc_fake, dependants_go_with_their_last_owner)
{
    auto_rig struct rig r = rig_new();
    auto_json json_t *n1 = create(&r, &nodes, "n1", NULL);
    auto_json json_t *n2 = create(&r, &nodes, "n2", NULL);
    auto_json json_t *one = create(&r, &maps, "one", owned_by(n1, NULL));
    json_decref(create(&r, &maps, "grandchild", owned_by(one, NULL)));
    json_decref(create(&r, &maps, "both", owned_by(n1, n2)));
    remove_object(&r, &nodes, "n1");
    cr_expect_not(exists(&r, &maps, "one"));
    cr_expect_not(exists(&r, &maps, "grandchild"));
    cr_expect(exists(&r, &maps, "both"));
    remove_object(&r, &nodes, "n2");
    cr_expect_not(exists(&r, &maps, "both"));
}

Test(kc_fake, lingering_pod_keeps_its_name_until_its_kubelet_lets_go)
{
    auto_rig struct rig r = rig_new();
    auto_err struct err e = {0};
    kc_fake_pods_linger(r.kc, true);
    auto_json json_t *bound =
        create(&r, &pods, "bound", json_pack("{s:{s:s}}", "spec", "nodeName", "n1"));
    json_decref(create(&r, &pods, "pending", NULL));
    struct kc_target t = {.res = &pods, .ns = "ns", .name = "bound"};
    cr_assert_eq(kc_evict(r.kc, r.s, &t, JX_STR_AT(bound, "metadata", "uid"), &e), 0, "%s", e.msg);
    auto_json json_t *going = NULL;
    cr_assert_eq(kc_get(r.kc, r.s, &t, &going, &e), 0, "%s", e.msg);
    cr_expect_str_eq(JX_STR_AT(going, "metadata", "deletionTimestamp"), "2023-11-14T22:13:50Z");
    remove_object(&r, &pods, "pending");
    cr_expect_not(exists(&r, &pods, "pending"));
    struct kc_remove_opts now = {.has_grace = true};
    cr_assert_eq(kc_remove_with(r.kc, r.s, &t, &now, &e), 0, "%s", e.msg);
    cr_expect_not(exists(&r, &pods, "bound"));
}

static bool refuse_b(void *arg, const char *ns, const char *name)
{
    (void)arg;
    cr_expect_str_eq(ns, "ns");
    return strcmp(name, "b") != 0;
}

Test(kc_fake, refused_eviction_names_the_disruption_budget)
{
    auto_rig struct rig r = rig_new();
    auto_err struct err e = {0};
    json_decref(create(&r, &pods, "a", NULL));
    json_decref(create(&r, &pods, "b", NULL));
    kc_fake_on_evict(r.kc, refuse_b, NULL);
    struct kc_target a = {.res = &pods, .ns = "ns", .name = "a"};
    struct kc_target b = {.res = &pods, .ns = "ns", .name = "b"};
    cr_expect_eq(kc_evict(r.kc, r.s, &a, /* if_uid= */ NULL, &e), 0);
    cr_expect_eq(kc_evict(r.kc, r.s, &b, /* if_uid= */ NULL, &e), -ERR_THROTTLED);
    cr_expect_str_eq(e.reason, "DisruptionBudget");
    cr_expect(exists(&r, &pods, "b"));
}

/* ---- hooks and counters ---- */

struct hook {
    enum kc_verb verb;
    bool after;
    int count;
};

static int fail_there(void *arg, const struct kc_call *call, struct err *e)
{
    struct hook *h = arg;
    if (call->verb != h->verb || call->after != h->after)
        return 0;
    h->count++;
    return err_set(e, ERR_TIMEOUT, "hooked");
}

Test(kc_fake, hook_before_prevents_and_hook_after_loses_the_answer)
{
    for (int after = 0; after < 2; after++) {
        auto_rig struct rig r = rig_new();
        auto_err struct err e = {0};
        struct hook h = {.verb = KC_CREATE, .after = after};
        kc_fake_hook(r.kc, fail_there, &h);
        auto_json json_t *body = json_pack("{s:s,s:s,s:{s:s}}", "apiVersion", "v1", "kind", "Node",
                                           "metadata", "name", "n");
        json_t *obj = NULL;
        struct kc_target t = {.res = &nodes};
        cr_expect_eq(kc_create(r.kc, r.s, &t, &(struct kc_write){.body = body}, &obj, &e),
                     -ERR_TIMEOUT);
        cr_expect_null(obj);
        cr_expect_eq(h.count, 1);
        cr_expect_eq(exists(&r, &nodes, "n"), after == 1);
        cr_expect_eq(kc_fake_writes(r.kc), (size_t)after);
    }
}

Test(kc_fake, writes_and_calls_are_counted)
{
    auto_rig struct rig r = rig_new();
    auto_err struct err e = {0};
    auto_json json_t *a = create(&r, &maps, "a", NULL);
    struct kc_target t = {.res = &maps, .ns = "ns", .name = "a"};
    cr_assert_eq(kc_update(r.kc, r.s, &t, &(struct kc_write){.body = a}, NULL, &e), 0, "%s", e.msg);
    cr_expect_eq(kc_fake_writes(r.kc), 1, "an update that changes nothing is no write");
    cr_expect_eq(kc_fake_calls(r.kc, KC_UPDATE), 1);
    cr_expect_eq(kc_fake_calls(r.kc, KC_GET), 0);
}

Test(kc_fake, canceled_scope_does_nothing)
{
    auto_rig struct rig r = rig_new();
    auto_err struct err e = {0};
    json_decref(create(&r, &maps, "a", NULL));
    scope_cancel(r.s);
    struct kc_target t = {.res = &maps, .ns = "ns", .name = "a"};
    cr_expect_eq(kc_remove(r.kc, r.s, &t, NULL, &e), -ERR_CANCELED);
    cr_expect_eq(kc_fake_writes(r.kc), 1);
}

Test(kc_fake, result_may_be_changed_without_harm)
{
    auto_rig struct rig r = rig_new();
    auto_err struct err e = {0};
    auto_json json_t *a = create(&r, &maps, "a", NULL);
    (void)json_object_clear(json_object_get(a, "metadata"));
    cr_expect(exists(&r, &maps, "a"));
    auto_json json_t *again = NULL;
    struct kc_target t = {.res = &maps, .ns = "ns", .name = "a"};
    cr_assert_eq(kc_get(r.kc, r.s, &t, &again, &e), 0);
    cr_expect_str_eq(JX_STR_AT(again, "metadata", "name"), "a");
}

Test(kc_fake, history_is_bounded)
{
    auto_rig struct rig r = rig_new();
    auto_err struct err e = {0};
    auto_sb struct sb seen = SB_INIT(1000);
    kc_fake_watch_drains(r.kc, true);
    auto_json json_t *a = create(&r, &maps, "a", NULL);
    struct kc_target t = {.res = &maps, .ns = "ns", .name = "a"};
    for (int i = 0; i < 2001; i++) {
        auto_json json_t *body = json_pack("{s:{s:o}}", "data", "k", json_sprintf("%d", i));
        struct kc_write w = {.body = body, .how = KC_MERGE};
        cr_assert_eq(kc_patch(r.kc, r.s, &t, &w, NULL, &e), 0, "%s", e.msg);
    }
    cr_expect_eq(watch_from(&r, JX_STR_AT(a, "metadata", "resourceVersion"), &seen, &e),
                 -ERR_EXPIRED);
}
