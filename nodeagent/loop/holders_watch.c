/* SPDX-License-Identifier: Apache-2.0 */
#include "nodeagent/loop/holders_watch.h"

#include <assert.h>
#include <string.h>

#include "base/log.h"
#include "base/xalloc.h"

#include "nodeagent/kubelet/pod_resources.h"
#include "nodeagent/offer/device_id.h"
#include "nodeagent/report/neighbours.h"

enum {
    SETTLE_MS = 20, /* the kubelet shows a grant 1.4 to 13 ms after Allocate */
    SETTLE_CAP_MS = 1000,
    WATCH_MS = 10000,   /* while pods hold devices: nothing reports their end */
    VERIFY_MS = 1000,   /* by then the kubelet has taken in a list */
    VERIFY_CHECKS = 10, /* readings between two looks at what the kubelet grants */
    RETRY_MS = 1000,    /* while the kubelet does not answer */
    /* A kubelet serves its list before the API server has given it its pods again (kubernetes
     * pkg/kubelet/kubelet.go). */
    YOUNG_MS = 30000,
};

struct holders_watch {
    struct holders_watch_deps d;
    struct pod_resources *pods;
    struct reactor_timer *timer; /* for the next question */
    struct reactor_timer *verify_timer;
    int64_t due_mono_ms; /* when the next question is due; 0: not set */
    int64_t settle_ms;
    struct holders holders;
    struct neighbours neighbours;
    char *unread; /* why the holders are not known; NULL: they are */
    char *checkpoint_path;
    struct checkpoint checkpoint;
    bool has_checkpoint;      /* it was read, or there was none */
    char *checkpoint_trouble; /* NULL: it is readable */
    int64_t since_mono_ms;    /* when this watch started */
    size_t n_unlisted;        /* devices of the checkpoint that the newest list lacks */
    int64_t unlisted_ms;
    unsigned n_checks;
};

/* Asks in ms, unless a question is due earlier: grants in quick succession must not postpone it. */
static void ask_in(struct holders_watch *w, int64_t ms)
{
    assert(ms >= 0);
    int64_t due = clock_mono_ms(w->d.clk) + ms;
    if (w->due_mono_ms && w->due_mono_ms <= due)
        return;
    w->due_mono_ms = due;
    reactor_timer_set(w->timer, ms);
}

static void ask_no_more(struct holders_watch *w)
{
    w->due_mono_ms = 0;
    reactor_timer_unset(w->timer);
}

/* Plans the next question: soon after a grant, then less often; now and then while pods hold
 * devices. */
static void plan_question(struct holders_watch *w)
{
    assert(w->settle_ms >= SETTLE_MS && w->settle_ms <= SETTLE_CAP_MS);
    assert(w->unlisted_ms >= SETTLE_MS && w->unlisted_ms <= WATCH_MS);
    if (!w->holders.known) {
        ask_in(w, RETRY_MS);
    } else if (holders_await(&w->holders)) {
        ask_in(w, w->settle_ms);
        w->settle_ms = w->settle_ms * 2 > SETTLE_CAP_MS ? SETTLE_CAP_MS : w->settle_ms * 2;
    } else if (w->n_unlisted) {
        ask_in(w, w->unlisted_ms);
        w->unlisted_ms = w->unlisted_ms * 2 > WATCH_MS ? WATCH_MS : w->unlisted_ms * 2;
    } else if (w->holders.n_listed) {
        ask_in(w, WATCH_MS);
    } else {
        ask_no_more(w);
    }
}

static bool is_ours(const struct holders_watch *w, const char *id)
{
    return device_table_device(w->d.table, id) || strncmp(id, "GPU-", 4) == 0 ||
           slot_of_id(id) >= 0; /* or was */
}

static const struct holder *find_holder(const struct holder *list, size_t n, const char *id)
{
    for (size_t i = 0; i < n; i++)
        if (strcmp(list[i].id, id) == 0)
            return &list[i];
    return NULL;
}

/* NOLINTBEGIN(readability-non-const-parameter): XPUSH counts up */

/* Names the pod if the list before did. */
static void add_unlisted(const struct holders_watch *w, const struct checkpoint_device *d,
                         const char *id, const char *resource, struct holder **list, size_t *n)
{
    const struct holder *old = find_holder(w->holders.listed, w->holders.n_listed, id);
    *XPUSH(*list, *n) = (struct holder){
        .id = xstrdup(id),
        .ns = xstrdup(old ? old->ns : NULL),
        .pod = xstrdup(old ? old->pod : NULL),
        .uid = xstrdup(old && old->pod ? NULL : d->uid),
        .container = xstrdup(d->container),
        .resource = xstrdup(resource),
    };
}

/* NOLINTEND(readability-non-const-parameter) */

static void read_checkpoint(struct holders_watch *w)
{
    auto_err struct err e = {0};
    int rc = checkpoint_refresh(&w->checkpoint, w->checkpoint_path, &e);
    if (rc < 0 && (!w->checkpoint_trouble || strcmp(w->checkpoint_trouble, err_msg(&e)) != 0))
        log_warn("Could not read what the kubelet has on record", kv_err(&e));
    xstr_set(&w->checkpoint_trouble, rc < 0 ? err_msg(&e) : NULL);
    w->has_checkpoint |= rc == 0;
}

/* True while the kubelet or this agent is so new that the kubelet may not know its pods yet. */
static bool is_young(const struct holders_watch *w, int64_t now_mono_ms)
{
    int64_t renewed = pod_resources_renewed_mono_ms(w->pods);
    return now_mono_ms < (renewed > w->since_mono_ms ? renewed : w->since_mono_ms) + YOUNG_MS;
}

/* Adds devices that the checkpoint has and the list lacks: their pods hold them, too. When the
 * kubelet answers a list and knows all pods, it removes ended ones from its record, and writes the
 * record when a plugin sends a list. An agent that does not serve the kubelet cannot cause that, so
 * it trusts the file for a while only. */
static void add_checkpoint(struct holders_watch *w, int64_t asked_mono_ms, struct holder **list,
                           size_t *n)
{
    size_t n_unlisted = 0;
    if (!w->d.plugin && !is_young(w, asked_mono_ms)) {
        w->n_unlisted = 0;
        return;
    }
    read_checkpoint(w);
    for (size_t i = 0; i < w->checkpoint.n; i++) {
        const struct checkpoint_device *d = &w->checkpoint.devices[i];
        auto_free char *translated = device_table_translate(w->d.table, d->id);
        const char *id = translated ? translated : d->id;
        if ((!translated && !is_ours(w, id)) || find_holder(*list, *n, id))
            continue;
        add_unlisted(w, d, id, translated ? "" : d->resource, list, n);
        n_unlisted++;
    }
    if (n_unlisted != w->n_unlisted)
        w->unlisted_ms = SETTLE_MS;
    w->n_unlisted = n_unlisted;
    if (n_unlisted && w->d.plugin)
        device_plugin_repeat(w->d.plugin);
}

static void take_list(struct holders_watch *w, const struct pod_device *list, size_t n,
                      int64_t asked_mono_ms)
{
    struct holder *held = NULL;
    size_t n_held = 0;
    for (size_t i = 0; i < n; i++) {
        char *translated = device_table_translate(w->d.table, list[i].id);
        if (!translated && !is_ours(w, list[i].id))
            continue;
        *XPUSH(held, n_held) = (struct holder){
            .id = translated ? translated : xstrdup(list[i].id),
            .ns = xstrdup(list[i].ns),
            .pod = xstrdup(list[i].pod),
            .container = xstrdup(list[i].container),
            .resource = xstrdup(translated ? "" : list[i].resource),
        };
    }
    free(TAKE(w->unread));
    add_checkpoint(w, asked_mono_ms, &held, &n_held);
    int64_t renewed_mono_ms = pod_resources_renewed_mono_ms(w->pods);
    if (renewed_mono_ms != INT64_MIN && asked_mono_ms < renewed_mono_ms + YOUNG_MS)
        holders_keep(&w->holders, &held, &n_held);
    if (holders_list(&w->holders, held, n_held, asked_mono_ms))
        w->d.fn(w->d.arg, HOLDERS_CHANGED);
}

static void listed(void *arg, const struct pod_device *list, size_t n, int64_t asked_mono_ms,
                   const struct err *err)
{
    struct holders_watch *w = arg;
    if (!err) {
        take_list(w, list, n, asked_mono_ms);
    } else {
        if (!w->unread || strcmp(w->unread, err_msg(err)) != 0)
            log_warn("Could not read which pods hold devices", kv_err(err));
        xstr_set(&w->unread, err_msg(err));
        bool news = w->holders.known;
        holders_unknown(&w->holders);
        if (news)
            w->d.fn(w->d.arg, HOLDERS_CHANGED);
    }
    plan_question(w);
    if (!err)
        w->d.fn(w->d.arg, HOLDERS_LISTED);
}

static void met(void *arg, const struct pod_container *list, size_t n)
{
    struct holders_watch *w = arg;
    auto_neighbours struct neighbours now = {0};
    for (size_t i = 0; i < n; i++)
        neighbours_add(&now, list[i].ns, list[i].pod, list[i].container);
    if (neighbours_equal(&now, &w->neighbours))
        return;
    neighbours_done(&w->neighbours);
    w->neighbours = now;
    now = (struct neighbours){0};
    w->d.fn(w->d.arg, HOLDERS_NEIGHBOURS);
}

static void on_timer(void *arg)
{
    struct holders_watch *w = arg;
    w->due_mono_ms = 0;
    pod_resources_ask(w->pods);
}

/* Verifies some time after each registration. */
static void verify(void *arg)
{
    struct holders_watch *w = arg;
    pod_resources_ask_granted(w->pods);
}

static void granted(void *arg, const struct plugin_granted *all, size_t n)
{
    struct holders_watch *w = arg;
    assert(w->d.plugin); /* only its registrations are verified */
    if (device_plugin_verify(w->d.plugin, all, n))
        reactor_timer_set(w->verify_timer, VERIFY_MS);
}

void holders_watch_verify(struct holders_watch *w)
{
    reactor_timer_set(w->verify_timer, VERIFY_MS);
}

void holders_watch_ask(struct holders_watch *w)
{
    pod_resources_ask(w->pods);
}

void holders_watch_check(struct holders_watch *w)
{
    bool may_change = !w->d.plugin || !holders_none(&w->holders);
    if (may_change || is_young(w, clock_mono_ms(w->d.clk)))
        holders_watch_ask(w);
    /* A plugin that was killed leaves its socket, so nothing tells that the kubelet dropped it. */
    if (w->d.plugin && ++w->n_checks % VERIFY_CHECKS == 0)
        pod_resources_ask_granted(w->pods);
}

void holders_watch_grant(struct holders_watch *w, const char *const *ids, size_t n)
{
    holders_grant(&w->holders, ids, n, clock_mono_ms(w->d.clk));
    w->settle_ms = SETTLE_MS;
    plan_question(w);
    w->d.fn(w->d.arg, HOLDERS_CHANGED);
}

const struct holders *holders_watch_get(const struct holders_watch *w)
{
    return &w->holders;
}

const struct checkpoint *holders_watch_checkpoint(const struct holders_watch *w)
{
    return w->has_checkpoint ? &w->checkpoint : NULL;
}

const struct neighbours *holders_watch_neighbours(const struct holders_watch *w)
{
    return &w->neighbours;
}

struct holders_watch *holders_watch_new(const struct holders_watch_deps *d)
{
    assert(d->reactor && d->clk && d->kubelet_dir && d->table && d->fn);
    struct holders_watch *w = xmalloc(sizeof(*w));
    *w = (struct holders_watch){.d = *d,
                                .settle_ms = SETTLE_MS,
                                .unlisted_ms = SETTLE_MS,
                                .since_mono_ms = clock_mono_ms(d->clk)};
    auto_free char *path = xasprintf("%s/pod-resources/kubelet.sock", d->kubelet_dir);
    const struct pod_resources_options o = {
        .reactor = d->reactor,
        .clk = d->clk,
        .path = path,
        .fn = listed,
        .granted_fn = granted,
        .pods_fn = met,
        .arg = w,
    };
    w->checkpoint_path = xasprintf("%s/device-plugins/kubelet_internal_checkpoint", d->kubelet_dir);
    w->pods = pod_resources_new(&o);
    w->timer = reactor_timer_new(d->reactor, on_timer, w);
    w->verify_timer = reactor_timer_new(d->reactor, verify, w);
    ask_in(w, 0);
    return w;
}

struct holders_watch *holders_watch_free(struct holders_watch *w)
{
    if (!w)
        return NULL;
    w->pods = pod_resources_free(w->pods);
    (void)reactor_timer_free(w->timer);
    (void)reactor_timer_free(w->verify_timer);
    holders_done(&w->holders);
    neighbours_done(&w->neighbours);
    free(w->unread);
    checkpoint_done(&w->checkpoint);
    free(w->checkpoint_path);
    free(w->checkpoint_trouble);
    free(w);
    return NULL;
}
