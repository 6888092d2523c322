/* SPDX-License-Identifier: Apache-2.0 */
#include "reconcilers/eviction.h"

#include <assert.h>
#include <string.h>

#include "base/log.h"
#include "base/rfc3339.h"
#include "base/sb.h"
#include "base/xalloc.h"

#include "partition/vendor.h"
#include "reconcilers/node_view.h"
#include "reconcilers/standing.h"
#include "service/resources.h"

enum {
    ORDER_BYTES = 512, /* most bytes of an order in an Event */
    BLOCKED_RETRY_MS = 5000,
    OUTDATED_RETRY_MS = 1000, /* delay until the node's reconciler has replaced an outdated order */
    /* pods are not watched, and a pod that was left alone may be orphaned meanwhile */
    LOOK_AGAIN_MS = 30000,
};

/* --- Pure --- */

static bool may_evict(const struct device_spec *spec, const struct device_spec *policy,
                      const struct card_record *card, int64_t now_ms)
{
    const struct device_want *want = device_spec_want(spec, card->uuid);
    const struct device_want *still = device_spec_want(policy, card->uuid);
    if (!card->draining || !want || !still || !standing_same_want(want, still))
        return false;
    if (card->drain_deadline_ms && now_ms >= card->drain_deadline_ms)
        return false;
    return want->has_rollout && want->rollout.drain == API_DRAIN_EVICT;
}

const struct drain_pod **eviction_pods(const struct device_record *device,
                                       const struct device_spec *policy, int64_t now_ms,
                                       size_t *ret_n)
{
    const struct drain_pod **pods = NULL;
    *ret_n = 0;
    for (size_t i = 0; i < device->n_cards; i++) {
        const struct card_record *card = &device->cards[i];
        for (size_t k = 0; may_evict(&device->spec, policy, card, now_ms) && k < card->n_drain_pods;
             k++)
            *XPUSH(pods, *ret_n) = &card->drain_pods[k];
    }
    return pods;
}

/* The API server's times are whole seconds, so a pod of the same second counts as older. */
static bool is_older(const json_t *pod, int64_t since_ms)
{
    const char *created = JX_STR_AT(pod, "metadata", "creationTimestamp");
    int64_t created_ms;
    return !since_ms || !created || rfc3339_parse(created, &created_ms, NULL) < 0 ||
           created_ms <= since_ms;
}

static bool is_same(const char *a, const char *b)
{
    return a && b && strcmp(a, b) == 0;
}

bool eviction_is_meant(const json_t *pod, const struct drain_pod *const *pods, size_t n)
{
    const char *uid = JX_STR_AT(pod, "metadata", "uid");
    const char *ns = JX_STR_AT(pod, "metadata", "namespace");
    const char *name = JX_STR_AT(pod, "metadata", "name");
    for (size_t i = 0; i < n; i++) {
        const struct drain_pod *p = pods[i];
        bool has_uid = p->uid && *p->uid;
        bool has_name = p->ns && p->name;
        bool same_name = is_same(p->ns, ns) && is_same(p->name, name);
        if (has_uid ? is_same(p->uid, uid) && (same_name || !has_name)
                    : same_name && is_older(pod, p->since_ms))
            return true;
    }
    return false;
}

/* kubectl drain decides by the same two marks (kubectl pkg/drain/filters.go). */
const char *eviction_futile(const json_t *pod)
{
    if (JX_AT(pod, "metadata", "annotations", "kubernetes.io/config.mirror"))
        return "is started by the kubelet from a file, which would start it again";
    const json_t *owners = JX_AT(pod, "metadata", "ownerReferences");
    size_t i;
    const json_t *owner;
    json_array_foreach(owners, i, owner) {
        const char *kind = JX_STR_AT(owner, "kind");
        if (json_is_true(JX_AT(owner, "controller")) && kind && strcmp(kind, "DaemonSet") == 0)
            return "belongs to a DaemonSet, which would start it again";
    }
    return NULL;
}

/* --- The node's pods --- */

struct pod {
    char *ns, *name, *uid;
    const char *futile; /* why eviction would not help, a literal; NULL: it would */
};

struct search {
    const struct drain_pod *const *pods;
    size_t n_pods;
    struct pod *found;
    size_t n_found;
};

static void search_done(struct search *w)
{
    for (size_t i = 0; i < w->n_found; i++) {
        free(w->found[i].ns);
        free(w->found[i].name);
        free(w->found[i].uid);
    }
    free(w->found);
}

/* A pod that is terminating already is not evicted again. */
static int on_pod(void *arg, const json_t *obj, struct err *e)
{
    (void)e;
    struct search *w = arg;
    const char *uid = JX_STR_AT(obj, "metadata", "uid");
    const char *ns = JX_STR_AT(obj, "metadata", "namespace");
    const char *name = JX_STR_AT(obj, "metadata", "name");
    if (!uid || !ns || !name || JX_AT(obj, "metadata", "deletionTimestamp") ||
        !eviction_is_meant(obj, w->pods, w->n_pods))
        return 0;
    *XPUSH(w->found, w->n_found) = (struct pod){
        .ns = xstrdup(ns),
        .name = xstrdup(name),
        .uid = xstrdup(uid),
        .futile = eviction_futile(obj),
    };
    return 0;
}

static int find_pods(struct context *ctx, struct scope *s, const char *node, struct search *w,
                     struct err *e)
{
    auto_free char *selector = xasprintf("spec.nodeName=%s", node);
    const struct kc_target target = {.res = &resource_pods};
    const struct kc_list_opts opts = {.fields = selector, .page_size = 200};
    if (kc_list_each(ctx->kc, s, &target, &opts, on_pod, w, /* ret_version= */ NULL, e) < 0)
        return err_wrap(e, "listing the pods of Node %s", node);
    return 0;
}

/* --- Evicting --- */

/* The order that the node's pods make way for: "GPUProfile p wants GPU 0 as 3g.40gb*2". Caller
 * frees. */
static char *order_text(const struct object *device)
{
    const struct device_record *d = object_payload(device);
    auto_sb struct sb out = SB_INIT(ORDER_BYTES);
    for (size_t i = 0; i < d->n_cards; i++) {
        const struct card_record *card = &d->cards[i];
        const struct device_want *want = device_spec_want(&d->spec, card->uuid);
        if (!card->draining || !want)
            continue;
        if (out.len)
            sb_add(&out, ", ");
        if (want->has_source)
            sb_addf(&out, "%s %s wants ",
                    want->source.kind == API_SOURCE_PROFILE ? "GPUProfile" : "the node's label",
                    want->source.name);
        sb_addf(&out, "%s GPU %u as %s", vendor_title(card->vendor), card->index,
                api_mode_names[want->mode]);
        for (size_t k = 0; k < want->mig.n_profiles; k++)
            sb_addf(&out, " %s*%lld", want->mig.profiles[k].profile,
                    (long long)want->mig.profiles[k].count);
    }
    return sb_take(&out);
}

static void tell_pod(struct context *ctx, const struct pod *p, const struct object *device)
{
    const char *node = object_name(device);
    auto_free char *order = order_text(device);
    const struct event_about about = {.resource = &resource_pods,
                                      .ns = p->ns,
                                      .name = p->name,
                                      .uid = p->uid};
    recorder_event_about(ctx->recorder, &about, /* warning= */ false, "Evicted",
                         "it uses a GPU on %s whose layout must change: %s", node, order);
    log_info("Evicted Pod", kv("namespace", p->ns), kv("pod", p->name), kv("node", node));
}

/* Such a pod would be back at once, for ever. The card's condition reports that the card waits for
 * this pod; this Event names what a person can do about it. */
static void report_futile(struct context *ctx, const struct object *device, const struct pod *p)
{
    recorder_event(
        ctx->recorder, device, /* warning= */ true, "EvictionFutile",
        "Pod %s/%s keeps a GPU from changing and is not evicted: it %s; end it there, or keep it "
        "off this node",
        p->ns, p->name, p->futile);
}

/* *blocked: a PodDisruptionBudget refused the eviction; it is tried again later. */
static int evict(struct context *ctx, struct scope *s, const struct object *device,
                 const struct pod *p, bool *blocked, struct err *e)
{
    assert(p->uid && !p->futile);
    auto_err struct err why = {0};
    const struct kc_target target = {.res = &resource_pods, .ns = p->ns, .name = p->name};
    int rc = kc_evict(ctx->kc, s, &target, p->uid, &why);
    if (rc == 0) {
        tell_pod(ctx, p, device);
        return 0;
    }
    if (rc == -(int)ERR_NOT_FOUND)
        return 0;
    /* The name belongs to a new pod by now, or two writers changed the same budget at once. The
     * next list of the node's pods shows which. */
    if (rc == -(int)ERR_CONFLICT) {
        *blocked = true;
        return 0;
    }
    if (rc != -(int)ERR_THROTTLED) {
        (void)err_move(e, &why);
        return err_wrap(e, "evicting Pod %s/%s", p->ns, p->name);
    }
    *blocked = true;
    recorder_event(ctx->recorder, device, /* warning= */ true, "EvictionBlocked", "Pod %s/%s: %s",
                   p->ns, p->name, err_msg(&why));
    return 0;
}

/* A pod that cannot be evicted does not stop the others: the first error is returned after all were
 * tried. */
static int evict_all(struct context *ctx, struct scope *s, const struct object *device,
                     const struct search *w, bool *blocked, struct err *e)
{
    auto_err struct err first = {0};
    for (size_t i = 0; i < w->n_found; i++) {
        auto_err struct err why = {0};
        if (w->found[i].futile) {
            report_futile(ctx, device, &w->found[i]);
            continue;
        }
        if (evict(ctx, s, device, &w->found[i], blocked, &why) < 0 && !first.kind)
            (void)err_move(&first, &why);
    }
    return first.kind ? err_move(e, &first) : 0;
}

/* True while the status belongs to an older spec: the pods that it names may block nothing of this
 * one. */
static bool is_status_behind(const struct object *device)
{
    const struct device_record *d = object_payload(device);
    return d->observed_generation != object_generation(device);
}

/* An order stays in the spec until the node's reconciler replaces it. One that policy no longer
 * contains (a new leader finds such orders, or this thread when it is faster) must not cost a pod's
 * life. True: pods block only such orders. */
static bool is_order_outdated(struct context *ctx, const struct object *device,
                              const struct drain_pod ***ret, size_t *ret_n)
{
    const struct device_record *d = object_payload(device);
    int64_t now_ms = clock_wall_ms(ctx->clk);
    free(eviction_pods(d, &d->spec, now_ms, ret_n));
    if (*ret_n == 0)
        return false;
    auto_node_view struct node_view v = {0};
    node_view_read(&ctx->caches, object_name(device), &v);
    *ret = eviction_pods(d, &v.result.spec, now_ms, ret_n);
    assert(!*ret == (*ret_n == 0));
    return *ret_n == 0;
}

static int reconcile(void *self, struct scope *s, const struct object_key *k,
                     struct reconcile_result *result, struct err *e)
{
    struct context *ctx = self;
    auto_object struct object *device = store_get(ctx->caches.devices, k);
    if (!device || is_status_behind(device))
        return 0; /* the agent's next report enqueues the node again */
    size_t n;
    auto_free const struct drain_pod **pods = NULL;
    if (is_order_outdated(ctx, device, &pods, &n)) {
        result->requeue_after_ms = OUTDATED_RETRY_MS;
        return 0;
    }
    if (n == 0)
        return 0;
    struct search w __attribute__((cleanup(search_done))) = {.pods = pods, .n_pods = n};
    TRY(find_pods(ctx, s, k->name, &w, e));
    bool blocked = false;
    TRY(evict_all(ctx, s, device, &w, &blocked, e));
    result->requeue_after_ms = blocked ? BLOCKED_RETRY_MS : LOOK_AGAIN_MS;
    return 0;
}

/* --- Watches --- */

static bool drains(const struct object *o)
{
    const struct device_record *d = o ? object_payload(o) : NULL;
    for (size_t i = 0; d && i < d->n_cards; i++)
        if (d->cards[i].draining)
            return true;
    return false;
}

static bool drain_changed(const struct object *before, const struct object *after)
{
    (void)before;
    return drains(after);
}

struct controller *eviction_controller_new(struct context *ctx)
{
    struct controller *c = controller_new("eviction", reconcile, ctx, ctx->workers, ctx->clk);
    controller_await_writes(c, ctx->spec_writes);
    controller_watch(c, ctx->devices, drain_changed, /* map= */ NULL);
    return c;
}
