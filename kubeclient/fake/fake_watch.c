/* SPDX-License-Identifier: Apache-2.0 */
#include "kubeclient/fake/fake_watch.h"

#include <assert.h>
#include <inttypes.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/xalloc.h"

#include "kubeclient/fake/fake_filter.h"
#include "kubeclient/fake/fake_rules.h"

/* A watch in progress, as its own thread sees it. */
struct watching {
    struct fake_watches *all;
    struct fake_filter filter;
    kc_change_fn *fn;
    void *arg;
    struct fake_watcher watcher;
    uint64_t seen_version, seen_bookmark, seen_close;
};

/* The next step of a watch. */
struct step {
    enum { STEP_WAIT, STEP_DELIVER, STEP_SKIP, STEP_END } what;
    enum kc_change change;
    json_t *obj; /* STEP_DELIVER: a reference */
};

static json_t *make_bookmark(const struct kc_resource *r, uint64_t version, bool initial_end)
{
    auto_free char *text = xasprintf("%" PRIu64, version);
    auto_free char *api =
        *r->group ? xasprintf("%s/%s", r->group, r->version) : xstrdup(r->version);
    json_t *obj = json_pack("{s:s,s:s,s:{s:s}}", "kind", r->kind, "apiVersion", api, "metadata",
                            "resourceVersion", text);
    if (initial_end)
        (void)json_object_set_new(json_object_get(obj, "metadata"), "annotations",
                                  json_pack("{s:s}", "k8s.io/initial-events-end", "true"));
    return obj;
}

/* An object as it was before, with the version of the change that removed it from the selection. */
static json_t *last_seen(const struct fake_event *ev)
{
    json_t *obj = json_deep_copy(ev->before);
    (void)json_object_set(json_object_get(obj, "metadata"), "resourceVersion",
                          json_object_get(json_object_get(ev->obj, "metadata"), "resourceVersion"));
    return obj;
}

/* The event as the filter shows it (apiserver cacher: an object that begins or ceases to match is
 * ADDED or DELETED). */
static int look_at(const struct watching *w, const struct fake_event *ev, struct step *ret,
                   struct err *e)
{
    bool is = false;
    bool was = false;
    if (ev->change != KC_DELETED)
        TRY(fake_filter_matches(&w->filter, ev->obj, &is, e));
    if (ev->before)
        TRY(fake_filter_matches(&w->filter, ev->before, &was, e));
    if (!is && !was) {
        ret->what = STEP_SKIP;
        return 0;
    }
    ret->what = STEP_DELIVER;
    ret->change = is ? (was ? KC_MODIFIED : KC_ADDED) : KC_DELETED;
    ret->obj = is ? json_deep_copy(ev->obj) : last_seen(ev);
    return 0;
}

static int next_step(struct watching *w, struct step *ret, struct err *e)
{
    struct fake_watches *all = w->all;
    HOLD(all->mu);
    *ret = (struct step){.what = STEP_WAIT};
    if (all->close_count != w->seen_close) {
        ret->what = STEP_END;
        return 0;
    }
    const struct fake_event *ev = fake_store_next_event(all->store, w->seen_version);
    if (ev) {
        w->seen_version = ev->version;
        if (ev->kind == fake_store_kind(all->store, w->filter.t->res))
            return look_at(w, ev, ret, e);
        ret->what = STEP_SKIP;
    } else if (all->bookmark_count != w->seen_bookmark) {
        w->seen_bookmark = all->bookmark_count;
        *ret = (struct step){.what = STEP_DELIVER,
                             .change = KC_BOOKMARK,
                             .obj = make_bookmark(w->filter.t->res, all->store->version,
                                                  /* initial_end= */ false)};
    } else if (all->drains) {
        ret->what = STEP_END;
    }
    return 0;
}

static int wait_for_event(struct watching *w, struct scope *s, struct err *e)
{
    TRY(scope_wait_readable(s, w->watcher.wake, e));
    eventfd_t n;
    (void)eventfd_read(w->watcher.wake, &n);
    return 0;
}

static int follow(struct watching *w, struct scope *s, struct err *e)
{
    for (;;) {
        TRY(scope_check(s, e));
        struct step step = {0};
        TRY(next_step(w, &step, e));
        auto_json json_t *obj = step.obj;
        if (step.what == STEP_END)
            return 0;
        if (step.what == STEP_DELIVER)
            TRY(w->fn(w->arg, step.change, obj, e));
        else if (step.what == STEP_WAIT)
            TRY(wait_for_event(w, s, e));
    }
}

/* Delivers the present state as ADDED, and sets the version to go on from. */
static int begin(struct watching *w, const struct kc_watch_opts *o, struct err *e)
{
    uint64_t from = 0;
    TRY(fake_filter_version(o->resource_version, &from, e));
    auto_json json_t *items = json_array();
    auto_json json_t *bookmark = NULL;
    {
        HOLD(w->all->mu);
        TRY(fake_filter_check_reached(w->all->store, from, e));
        if (from && !o->send_initial_events) {
            w->seen_version = from;
            if (from < w->all->store->compacted)
                return fake_fail(e, 410, "Expired", NULL,
                                 "too old resource version: %" PRIu64 " (%" PRIu64 ")", from,
                                 w->all->store->compacted);
            return 0;
        }
        TRY(fake_filter_snapshot(w->all->store, &w->filter, items, &w->seen_version, e));
        /* Servers with WatchList treat a watch from nowhere as one (SetListOptionsDefaults). */
        bookmark = make_bookmark(w->filter.t->res, w->seen_version, /* initial_end= */ true);
    }
    for (size_t i = 0; i < json_array_size(items); i++)
        TRY(w->fn(w->arg, KC_ADDED, json_array_get(items, i), e));
    return w->fn(w->arg, KC_BOOKMARK, bookmark, e);
}

static void enlist(struct watching *w)
{
    w->watcher.wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    assert(w->watcher.wake >= 0);
    HOLD(w->all->mu);
    w->seen_close = w->all->close_count;
    w->watcher.next = w->all->first;
    w->all->first = &w->watcher;
}

static void delist(struct watching *w)
{
    HOLD(w->all->mu);
    struct fake_watcher **link = &w->all->first;
    while (*link != &w->watcher) {
        assert(*link); /* it was enlisted */
        link = &(*link)->next;
    }
    *link = w->watcher.next;
    (void)close(w->watcher.wake);
}

static int watch_until(struct watching *w, struct scope *parent, const struct kc_watch_opts *o,
                       struct err *e)
{
    auto_scope struct scope *s = scope_new(parent, o->timeout_s > 0 ? o->timeout_s * 1000LL : -1);
    TRY(begin(w, o, e));
    int rc = follow(w, s, e);
    if (rc != -(int)ERR_TIMEOUT || scope_left_ms(parent) == 0)
        return rc;
    if (e)
        err_clear(e); /* the server's time, not the caller's: a clean end */
    return 0;
}

int fake_watches_run(struct fake_watches *all, struct scope *s, const struct kc_target *t,
                     const struct kc_watch_opts *o, kc_change_fn *fn, void *arg, struct err *e)
{
    struct watching w = {.all = all,
                         .filter = {.t = t, .labels = o->labels, .fields = o->fields},
                         .fn = fn,
                         .arg = arg};
    enlist(&w);
    int rc = watch_until(&w, s, o, e);
    delist(&w);
    return rc;
}

void fake_watches_wake(struct fake_watches *all)
{
    for (struct fake_watcher *w = all->first; w; w = w->next)
        (void)eventfd_write(w->wake, 1);
}
