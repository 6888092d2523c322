/* SPDX-License-Identifier: Apache-2.0 */
#include "scheduler_support.h"

#include <criterion/criterion.h>

#include "base/jx.h"
#include "base/log.h"
#include "base/xalloc.h"

#include "kubeclient/client.h"
#include "scheduler/node_cards.h"
#include "scheduler/node_words.h"
#include "scheduler/quota.h"

struct clock *town_clk;
struct scope *town_scope;
struct kc *town_kc;
struct view *town_view;
struct sb town_grown;

static struct informer *devices, *nodes, *pods, *quotas;

static void on_grown(void *arg, const char *node)
{
    (void)arg;
    sb_addf(&town_grown, "%s ", node);
}

static struct informer *follow(const struct object_type *type)
{
    return informer_new(town_kc, &(struct informer_opts){.type = type, .clk = town_clk});
}

void town_set_up(void)
{
    log_setup(LOG_ERROR, LOG_LOGFMT, 2);
    town_clk = clock_fake_new(0);
    town_scope = scope_new(NULL, -1);
    town_kc = kc_fake_new(town_clk);
    kc_fake_watch_drains(town_kc, true);
    town_grown = SB_INIT(1000);
    town_view = view_new(town_clk, on_grown, NULL);
    devices = follow(&node_cards_type);
    nodes = follow(&node_words_type);
    pods = follow(&pod_shares_type);
    quotas = follow(&quota_type);
    view_follow(town_view, &(struct view_caches){devices, nodes, pods, quotas});
}

void town_tear_down(void)
{
    (void)informer_free(devices);
    (void)informer_free(nodes);
    (void)informer_free(pods);
    (void)informer_free(quotas);
    (void)view_free(town_view);
    (void)kc_free(town_kc);
    (void)scope_free(town_scope);
    (void)clock_free(town_clk);
    sb_done(&town_grown);
}

void town_see(void)
{
    auto_err struct err e = {0};
    for (int i = 0; i < 2; i++) {
        (void)!informer_step(devices, town_scope, /* ret_wait_ms= */ NULL, &e);
        (void)!informer_step(nodes, town_scope, /* ret_wait_ms= */ NULL, &e);
        (void)!informer_step(pods, town_scope, /* ret_wait_ms= */ NULL, &e);
        (void)!informer_step(quotas, town_scope, /* ret_wait_ms= */ NULL, &e);
    }
}

static json_t *object(const char *fmt, ...) PRINTF_LIKE(1, 2);
static json_t *object(const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    auto_free char *text = xvasprintf(fmt, ap);
    va_end(ap);
    json_error_t why;
    json_t *o = json_loads(text, 0, &why);
    cr_assert(o, "%s: %s", why.text, text);
    return o;
}

/* What it is there. New reference. */
static json_t *create(const struct kc_target *t, json_t *take)
{
    auto_err struct err e = {0};
    auto_json json_t *o = take;
    json_t *made = NULL;
    cr_assert_eq(kc_create(town_kc, town_scope, t, &(struct kc_write){.body = o}, &made, &e), 0,
                 "%s", err_msg(&e));
    return made;
}

/* A status is written on a path of its own. */
static void create_device(const char *name, json_t *status_take)
{
    auto_err struct err e = {0};
    struct kc_target t = {.res = node_cards_type.resource};
    auto_json json_t *status = json_pack("{s:o}", "status", status_take);
    const struct kc_write w = {.body = status, .how = KC_MERGE};
    json_decref(
        create(&t, object("{\"apiVersion\": \"gpu.cleave.dev/v1alpha1\", \"kind\": \"Device\", "
                          "\"metadata\": {\"name\": \"%s\"}}",
                          name)));
    t.name = name;
    t.subresource = "status";
    cr_assert_eq(kc_patch(town_kc, town_scope, &t, &w, NULL, &e), 0, "%s", err_msg(&e));
}

#define CARD                                                                                       \
    "\"vendor\": \"nvidia\", \"model\": \"NVIDIA H100 80GB HBM3\", \"numaNode\": 0, "              \
    "\"memoryMiB\": 81559, \"healthy\": true, \"mode\": \"native\""
#define FRACTIONAL                                                                                 \
    CARD ", \"fractional\": {\"memoryMiB\": 81559, \"computePercent\": 100, \"maxShares\": 10, "   \
         "\"memory\": \"library\", \"compute\": \"none\"}"

void town_node(const char *name, int fractional, int whole, const char *more)
{
    auto_sb struct sb cards = SB_INIT(10000);
    for (int i = 0; i < fractional + whole; i++)
        sb_addf(&cards, "%s{\"uuid\": \"%s-%d\", \"index\": %d, %s%s}", i ? ", " : "", name, i, i,
                i < fractional ? FRACTIONAL : CARD, i ? "" : more);
    create_device(name, object("{\"devices\": [%s]}", sb_str(&cards)));
}

void town_say(const char *name, const char *annotations)
{
    const struct kc_target t = {.res = node_words_type.resource, .name = name};
    auto_json json_t *was = NULL;
    auto_err struct err e = {0};
    auto_json json_t *o =
        object("{\"apiVersion\": \"v1\", \"kind\": \"Node\", \"metadata\": {\"name\": \"%s\", "
               "\"annotations\": {%s}}}",
               name, annotations);
    const struct kc_write w = {.body = o, .how = KC_MERGE};
    if (kc_get(town_kc, town_scope, &t, &was, NULL) < 0)
        json_decref(create(&(struct kc_target){.res = t.res}, json_incref(o)));
    else
        cr_assert_eq(kc_patch(town_kc, town_scope, &t, &w, NULL, &e), 0, "%s", err_msg(&e));
}

json_t *town_pod(const char *name, const char *annotations, const char *spec)
{
    return object("{\"apiVersion\": \"v1\", \"kind\": \"Pod\", \"metadata\": {\"name\": \"%s\", "
                  "\"namespace\": \"ns\", \"uid\": \"uid-%s\", \"annotations\": {%s}}, \"spec\": "
                  "{%s}}",
                  name, name, annotations, spec);
}

json_t *town_create(const char *name, const char *annotations, const char *spec)
{
    const struct kc_target t = {.res = pod_shares_type.resource, .ns = "ns"};
    return create(&t, town_pod(name, annotations, spec));
}

json_t *town_assumed(const char *uid, const char *node)
{
    view_begin(town_view, NULL);
    auto_free char *text = view_confirm(town_view, uid, node);
    view_end(town_view);
    return text ? json_loads(text, 0, NULL) : NULL;
}

void town_bind(const json_t *pod, const char *node)
{
    const char *name = JX_STR_AT(pod, "metadata", "name");
    const struct kc_target t = {.res = pod_shares_type.resource,
                                .ns = "ns",
                                .name = name,
                                .subresource = "binding"};
    json_t *annotations = town_assumed(JX_STR_AT(pod, "metadata", "uid"), node);
    cr_assert(annotations);
    json_decref(
        create(&t, json_pack("{s:{s:s,s:o},s:{s:s,s:s}}", "metadata", "name", name, "annotations",
                             annotations, "target", "kind", "Node", "name", node)));
}

static void delete (const struct object_type *type, const char *name)
{
    auto_err struct err e = {0};
    const struct kc_target t = {.res = type->resource, .ns = "ns", .name = name};
    cr_assert_eq(kc_remove(town_kc, town_scope, &t, NULL, &e), 0, "%s", err_msg(&e));
}

void town_delete(const char *pod)
{
    delete (&pod_shares_type, pod);
}

void town_delete_quota(const char *name)
{
    delete (&quota_type, name);
}

void town_quota(const char *name, const char *hard)
{
    const struct kc_target t = {.res = quota_type.resource, .ns = "ns"};
    json_decref(
        create(&t, object("{\"apiVersion\": \"v1\", \"kind\": \"ResourceQuota\", \"metadata\": "
                          "{\"name\": \"%s\", \"namespace\": \"ns\"}, \"spec\": {\"hard\": {%s}}}",
                          name, hard)));
}
