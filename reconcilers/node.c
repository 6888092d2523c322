/* SPDX-License-Identifier: Apache-2.0 */
#include "reconcilers/node.h"

#include <assert.h>
#include <string.h>

#include "base/log.h"
#include "base/xalloc.h"

#include "api/kinds.h"
#include "reconcilers/device_spec.h"
#include "reconcilers/maps.h"
#include "reconcilers/node_labels.h"
#include "reconcilers/node_ledger.h"
#include "reconcilers/node_resources.h"
#include "reconcilers/records/node_taint.h"
#include "reconcilers/records/shared_parts.h"
#include "reconcilers/serving.h"
#include "reconcilers/taint_policy.h"
#include "service/resources.h"

/* --- The Node --- */

/* All maps are in the body even when they are empty: without them, server-side apply would remove
 * whole maps, with every entry that has no manager. A kubelet does not own the entries with which
 * it registered its Node (status is not tracked on create; structured-merge-diff merge/update.go,
 * addBackDanglingItems). */
static json_t *node_body(const struct node_view *v, json_t *labels, json_t *resources)
{
    assert(v->node && json_is_object(labels) && json_is_object(resources));
    return json_pack("{s:s, s:s, s:{s:s, s:s, s:s, s:O}, s:{s:O, s:O}}", "apiVersion", "v1", "kind",
                     "Node", "metadata", "name", object_name(v->node_object), "uid",
                     object_uid(v->node_object), "resourceVersion", object_version(v->node_object),
                     "labels", labels, "status", "capacity", resources, "allocatable", resources);
}

static int apply_node(struct context *ctx, struct scope *s, const struct object_key *k,
                      const json_t *body, struct err *e)
{
    const struct kc_target target = {.res = &resource_nodes,
                                     .name = k->name,
                                     .subresource = "status"};
    const struct kc_write write = {.body = body,
                                   .how = KC_APPLY,
                                   .manager = MANAGER_NODE,
                                   .force = true};
    auto_json json_t *written = NULL;
    if (kc_patch(ctx->kc, s, &target, &write, &written, e) < 0)
        return err_wrap(e, "applying labels and resources of Node %s", k->name);
    expectations_wrote(ctx->node_writes, k, ctx->caches.nodes,
                       JX_STR_AT(written, "metadata", "resourceVersion"));
    log_info("Applied Node", kv("node", k->name));
    return 0;
}

/* True when the label's state deserves an Event: when the state changed, and when it stayed with
 * another cause, because the next mistake in the label is also a failure. The previous process has
 * reported a state from before this one. */
static bool is_news(struct context *ctx, const struct node_view *v, const struct label_state *st,
                    const char *label)
{
    const char *was = records_label(v->node->labels, v->node->n_labels, LABEL_MIG_CONFIG_STATE);
    auto_free char *text = xasprintf("%s: %s: %s: %s", st->value, label,
                                     st->reason ? st->reason : "", st->message ? st->message : "");
    enum told_news news = told_note(ctx->label_told, object_name(v->node_object), text);
    return news == TOLD_OTHER || !was || strcmp(was, st->value) != 0;
}

/* Reports the state in an Event; the Node has the label for it now, or had it before. */
static void report_label(struct context *ctx, const struct node_view *v,
                         const struct label_state *st)
{
    const char *label = records_mig_label(v->node);
    if (!st->value || !label) {
        told_forget(ctx->label_told, object_name(v->node_object));
        return;
    }
    if (strcmp(st->value, MIG_STATE_PENDING) == 0 || !is_news(ctx, v, st, label))
        return;
    if (strcmp(st->value, MIG_STATE_SUCCESS) == 0)
        recorder_event(ctx->recorder, v->node_object, /* warning= */ false, "MIGConfigApplied",
                       "the cards have the layout of %s=%s", LABEL_MIG_CONFIG, label);
    else
        recorder_event(ctx->recorder, v->node_object, /* warning= */ true,
                       st->reason ? st->reason : "MIGConfigFailed", "%s=%s: %s", LABEL_MIG_CONFIG,
                       label, st->message ? st->message : "");
}

static void tell_refused(const struct object_key *k, const struct node_view *v)
{
    if (v->device && v->device->n_refused)
        log_warn("Refused labels that an agent may not set", kv("node", k->name),
                 kv("label", v->device->refused), kv_int("count", (int64_t)v->device->n_refused));
    if (v->device && v->device->n_refused_resources)
        log_warn("Refused resources that an agent may not offer", kv("node", k->name),
                 kv("resource", v->device->refused_resource),
                 kv_int("count", (int64_t)v->device->n_refused_resources));
}

static void tell_left(const struct object_key *k, const struct node_view *v)
{
    size_t n = node_labels_left(v);
    if (n)
        log_info("Left labels to the feature discovery that has them", kv("node", k->name),
                 kv_int("count", (int64_t)n));
}

/* next: the spec that is about to be ordered, or was ordered and is not acknowledged; NULL:
 * none. */
static int keep_node(struct context *ctx, struct scope *s, const struct object_key *k,
                     const struct node_view *v, const struct device_spec *next, struct err *e)
{
    auto_label_state struct label_state state = {0};
    node_labels_state(v, &state);
    auto_json json_t *labels = node_labels_wanted(v, state.value);
    auto_json json_t *resources = node_resources_wanted(v, next);
    tell_refused(k, v);
    if (!node_labels_stand(v->node, labels) || !node_resources_stand(v->node, resources)) {
        auto_json json_t *body = node_body(v, labels, resources);
        TRY(apply_node(ctx, s, k, body, e));
        tell_left(k, v);
    }
    report_label(ctx, v, &state);
    return 0;
}

/* --- Device.spec --- */

/* Releases the spec from all field managers; an empty spec orders nothing. */
static int clear_spec(struct context *ctx, struct scope *s, const struct kc_target *target,
                      const json_t *seen, json_t **ret_cleared, struct err *e)
{
    auto_json json_t *body =
        json_pack("{s:{s:s, s:s}, s:n}", "metadata", "uid", JX_STR_AT(seen, "metadata", "uid"),
                  "resourceVersion", JX_STR_AT(seen, "metadata", "resourceVersion"), "spec");
    const struct kc_write write = {.body = body, .how = KC_MERGE, .manager = MANAGER_CONTROLLER};
    log_warn("Cleared what others wrote into the spec of Device", kv("device", target->name));
    return kc_patch(ctx->kc, s, target, &write, ret_cleared, e);
}

static void set_version(json_t *body, const json_t *seen)
{
    (void)json_object_set(json_object_get(body, "metadata"), "resourceVersion",
                          (json_t *)(uintptr_t)JX_AT(seen, "metadata", "resourceVersion"));
}

static int apply_spec(struct context *ctx, struct scope *s, const struct object_key *k,
                      json_t *body, struct err *e)
{
    assert(JX_AT(body, "metadata", "uid") && JX_AT(body, "metadata", "resourceVersion"));
    const struct kc_target target = {.res = &resource_devices, .name = k->name};
    const struct kc_write write = {.body = body,
                                   .how = KC_APPLY,
                                   .manager = MANAGER_CONTROLLER,
                                   .force = true};
    auto_json json_t *written = NULL;
    if (kc_patch(ctx->kc, s, &target, &write, &written, e) < 0)
        return err_wrap(e, "applying the spec of Device %s", k->name);
    if (!device_spec_says_only(written, body)) {
        auto_json json_t *cleared = NULL;
        TRY(clear_spec(ctx, s, &target, written, &cleared, e));
        set_version(body, cleared);
        json_decref(TAKE(written));
        TRY(kc_patch(ctx->kc, s, &target, &write, &written, e));
    }
    expectations_wrote(ctx->spec_writes, k, ctx->caches.devices,
                       JX_STR_AT(written, "metadata", "resourceVersion"));
    log_info("Applied Device", kv("device", k->name));
    return 0;
}

/* --- The taint --- */

/* The patch holds all taints of the Node as just read, and its version. core/v1 NodeSpec.taints is
 * an atomic list without a merge key, so only this way other writers' taints stay as they are. */
static int write_taint(struct context *ctx, struct scope *s, const struct object_key *k,
                       bool wanted, bool *ret_written, struct err *e)
{
    const struct kc_target target = {.res = &resource_nodes, .name = k->name};
    auto_json json_t *node = NULL;
    auto_json json_t *written = NULL;
    TRY(kc_get(ctx->kc, s, &target, &node, e));
    auto_json json_t *patch = node_taint_patch(node, wanted);
    if (!patch)
        return 0;
    const struct kc_write write = {.body = patch, .how = KC_MERGE, .manager = MANAGER_CONTROLLER};
    TRY(kc_patch(ctx->kc, s, &target, &write, &written, e));
    expectations_wrote(ctx->node_writes, k, ctx->caches.nodes,
                       JX_STR_AT(written, "metadata", "resourceVersion"));
    *ret_written = true;
    return 0;
}

static int keep_taint(struct context *ctx, struct scope *s, const struct object_key *k,
                      const struct node_view *v, struct err *e)
{
    bool wanted = taint_policy_wants(v);
    bool written = false;
    if (wanted == v->node->tainted)
        return 0;
    if (write_taint(ctx, s, k, wanted, &written, e) < 0)
        return err_wrap(e, "%s the taint of Node %s", wanted ? "setting" : "removing", k->name);
    if (!written)
        return 0;
    log_info(wanted ? "Tainted Node" : "Removed taint of Node", kv("node", k->name));
    recorder_event(ctx->recorder, v->node_object, wanted, wanted ? "GPUUnhealthy" : "GPUHealthy",
                   "%s the taint %s:NoSchedule", wanted ? "set" : "removed", NODE_TAINT_KEY);
    return 0;
}

/* A Device whose owner is a Node that has gone is garbage-collected, created again by the agent and
 * given to that Node again, for as long as the cache is behind. So the Node is read from the API
 * server, once for each Device. */
static int check_owner(struct context *ctx, struct scope *s, const struct object_key *k,
                       const struct node_view *v, struct err *e)
{
    const struct kc_target target = {.res = &resource_nodes, .name = k->name};
    auto_json json_t *node = NULL;
    if (device_spec_is_owned(v))
        return 0;
    TRY(kc_get(ctx->kc, s, &target, &node, e));
    const char *uid = JX_STR_AT(node, "metadata", "uid");
    if (uid && strcmp(uid, object_uid(v->node_object)) == 0)
        return 0;
    return err_set(e, ERR_CONFLICT, "Node %s is not the one that the cache has", k->name);
}

/* --- Names that were rounded --- */

static bool is_rounding_in_force(const struct resolve_outcome *o, size_t i)
{
    assert(i < o->n_problems);
    return o->verdict == RESOLVE_GOVERNS && strcmp(o->problems[i].reason, RESOLVE_ROUNDED) == 0;
}

/* Reports once for each order that profile names were rounded: the partitions have other sizes than
 * their names. */
static void report_rounding(struct context *ctx, const struct object_key *k,
                            const struct node_view *v)
{
    for (size_t i = 0; i < v->result.n_outcomes; i++) {
        const struct resolve_outcome *o = &v->result.outcomes[i];
        for (size_t p = 0; p < o->n_problems; p++) {
            if (!is_rounding_in_force(o, p))
                continue;
            log_info("Rounded the name of a MIG profile", kv("node", k->name),
                     kv("source", o->source.name), kv("message", o->problems[p].message));
            recorder_event(ctx->recorder, v->node_object, /* warning= */ false, RESOLVE_ROUNDED,
                           "%s: %s", o->source.name, o->problems[p].message);
        }
    }
}

/* --- An agent that does not answer --- */

/* Returns when to look again; 0: a change of a watched object will enqueue the node. */
static int64_t look_for_answer(struct context *ctx, const struct object_key *k, struct node_view *v)
{
    int64_t wait_ms = silence_note(ctx->silence, ctx->clk, k->name, v);
    auto_free char *text = standing_silence(v);
    if (!text || !v->node)
        told_forget(ctx->silence_told, k->name);
    else if (told_note(ctx->silence_told, k->name, text) != TOLD_SAME)
        recorder_event(ctx->recorder, v->node_object, /* warning= */ true, STANDING_SILENT, "%s",
                       text);
    return wait_ms;
}

/* --- An agent that serves no longer --- */

/* Server-side apply touches the one condition: conditions are a list map by type. */
static int mark_unserved(struct context *ctx, struct scope *s, const struct object_key *k,
                         const struct node_view *v, int64_t since_ms, struct err *e)
{
    const struct kc_target target = {.res = &resource_devices,
                                     .name = k->name,
                                     .subresource = "status"};
    auto_free char *text = serving_message(k->name, since_ms);
    auto_json json_t *body = serving_body(v, text, clock_wall_ms(ctx->clk));
    auto_json json_t *written = NULL;
    const struct kc_write write = {.body = body,
                                   .how = KC_APPLY,
                                   .manager = MANAGER_SERVING,
                                   .force = true};
    if (kc_patch(ctx->kc, s, &target, &write, &written, e) < 0)
        return err_wrap(e, "writing into Device %s that its agent does not serve", k->name);
    expectations_wrote(ctx->spec_writes, k, ctx->caches.devices,
                       JX_STR_AT(written, "metadata", "resourceVersion"));
    serving_marked(ctx->serving, k->name);
    log_warn("An agent does not serve its kubelet", kv("node", k->name));
    recorder_event(ctx->recorder, v->node_object, /* warning= */ true, SERVING_GONE, "%s", text);
    return 0;
}

/* --- Both --- */

static int keep_both(struct context *ctx, struct scope *s, const struct object_key *k,
                     const struct node_view *v, const struct serving_verdict *served, struct err *e)
{
    auto_free const char **waiting = xcalloc(v->result.n_outcomes, sizeof(*waiting));
    size_t n_waiting = node_ledger_keep(ctx, v, k->name, waiting);
    assert(n_waiting <= v->result.n_outcomes);
    auto_spec_draft struct spec_draft draft;
    device_spec_draft(v, waiting, n_waiting, &draft);
    bool answered = v->device->observed_generation == v->generation;
    TRY(keep_node(ctx, s, k, v, draft.changed || !answered ? &draft.spec : NULL, e));
    auto_json json_t *body = device_spec_body(v, &draft);
    if (body)
        TRY(check_owner(ctx, s, k, v, e));
    if (body) {
        TRY(apply_spec(ctx, s, k, body, e));
        wishes_ordered(ctx->wishes, ctx->clk, v, k->name, &draft.spec);
        report_rounding(ctx, k, v);
    } else if (served->mark) {
        TRY(mark_unserved(ctx, s, k, v, served->since_ms, e));
    }
    return keep_taint(ctx, s, k, v, e);
}

/* Writes a Node that has no Device. */
static int keep_bare(struct context *ctx, struct scope *s, const struct object_key *k,
                     const struct node_view *v, struct err *e)
{
    TRY(keep_node(ctx, s, k, v, /* next= */ NULL, e));
    return keep_taint(ctx, s, k, v, e);
}

/* Of two waits, where 0 is none. */
static int64_t sooner(int64_t a_ms, int64_t b_ms)
{
    return !a_ms || (b_ms && b_ms < a_ms) ? b_ms : a_ms;
}

static int reconcile(void *self, struct scope *s, const struct object_key *k,
                     struct reconcile_result *result, struct err *e)
{
    struct context *ctx = self;
    auto_node_view struct node_view v = {0};
    rollout_build(ctx->rollout, node_ledger_build, ctx);
    node_view_read(&ctx->caches, k->name, &v);
    const struct serving_verdict served = serving_note(ctx->serving, ctx->clk, k->name, &v);
    result->requeue_after_ms = sooner(look_for_answer(ctx, k, &v), served.wait_ms);
    wishes_note(ctx->wishes, ctx->clk, &v, k->name);
    if (node_resources_wait(&v))
        result->requeue_after_ms = KOORDINATOR_RECHECK_MS;
    if (v.node && v.device)
        return keep_both(ctx, s, k, &v, &served, e);
    node_ledger_forget(ctx, k->name);
    if (!v.node)
        told_forget(ctx->label_told, k->name);
    return v.node ? keep_bare(ctx, s, k, &v, e) : 0;
}

struct controller *node_controller_new(struct context *ctx)
{
    struct controller *c = controller_new("node", reconcile, ctx, ctx->workers, ctx->clk);
    controller_await_writes(c, ctx->node_writes);
    controller_await_writes(c, ctx->spec_writes);
    controller_watch(c, ctx->nodes, maps_node_changed, /* map= */ NULL);
    controller_watch(c, ctx->devices, /* keep= */ NULL, /* map= */ NULL);
    controller_watch(c, ctx->profiles, predicate_generation, maps_profile_to_nodes);
    controller_watch(c, ctx->configs, predicate_generation, maps_config_to_nodes);
    if (ctx->koordinator) {
        controller_watch(c, koordinator_link_kinds(ctx->koordinator), /* keep= */ NULL,
                         maps_to_every_device);
        controller_watch(c, koordinator_link_devices(ctx->koordinator), /* keep= */ NULL,
                         /* map= */ NULL);
    }
    ctx->node_queue = controller_queue(c);
    return c;
}
