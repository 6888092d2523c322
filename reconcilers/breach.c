/* SPDX-License-Identifier: Apache-2.0 */
#include "reconcilers/breach.h"

#include <string.h>

#include "base/log.h"
#include "base/rfc3339.h"
#include "base/xalloc.h"

#include "service/resources.h"

/* What a process finds at its start has mostly been told by the one before. */
enum { FRESH_MS = 60000 };

/* --- Telling --- */

struct telling {
    struct context *ctx;
    const char *node;
    const struct breach_record *const *news;
    size_t n;
};

/* A pod that was made since has the name of one that is gone. */
static bool is_of(const struct breach_record *b, const char *ns, const char *name,
                  const json_t *pod)
{
    const char *created = JX_STR_AT(pod, "metadata", "creationTimestamp");
    int64_t created_ms = 0;
    return strcmp(b->ns, ns) == 0 && strcmp(b->pod, name) == 0 && created &&
           rfc3339_parse(created, &created_ms, NULL) == 0 && created_ms <= b->since_ms;
}

static void tell(const struct telling *t, const struct breach_record *b, const char *uid)
{
    const struct event_about about = {.resource = &resource_pods,
                                      .ns = b->ns,
                                      .name = b->pod,
                                      .uid = uid};
    recorder_event_about(t->ctx->recorder, &about, /* warning= */ true, b->reason,
                         "container %s, on node %s: %s", b->container ? b->container : "not known",
                         t->node, b->message ? b->message : "");
    log_info("Told a Pod of a breach", kv("namespace", b->ns), kv("pod", b->pod),
             kv("node", t->node), kv("reason", b->reason));
}

static int on_pod(void *arg, const json_t *pod, struct err *e)
{
    (void)e;
    const struct telling *t = arg;
    const char *uid = JX_STR_AT(pod, "metadata", "uid");
    const char *ns = JX_STR_AT(pod, "metadata", "namespace");
    const char *name = JX_STR_AT(pod, "metadata", "name");
    for (size_t i = 0; uid && ns && name && i < t->n; i++)
        if (is_of(t->news[i], ns, name, pod))
            tell(t, t->news[i], uid);
    return 0;
}

static int tell_all(struct telling *t, struct scope *s, struct err *e)
{
    auto_free char *selector = xasprintf("spec.nodeName=%s", t->node);
    const struct kc_target target = {.res = &resource_pods};
    const struct kc_list_opts opts = {.fields = selector, .page_size = 200};
    if (kc_list_each(t->ctx->kc, s, &target, &opts, on_pod, t, /* ret_version= */ NULL, e) < 0)
        return err_wrap(e, "listing the pods of Node %s", t->node);
    return 0;
}

static int reconcile(void *self, struct scope *s, const struct object_key *k,
                     struct reconcile_result *result, struct err *e)
{
    (void)result;
    struct context *ctx = self;
    struct telling t = {.ctx = ctx, .node = k->name};
    auto_object struct object *device = store_get(ctx->caches.devices, k);
    if (!device) {
        breach_ledger_forget(ctx->breaches, k->name);
        return 0;
    }
    auto_free const struct breach_record **news =
        breach_ledger_news(ctx->breaches, k->name, object_payload(device),
                           clock_wall_ms(ctx->clk) - FRESH_MS, &t.n);
    t.news = news;
    if (t.n)
        TRY(tell_all(&t, s, e));
    breach_ledger_note(ctx->breaches, k->name, object_payload(device));
    return 0;
}

/* --- Watches --- */

static bool has_breaches(const struct object *o)
{
    const struct device_record *d = o ? object_payload(o) : NULL;
    for (size_t i = 0; d && i < d->n_cards; i++)
        if (d->cards[i].n_breaches)
            return true;
    return false;
}

static bool keep(const struct object *before, const struct object *after)
{
    return has_breaches(after) || (!after && has_breaches(before));
}

struct controller *breach_controller_new(struct context *ctx)
{
    /* One worker, so that only one thread uses the ledger. */
    struct controller *c = controller_new("breach", reconcile, ctx, /* workers= */ 1, ctx->clk);
    controller_watch(c, ctx->devices, keep, /* map= */ NULL);
    return c;
}
