/* SPDX-License-Identifier: Apache-2.0 */
#include "reconcilers/device_spec.h"

#include <assert.h>
#include <string.h>

#include "base/sb.h"
#include "base/xalloc.h"

#include "api/kinds.h"
#include "api/label_value.h"
#include "interop/koordinator_mirror.h"
#include "reconcilers/records/shared_parts.h"
#include "reconcilers/standing.h"

/* Koordinator's label keys, which its scheduler plugin reads on its own Device resource
 * (koordinator apis/extension/device_share.go). */
#define LABEL_GPU_VENDOR "node.koordinator.sh/gpu-vendor"
#define LABEL_GPU_MODEL  "node.koordinator.sh/gpu-model"
#define LABEL_GPU_DRIVER "node.koordinator.sh/gpu-driver-version"

#define LABEL_VALUE_MAX 63

/* --- The draft, pure --- */

static bool is_of_profile(const struct device_want *w, const char *profile)
{
    return w->has_source && w->source.kind == API_SOURCE_PROFILE &&
           strcmp(w->source.name, profile) == 0;
}

static const struct resolve_card *card_of(const struct node_view *v, const char *uuid)
{
    for (size_t i = 0; i < v->device->n_cards; i++)
        if (strcmp(v->cards[i].uuid, uuid) == 0)
            return &v->cards[i];
    return NULL;
}

static bool is_ordered(const struct node_view *v, const struct device_want *want)
{
    const struct device_want *now = device_spec_want(&v->device->spec, want->uuid);
    return now && standing_same_want(now, want);
}

bool device_spec_needs_ticket(const struct node_view *v, const char *profile)
{
    for (size_t i = 0; i < v->result.spec.n_devices; i++) {
        const struct device_want *want = &v->result.spec.devices[i];
        if (!is_of_profile(want, profile) || is_ordered(v, want))
            continue;
        const struct resolve_card *card = card_of(v, want->uuid);
        if (card && !resolve_card_matches(card, want))
            return true;
    }
    return false;
}

static bool is_waiting(const struct device_want *w, const char *const *waiting, size_t n_waiting)
{
    for (size_t i = 0; i < n_waiting; i++)
        if (is_of_profile(w, waiting[i]))
            return true;
    return false;
}

static void draft_card(struct spec_draft *d, const struct device_want *card)
{
    d->spec.devices[d->spec.n_devices++] = *card;
}

/* An entry whose want means the same is kept with the generation it came from, so that an edit of a
 * profile that does not concern the card writes nothing. */
static void draft_cards(struct spec_draft *d, const struct node_view *v, const char *const *waiting,
                        size_t n_waiting)
{
    const struct device_spec *wanted = &v->result.spec;
    const struct device_spec *now = &v->device->spec;
    d->spec.devices = xcalloc(wanted->n_devices + now->n_devices, sizeof(*d->spec.devices));
    for (size_t i = 0; i < wanted->n_devices; i++) {
        const struct device_want *want = &wanted->devices[i];
        const struct device_want *standing = device_spec_want(now, want->uuid);
        if (standing &&
            (standing_same_want(standing, want) || is_waiting(want, waiting, n_waiting))) {
            draft_card(d, standing);
        } else if (!is_waiting(want, waiting, n_waiting)) {
            draft_card(d, want);
            d->changed = true;
        }
    }
    assert(d->spec.n_devices <= wanted->n_devices);
    if (d->spec.n_devices != now->n_devices)
        d->changed = true;
}

static bool same_refusal(const struct device_spec *a, const struct device_spec *b)
{
    const struct device_refused_label *x = &a->refused_label;
    const struct device_refused_label *y = &b->refused_label;
    return a->has_refused_label == b->has_refused_label &&
           (!a->has_refused_label ||
            (strcmp(x->value, y->value) == 0 && strcmp(x->reason, y->reason) == 0 &&
             strcmp(x->message, y->message) == 0));
}

static bool same_withdrawn(const struct device_spec *a, const struct device_spec *b)
{
    return !a->withdrawn == !b->withdrawn &&
           (!a->withdrawn || strcmp(a->withdrawn, b->withdrawn) == 0);
}

static bool same_head(const struct device_spec *a, const struct device_spec *b)
{
    if (a->has_source != b->has_source || a->mig_strategy != b->mig_strategy ||
        a->failure_policy != b->failure_policy || a->has_rollout != b->has_rollout)
        return false;
    if (a->has_rollout &&
        (a->rollout.drain != b->rollout.drain || a->rollout.timeout_s != b->rollout.timeout_s))
        return false;
    return !a->has_source ||
           (a->source.kind == b->source.kind && strcmp(a->source.name, b->source.name) == 0);
}

static bool head_is_waiting(const struct device_spec *wanted, const char *const *waiting,
                            size_t n_waiting)
{
    const struct device_want lead = {.has_source = wanted->has_source, .source = wanted->source};
    return is_waiting(&lead, waiting, n_waiting);
}

static void draft_head(struct spec_draft *d, const struct node_view *v, const char *const *waiting,
                       size_t n_waiting)
{
    const struct device_spec *wanted = &v->result.spec;
    const struct device_spec *now = &v->device->spec;
    bool keep =
        head_is_waiting(wanted, waiting, n_waiting) || (same_head(wanted, now) && !d->changed);
    const struct device_spec *from = keep ? now : wanted;
    d->changed |= !keep;
    d->spec.has_source = from->has_source;
    d->spec.source = from->source;
    d->spec.mig_strategy = from->mig_strategy;
    d->spec.has_rollout = from->has_rollout;
    d->spec.rollout = from->rollout;
    d->spec.failure_policy = from->failure_policy;
}

/* The message goes into the spec, because a label that cannot be followed has no object of its own
 * with a status. */
static void draft_refusal(struct spec_draft *d, const struct node_view *v)
{
    const struct resolve_outcome *o = node_view_label(v);
    const struct resolve_problem *p =
        o && o->verdict == RESOLVE_REFUSED ? resolve_outcome_refusal(o) : NULL;
    assert(!p || (p->reason && p->message));
    d->spec.has_refused_label = p;
    d->spec.refused_label = (struct device_refused_label){0};
    if (p)
        d->spec.refused_label = (struct device_refused_label){
            .value = o->source.name,
            .reason = p->reason,
            .message = xstrndup(p->message, utf8_cut(p->message, DEVICE_REFUSAL_BYTES)),
        };
    d->changed |= !same_refusal(&d->spec, &v->device->spec);
}

static bool is_blank(const struct device_spec *s)
{
    return s->n_devices == 0 && !s->has_source && !s->has_refused_label && !s->withdrawn;
}

/* True when the Device shows no cards (no driver, or not read yet): nothing can be concluded, so
 * the spec stays. */
static bool is_blind(const struct node_view *v)
{
    return v->device->n_cards == 0;
}

/* The confirmation that the agent waits for; none once it waits no more. keep_both writes the Node
 * before the spec. */
static void draft_withdrawn(struct spec_draft *d, const struct node_view *v)
{
    d->spec.withdrawn = v->device->withdrawal;
    d->changed |= !same_withdrawn(&d->spec, &v->device->spec);
}

void device_spec_draft(const struct node_view *v, const char *const *waiting, size_t n_waiting,
                       struct spec_draft *ret)
{
    assert(v->node && v->device && (waiting || n_waiting == 0));
    const struct device_spec *now = &v->device->spec;
    if (is_blind(v)) {
        *ret = (struct spec_draft){.spec = *now};
        ret->spec.devices = xmemdup(now->devices, now->n_devices * sizeof(*now->devices));
        draft_refusal(ret, v);
        draft_withdrawn(ret, v);
        return;
    }
    *ret = (struct spec_draft){.changed = v->device->spec_error != NULL};
    draft_cards(ret, v, waiting, n_waiting);
    draft_head(ret, v, waiting, n_waiting);
    draft_refusal(ret, v);
    draft_withdrawn(ret, v);
    if (is_blank(&ret->spec) && is_blank(now) && !v->device->spec_error)
        ret->changed = false;
}

void spec_draft_done(struct spec_draft *d)
{
    free(d->spec.devices);
    free(d->spec.refused_label.message);
    *d = (struct spec_draft){0};
}

/* --- Labels and owner, pure --- */

/* "NVIDIA H100 80GB HBM3" → "H100-80GB-HBM3", "MXC500" → "C500"; NULL when the models differ or
 * there are no cards. */
static char *model_label(const struct device_record *d)
{
    for (size_t i = 1; i < d->n_cards; i++)
        if (strcmp(d->cards[i].model, d->cards[0].model) != 0)
            return NULL;
    const char *model =
        d->n_cards ? koordinator_mirror_model(d->cards[0].vendor, d->cards[0].model) : "";
    return *model ? label_value_from(model) : NULL;
}

static void add_label(json_t *labels, const char *key, const char *value)
{
    if (value && *value && strlen(value) <= LABEL_VALUE_MAX)
        (void)json_object_set_new(labels, key, json_string(value));
}

static json_t *device_labels(const struct device_record *d)
{
    json_t *labels = json_object();
    auto_free char *model = model_label(d);
    add_label(labels, LABEL_GPU_VENDOR, d->vendor);
    add_label(labels, LABEL_GPU_MODEL, model);
    add_label(labels, LABEL_GPU_DRIVER, d->driver_version);
    return labels;
}

static bool labels_stand(const struct device_record *d, json_t *labels)
{
    const char *key;
    json_t *value;
    json_object_foreach(labels, key, value) {
        const char *now = records_label(d->labels, d->n_labels, key);
        if (!now || strcmp(now, json_string_value(value)) != 0)
            return false;
    }
    return true;
}

bool device_spec_is_owned(const struct node_view *v)
{
    return v->device->owner_uid && strcmp(v->device->owner_uid, object_uid(v->node_object)) == 0;
}

static json_t *owner_references(const struct node_view *v)
{
    return json_pack("[{s:s, s:s, s:s, s:s}]", "apiVersion", "v1", "kind", "Node", "name",
                     object_name(v->node_object), "uid", object_uid(v->node_object));
}

json_t *device_spec_body(const struct node_view *v, const struct spec_draft *d)
{
    if (!v->device->has_status || v->device->status_error)
        return NULL;
    auto_json json_t *labels = device_labels(v->device);
    if (!d->changed && labels_stand(v->device, labels) && device_spec_is_owned(v))
        return NULL;
    json_t *body =
        json_pack("{s:s, s:s, s:{s:s, s:s, s:s, s:O, s:o}}", "apiVersion", API_GROUP_VERSION,
                  "kind", "Device", "metadata", "name", object_name(v->device_object), "uid",
                  object_uid(v->device_object), "resourceVersion", object_version(v->device_object),
                  "labels", labels, "ownerReferences", owner_references(v));
    assert(body); /* each of its texts is there */
    if (d->changed || !is_blank(&d->spec))
        (void)json_object_set_new(body, "spec", device_spec_encode(&d->spec));
    return body;
}

/* See the header. Fields that other managers wrote beside the list of cards may stay. */
bool device_spec_says_only(const json_t *written, const json_t *body)
{
    auto_device_spec struct device_spec got = {0};
    auto_device_spec struct device_spec meant = {0};
    if (device_spec_decode(written, &got, NULL) < 0 || device_spec_decode(body, &meant, NULL) < 0)
        return false;
    bool same = got.n_devices == meant.n_devices && same_head(&got, &meant) &&
                same_refusal(&got, &meant) && same_withdrawn(&got, &meant);
    for (size_t i = 0; same && i < meant.n_devices; i++) {
        const struct device_want *want = device_spec_want(&got, meant.devices[i].uuid);
        same = want && standing_same_want(want, &meant.devices[i]);
    }
    return same;
}
