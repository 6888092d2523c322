/* SPDX-License-Identifier: Apache-2.0 */
#include "reconcilers/migconfig.h"

#include <assert.h>
#include <string.h>

#include "base/num.h"
#include "base/text.h"
#include "base/xalloc.h"

#include "partition/mig_name.h"
#include "reconcilers/node_ledger.h"
#include "service/conditions.h"
#include "service/resources.h"

enum { LOOK_GAP_MS = 1000 };

/* --- Pure --- */

static bool is_mine(const struct config_facts *f, const char *name)
{
    const struct object *owner = node_view_config(f->configs, name);
    return owner && strcmp(object_name(owner), object_name(f->config)) == 0;
}

static char *alias_fault(const struct config_facts *f)
{
    const struct config_record *c = object_payload(f->config);
    for (size_t i = 0; i < c->spec.n_aliases; i++) {
        const char *alias = c->spec.aliases[i];
        if (!is_mine(f, alias))
            return xasprintf("the alias \"%s\" belongs to MIGConfig %s; choose another", alias,
                             object_name(node_view_config(f->configs, alias)));
    }
    return NULL;
}

static bool is_filter(const char *text)
{
    const char *colon = strchr(text, ':');
    auto_free char *device = xstrndup(text, colon ? (size_t)(colon - text) : strlen(text));
    uint32_t id;
    return num_parse_hex32(device, &id, NULL) == 0 &&
           (!colon || num_parse_hex32(colon + 1, &id, NULL) == 0);
}

static char *entry_fault(const struct migconfig_entry *entry, size_t number)
{
    auto_err struct err e = {0};
    struct mig_name name;
    for (size_t i = 0; i < entry->n_filter; i++)
        if (!is_filter(entry->filter[i]))
            return xasprintf(".spec.devices[%zu].filter: \"%s\" is no PCI id", number,
                             entry->filter[i]);
    for (size_t i = 0; i < entry->n_mig_devices; i++)
        if (mig_name_parse(entry->mig_devices[i].key, &name, &e) < 0)
            return xasprintf(".spec.devices[%zu].migDevices: %s", number, err_msg(&e));
    return NULL;
}

static char *content_fault(const struct config_record *c)
{
    if (c->spec_error)
        return xstrdup(c->spec_error);
    for (size_t i = 0; i < c->spec.n_devices; i++) {
        char *fault = entry_fault(&c->spec.devices[i], i);
        if (fault)
            return fault;
    }
    return NULL;
}

static bool profile_uses(const struct config_facts *f, const struct object *profile)
{
    const struct profile_record *p = object_payload(profile);
    for (size_t i = 0; i < p->spec.n_devices; i++) {
        const struct gpuprofile_entry *entry = &p->spec.devices[i];
        if (entry->has_mig && entry->mig.config && is_mine(f, entry->mig.config))
            return true;
    }
    return false;
}

struct conclusion {
    enum kstatus state;
    const char *reason;
    char *message; /* owned */
};

static struct conclusion failed(const struct rollout_summary *s)
{
    assert(s->n_failures > 0 && s->n_failures <= s->count[PHASE_FAILED]);
    const struct gpuprofile_failure *f = &s->failures[0];
    return (struct conclusion){KSTATUS_STALLED, f->reason,
                               xasprintf("%s: %s", f->node, f->message ? f->message : "")};
}

/* The configuration's condition over its nodes. It has no counts: the profiles' status has them,
 * and each would cost a write for every node. */
static struct conclusion judge_nodes(const struct rollout_summary *s)
{
    if (s->count[PHASE_CHANGING])
        return (struct conclusion){KSTATUS_IN_PROGRESS, "Progressing",
                                   xstrdup("nodes that use it are in change")};
    if (s->count[PHASE_FAILED])
        return failed(s);
    if (s->count[PHASE_WAITING])
        return (struct conclusion){KSTATUS_IN_PROGRESS, "Waiting",
                                   xstrdup("nodes that use it wait for their turn")};
    if (s->count[PHASE_UP_TO_DATE])
        return (struct conclusion){KSTATUS_CURRENT, "Applied",
                                   xstrdup("every node that uses it has its layout")};
    return (struct conclusion){KSTATUS_CURRENT, "Accepted", xstrdup("no node uses it")};
}

void migconfig_plan(const struct config_facts *f, struct migconfig_status *ret)
{
    const struct config_record *c = object_payload(f->config);
    int64_t generation = object_generation(f->config);
    auto_free char *invalid = content_fault(c);
    auto_free char *conflict = invalid ? NULL : alias_fault(f);
    const char *fault = invalid ? invalid : conflict;
    const char *reason = invalid ? "Invalid" : conflict ? "Conflict" : "Accepted";
    struct conclusion v = fault ? (struct conclusion){KSTATUS_STALLED, reason, xstrdup(fault)}
                                : judge_nodes(f->summary);
    assert(v.reason && v.message);
    *ret = (struct migconfig_status){.observed_generation = generation, .has_used_by = true};
    for (size_t i = 0; i < f->profiles->count; i++)
        ret->used_by.gpuprofiles += profile_uses(f, f->profiles->items[i]);
    ret->used_by.nodes = (int64_t)f->nodes;
    conditions_copy(&ret->conditions, &c->status.conditions);
    (void)condition_set(&ret->conditions, "Accepted", fault ? CONDITION_FALSE : CONDITION_TRUE,
                        reason, fault ? fault : "the spec is valid", generation, f->now_ms);
    (void)conditions_set_kstatus(&ret->conditions, v.state, v.reason, v.message, generation,
                                 f->now_ms);
    free(v.message);
}

/* --- Observing --- */

static size_t labelled(struct context *ctx, const char *name)
{
    auto_object_list struct object_list nodes = {0};
    store_by_index(ctx->caches.nodes, INDEX_MIG_LABEL, name, &nodes);
    return nodes.count;
}

static size_t count_nodes(struct context *ctx, const struct config_facts *f)
{
    const struct config_record *c = object_payload(f->config);
    size_t n = labelled(ctx, object_name(f->config));
    for (size_t i = 0; i < c->spec.n_aliases; i++)
        if (is_mine(f, c->spec.aliases[i]))
            n += labelled(ctx, c->spec.aliases[i]);
    return n;
}

static bool is_used_on(const struct config_facts *f, const struct node_record *n)
{
    const char *label = records_mig_label(n);
    if (label && is_mine(f, label))
        return true;
    for (size_t i = 0; i < f->profiles->count; i++) {
        const struct profile_record *p = object_payload(f->profiles->items[i]);
        if (!p->spec_error && !object_is_deleting(f->profiles->items[i]) &&
            profile_uses(f, f->profiles->items[i]) &&
            label_selector_matches(&p->spec.node_selector, n->labels, n->n_labels))
            return true;
    }
    return false;
}

/* Number of nodes that must be in the ledger before its summary is complete. */
static size_t count_users(struct context *ctx, const struct config_facts *f)
{
    auto_object_list struct object_list devices = {0};
    size_t users = 0;
    store_list(ctx->caches.devices, &devices);
    for (size_t i = 0; i < devices.count; i++) {
        const struct object_key key = object_key(devices.items[i]);
        auto_object struct object *node = store_get(ctx->caches.nodes, &key);
        users += node && is_used_on(f, object_payload(node));
    }
    return users;
}

/* --- Reconciling --- */

static int publish(struct context *ctx, struct scope *s, const struct object *config,
                   const struct migconfig_status *new, struct err *e)
{
    const struct config_record *c = object_payload(config);
    const struct object_key key = object_key(config);
    auto_json json_t *from = migconfig_status_encode(&c->status);
    auto_json json_t *to = migconfig_status_encode(new);
    auto_json json_t *difference = NULL;
    jx_merge_diff(from, to, &difference);
    if (!difference)
        return 0;
    auto_json json_t *body =
        json_pack("{s:{s:s, s:s}, s:O}", "metadata", "uid", object_uid(config), "resourceVersion",
                  object_version(config), "status", difference);
    const struct kc_target target = {.res = &resource_migconfigs,
                                     .name = key.name,
                                     .subresource = "status"};
    const struct kc_write write = {.body = body, .how = KC_MERGE};
    auto_json json_t *written = NULL;
    if (kc_patch(ctx->kc, s, &target, &write, &written, e) < 0)
        return err_wrap(e, "writing the status of MIGConfig %s", key.name);
    expectations_wrote(ctx->config_writes, &key, ctx->caches.configs,
                       JX_STR_AT(written, "metadata", "resourceVersion"));
    return 0;
}

/* Milliseconds until the next reconcile may do something: a write is not in the cache yet, or so
 * many nodes use the configuration that its summary is rationed. 0: now. */
static int64_t wait_ms(struct context *ctx, const struct object_key *k)
{
    if (!expectations_met(ctx->config_writes, k))
        return EXPECTATIONS_RECHECK_MS;
    if (rollout_matched(ctx->config_ledger, k->name) <= ctx->many_nodes)
        return 0;
    return rollout_pace(ctx->config_ledger, k->name, clock_mono_ms(ctx->clk), LOOK_GAP_MS);
}

static int reconcile(void *self, struct scope *s, const struct object_key *k,
                     struct reconcile_result *result, struct err *e)
{
    struct context *ctx = self;
    auto_object struct object *config = store_get(ctx->caches.configs, k);
    if (!config) {
        expectations_forget(ctx->config_writes, k);
        rollout_forget_profile(ctx->config_ledger, k->name);
        return 0;
    }
    rollout_build(ctx->rollout, node_ledger_build, ctx);
    result->requeue_after_ms = wait_ms(ctx, k);
    if (result->requeue_after_ms)
        return 0;
    auto_object_list struct object_list configs = {0};
    auto_object_list struct object_list profiles = {0};
    node_view_configs(&ctx->caches, &configs);
    store_list(ctx->caches.profiles, &profiles);
    struct config_facts f = {.config = config,
                             .configs = &configs,
                             .profiles = &profiles,
                             .now_ms = clock_wall_ms(ctx->clk)};
    f.nodes = count_nodes(ctx, &f);
    auto_rollout_summary struct rollout_summary summary = {0};
    rollout_summary(ctx->config_ledger, k->name, rollout_edition_of(config), &summary);
    f.summary = &summary;
    if (summary.noted != count_users(ctx, &f)) {
        result->requeue_after_ms = EXPECTATIONS_RECHECK_MS;
        return 0;
    }
    auto_migconfig_status struct migconfig_status status = {0};
    migconfig_plan(&f, &status);
    return publish(ctx, s, config, &status, e);
}

/* --- Watches --- */

static void add_all(struct context *ctx, struct wq *out)
{
    auto_object_list struct object_list configs = {0};
    store_list(ctx->caches.configs, &configs);
    for (size_t i = 0; i < configs.count; i++) {
        const struct object_key key = object_key(configs.items[i]);
        wq_add(out, &key);
    }
}

/* Enqueues all configurations: names and aliases are shared among them, and there are few. */
static void map_config(void *self, const struct object *config, struct wq *out)
{
    const struct object_key key = object_key(config);
    wq_add(out, &key);
    add_all(self, out);
}

static void map_profile(void *self, const struct object *profile, struct wq *out)
{
    struct context *ctx = self;
    auto_object_list struct object_list configs = {0};
    store_list(ctx->caches.configs, &configs);
    for (size_t i = 0; i < configs.count; i++) {
        const struct object_key key = object_key(configs.items[i]);
        if (records_profile_names(object_payload(profile), configs.items[i]))
            wq_add(out, &key);
    }
}

static bool mig_label_changed(const struct object *before, const struct object *after)
{
    const char *was = before ? records_mig_label(object_payload(before)) : NULL;
    const char *is = after ? records_mig_label(object_payload(after)) : NULL;
    return !text_equal(was, is);
}

static void map_node(void *self, const struct object *node, struct wq *out)
{
    struct context *ctx = self;
    const char *label = records_mig_label(object_payload(node));
    auto_object_list struct object_list configs = {0};
    if (!label)
        return;
    store_list(ctx->caches.configs, &configs);
    for (size_t i = 0; i < configs.count; i++) {
        const struct object_key key = object_key(configs.items[i]);
        if (records_config_named(configs.items[i], label))
            wq_add(out, &key);
    }
}

struct controller *migconfig_controller_new(struct context *ctx)
{
    struct controller *c = controller_new("migconfig", reconcile, ctx, /* workers= */ 1, ctx->clk);
    ctx->config_queue = controller_queue(c);
    controller_watch(c, ctx->configs, predicate_generation, map_config);
    controller_watch(c, ctx->configs, /* keep= */ NULL, /* map= */ NULL);
    controller_watch(c, ctx->profiles, predicate_generation, map_profile);
    controller_watch(c, ctx->nodes, mig_label_changed, map_node);
    return c;
}
