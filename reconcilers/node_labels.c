/* SPDX-License-Identifier: Apache-2.0 */
#include "reconcilers/node_labels.h"

#include <string.h>

#include "base/log.h"
#include "base/xalloc.h"

#include "api/kinds.h"
#include "controller/resources.h"
#include "reconcilers/label_value.h"
#include "reconcilers/maps.h"

#define LABEL_GPU_COUNT    "nvidia.com/gpu.count"
#define LABEL_GPU_PRODUCT  "nvidia.com/gpu.product"
#define LABEL_GPU_MEMORY   "nvidia.com/gpu.memory"
#define LABEL_MIG_CAPABLE  "nvidia.com/mig.capable"
#define LABEL_MIG_STRATEGY "nvidia.com/mig.strategy"

/* --- The answer to nvidia.com/mig.config, pure --- */

/* InUse without eviction is mig-manager's failure; it mends itself when the card becomes free. */
static const char *state_of(const struct standing *s)
{
    switch (s->phase) {
    case PHASE_UP_TO_DATE:
        return MIG_STATE_SUCCESS;
    case PHASE_CHANGING:
        return strcmp(s->reason, "InUse") == 0 ? MIG_STATE_FAILED : MIG_STATE_PENDING;
    case PHASE_FAILED:
        return strcmp(s->reason, "RebootRequired") == 0 ? MIG_STATE_REBOOTING : MIG_STATE_FAILED;
    case PHASE_WAITING:
    case PHASE_OVERRIDDEN:
    case PHASES:
        return MIG_STATE_PENDING;
    }
    return MIG_STATE_PENDING;
}

void node_labels_state(const struct node_view *v, struct label_state *ret)
{
    *ret = (struct label_state){0};
    const struct resolve_outcome *o = v->device ? node_view_label(v) : NULL;
    if (!o)
        return;
    auto_standing struct standing s = {0};
    standing_of(v, o, &s);
    ret->value = state_of(&s);
    ret->reason = TAKE(s.reason);
    ret->message = TAKE(s.message);
}

void label_state_done(struct label_state *s)
{
    free(s->reason);
    free(s->message);
    *s = (struct label_state){0};
}

/* --- Labels, pure --- */

static void add_text(json_t *labels, const char *key, const char *value)
{
    if (value)
        (void)json_object_set_new(labels, key, json_string(value));
}

static void add_number(json_t *labels, const char *key, int64_t value)
{
    auto_free char *text = xasprintf("%lld", (long long)value);
    add_text(labels, key, text);
}

/* Two models on one node share these keys: the card with the lowest index speaks (feature discovery
 * leaves it to chance). */
static void add_cards(const struct device_record *d, json_t *labels)
{
    const struct card_record *first = &d->cards[0];
    auto_free char *product = label_value_from(first->model);
    int64_t count = 0;
    bool capable = false;
    for (size_t i = 0; i < d->n_cards; i++) {
        count += strcmp(d->cards[i].model, first->model) == 0;
        capable |= d->cards[i].mig_capable;
    }
    add_number(labels, LABEL_GPU_COUNT, count);
    add_text(labels, LABEL_GPU_PRODUCT, product);
    add_number(labels, LABEL_GPU_MEMORY, first->memory_mib);
    add_text(labels, LABEL_MIG_CAPABLE, capable ? "true" : "false");
    if (capable && d->spec.mig_strategy != API_STRATEGY_NONE)
        add_text(labels, LABEL_MIG_STRATEGY, api_mig_strategy_names[d->spec.mig_strategy]);
}

/* While the hardware cannot be seen, what was said about it stays. */
static void keep_cards(const struct node_record *node, json_t *labels)
{
    for (size_t i = 0; i < node->owned_labels.n; i++)
        if (strcmp(node->owned_labels.items[i], LABEL_MIG_CONFIG_STATE) != 0)
            add_text(labels, node->owned_labels.items[i],
                     records_label(node->labels, node->n_labels, node->owned_labels.items[i]));
}

json_t *node_labels_wanted(const struct node_view *v, const char *state)
{
    json_t *labels = json_object();
    add_text(labels, LABEL_MIG_CONFIG_STATE, state);
    if (!v->device)
        return labels;
    if (v->device->n_cards)
        add_cards(v->device, labels);
    else if (v->device->status_error || !v->device->has_status)
        keep_cards(v->node, labels);
    return labels;
}

bool node_labels_stand(const struct node_record *node, json_t *wanted)
{
    const char *key;
    json_t *value;
    json_object_foreach(wanted, key, value) {
        const char *now = records_label(node->labels, node->n_labels, key);
        if (!now || strcmp(now, json_string_value(value)) != 0)
            return false;
    }
    /* Every wanted key stands; as many owned keys, all wanted, means the same set. */
    if (node->owned_labels.n != json_object_size(wanted))
        return false;
    for (size_t i = 0; i < node->owned_labels.n; i++)
        if (!json_object_get(wanted, node->owned_labels.items[i]))
            return false;
    return true;
}

/* --- Reconciling --- */

static int apply_labels(struct context *ctx, struct scope *s, const struct node_view *v,
                        json_t *labels, struct err *e)
{
    const struct object_key key = object_key(v->node_object);
    const struct kc_target target = {.res = &resource_nodes, .name = key.name};
    auto_json json_t *body =
        json_pack("{s:s, s:s, s:{s:s, s:s, s:O}}", "apiVersion", "v1", "kind", "Node", "metadata",
                  "name", key.name, "uid", object_uid(v->node_object), "labels", labels);
    const struct kc_write write = {.body = body,
                                   .how = KC_APPLY,
                                   .manager = MANAGER_NODE_LABELS,
                                   .force = true};
    auto_json json_t *written = NULL;
    if (kc_patch(ctx->kc, s, &target, &write, &written, e) < 0)
        return err_wrap(e, "applying the labels of Node %s", key.name);
    expectations_wrote(ctx->label_writes, &key, ctx->caches.nodes,
                       JX_STR_AT(written, "metadata", "resourceVersion"));
    return 0;
}

/* Once, when the state becomes what it is. */
static void tell(struct context *ctx, const struct node_view *v, const struct label_state *st)
{
    const char *was = records_label(v->node->labels, v->node->n_labels, LABEL_MIG_CONFIG_STATE);
    const char *label = records_mig_label(v->node);
    if (!st->value || !label || (was && strcmp(was, st->value) == 0))
        return;
    if (strcmp(st->value, MIG_STATE_SUCCESS) == 0)
        recorder_event(ctx->recorder, v->node_object, /* warning= */ false, "MIGConfigApplied",
                       "the cards are as %s=%s says", LABEL_MIG_CONFIG, label);
    else if (strcmp(st->value, MIG_STATE_PENDING) != 0)
        recorder_event(ctx->recorder, v->node_object, /* warning= */ true,
                       st->reason ? st->reason : "MIGConfigFailed", "%s=%s: %s", LABEL_MIG_CONFIG,
                       label, st->message ? st->message : "");
}

static int reconcile(void *self, struct scope *s, const struct object_key *k,
                     struct reconcile_result *result, struct err *e)
{
    struct context *ctx = self;
    auto_node_view struct node_view v = {0};
    auto_label_state struct label_state state = {0};
    if (!expectations_met(ctx->label_writes, k)) {
        result->requeue_after_ms = EXPECTATIONS_RECHECK_MS;
        return 0;
    }
    node_view_look(&ctx->caches, k->name, &v);
    if (!v.node)
        return 0;
    if (records_mig_label(v.node))
        node_view_gather(&ctx->caches, &v);
    node_labels_state(&v, &state);
    auto_json json_t *wanted = node_labels_wanted(&v, state.value);
    if (node_labels_stand(v.node, wanted))
        return 0;
    TRY(apply_labels(ctx, s, &v, wanted, e));
    tell(ctx, &v, &state);
    return 0;
}

struct controller *node_labels_controller_new(struct context *ctx)
{
    struct controller *c = controller_new("node-labels", reconcile, ctx, ctx->workers, ctx->clk);
    controller_watch(c, ctx->nodes, maps_labels_changed, /* map= */ NULL);
    controller_watch(c, ctx->devices, /* keep= */ NULL, /* map= */ NULL);
    controller_watch(c, ctx->configs, predicate_generation, maps_config_to_labelled_nodes);
    return c;
}
