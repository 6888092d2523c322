/* SPDX-License-Identifier: Apache-2.0 */
#include "reconcilers/standing.h"

#include <assert.h>
#include <string.h>

#include "base/rfc3339.h"
#include "base/text.h"
#include "base/xalloc.h"

#include "partition/vendor.h"
#include "reconcilers/serving.h"

void standing_set(struct standing *s, enum phase phase, const char *reason, const char *message)
{
    assert(phase < PHASES && (reason || phase == PHASE_UP_TO_DATE));
    s->phase = phase;
    xstr_set(&s->reason, reason);
    xstr_set(&s->message, message);
}

bool standing_equal(const struct standing *a, const struct standing *b)
{
    return a->phase == b->phase && a->refused == b->refused && a->n_cards == b->n_cards &&
           text_equal(a->reason, b->reason) && text_equal(a->message, b->message);
}

void standing_done(struct standing *s)
{
    free(s->reason);
    free(s->message);
    *s = (struct standing){0};
}

/* --- Wants --- */

static bool same_source(const struct device_want *a, const struct device_want *b)
{
    return a->has_source == b->has_source &&
           (!a->has_source ||
            (a->source.kind == b->source.kind && strcmp(a->source.name, b->source.name) == 0));
}

static bool same_rollout(const struct device_want *a, const struct device_want *b)
{
    return a->has_rollout == b->has_rollout && a->failure_policy == b->failure_policy &&
           (!a->has_rollout ||
            (a->rollout.drain == b->rollout.drain && a->rollout.timeout_s == b->rollout.timeout_s));
}

static int64_t wanted_count(const struct device_want *w, const char *profile)
{
    for (size_t i = 0; i < w->mig.n_profiles; i++)
        if (strcmp(w->mig.profiles[i].profile, profile) == 0)
            return w->mig.profiles[i].count;
    return 0;
}

/* Compared as a map by profile: the API server may keep the list in another order. */
static bool same_geometry(const struct device_want *a, const struct device_want *b)
{
    if (a->mode != b->mode || a->has_mig != b->has_mig || a->mig.n_profiles != b->mig.n_profiles)
        return false;
    for (size_t i = 0; i < a->mig.n_profiles; i++)
        if (wanted_count(b, a->mig.profiles[i].profile) != a->mig.profiles[i].count)
            return false;
    return true;
}

static const struct device_slice_want *slice_of(const struct device_sgpu *g, const char *alias)
{
    for (size_t i = 0; i < g->n_slices; i++)
        if (strcmp(g->slices[i].alias, alias) == 0)
            return &g->slices[i];
    return NULL;
}

/* Compared as a map by alias, for the same reason. */
static bool same_slices(const struct device_sgpu *a, const struct device_sgpu *b)
{
    if (a->n_slices != b->n_slices)
        return false;
    for (size_t i = 0; i < a->n_slices; i++) {
        const struct device_slice_want *x = &a->slices[i];
        const struct device_slice_want *y = slice_of(b, x->alias);
        if (!y || x->memory_mib != y->memory_mib || x->compute_percent != y->compute_percent ||
            x->count != y->count)
            return false;
    }
    return true;
}

static bool same_sgpu(const struct device_want *a, const struct device_want *b)
{
    const struct device_sgpu *x = &a->sgpu;
    const struct device_sgpu *y = &b->sgpu;
    return x->has_qos_policy == y->has_qos_policy &&
           (!x->has_qos_policy || x->qos_policy == y->qos_policy) &&
           x->timeslice_ms == y->timeslice_ms && same_slices(x, y);
}

static const struct device_replicas *terms_of(const struct device_want *w)
{
    return w->has_sharing ? device_sharing_terms(&w->sharing) : NULL;
}

static bool same_terms(const struct device_want *a, const struct device_want *b)
{
    const struct device_replicas *x = terms_of(a);
    const struct device_replicas *y = terms_of(b);
    if (!x || !y)
        return !x && !y;
    return a->sharing.has_mps == b->sharing.has_mps && x->replicas == y->replicas &&
           x->rename_by_default == y->rename_by_default &&
           x->fail_requests_greater_than_one == y->fail_requests_greater_than_one;
}

/* How the card is given out in shares; NULL: it is not. */
static const struct device_fractional *shares_of(const struct device_want *w)
{
    return w->has_sharing && w->sharing.has_fractional ? &w->sharing.fractional : NULL;
}

/* Two words that are absent are the same. */
static bool same_word(bool has_a, int a, bool has_b, int b)
{
    return has_a == has_b && (!has_a || a == b);
}

static bool same_enforcement(const struct device_fractional *a, const struct device_fractional *b)
{
    const struct device_enforcement *x = &a->enforcement;
    const struct device_enforcement *y = &b->enforcement;
    return a->has_enforcement == b->has_enforcement &&
           same_word(x->has_memory, x->memory, y->has_memory, y->memory) &&
           same_word(x->has_compute, x->compute, y->has_compute, y->compute) &&
           same_word(a->has_qos_policy, a->qos_policy, b->has_qos_policy, b->qos_policy) &&
           same_word(a->has_on_exceed, a->on_exceed, b->has_on_exceed, b->on_exceed) &&
           a->allow_disable == b->allow_disable;
}

static bool same_shares(const struct device_want *a, const struct device_want *b)
{
    const struct device_fractional *x = shares_of(a);
    const struct device_fractional *y = shares_of(b);
    if (!x || !y)
        return !x && !y;
    return x->max_shares == y->max_shares && x->memory_percent == y->memory_percent &&
           x->compute_percent == y->compute_percent && same_enforcement(x, y);
}

bool standing_same_want(const struct device_want *a, const struct device_want *b)
{
    return strcmp(a->uuid, b->uuid) == 0 && same_source(a, b) && same_rollout(a, b) &&
           same_geometry(a, b) && same_sgpu(a, b) && same_terms(a, b) && same_shares(a, b);
}

static bool is_from(const struct device_want *w, int kind, const char *name)
{
    return w->has_source && w->source.kind == kind && strcmp(w->source.name, name) == 0;
}

/* --- One card --- */

static const char *const passing_reasons[] = {"Progressing", "Draining", "InUse"};

static bool is_passing(const char *reason)
{
    for (size_t i = 0; i < ARRAY_LEN(passing_reasons); i++)
        if (strcmp(passing_reasons[i], reason) == 0)
            return true;
    return false;
}

static bool is_agent_behind(const struct node_view *v)
{
    return v->device->observed_generation != v->generation;
}

static bool is_applied(const struct node_view *v, const char *uuid)
{
    const struct card_record *c = records_card(v->device, uuid);
    return c && !is_agent_behind(v) && c->applied.present && c->applied.status == CONDITION_TRUE;
}

char *standing_silence(const struct node_view *v)
{
    char since[RFC3339_BYTES];
    if (!v->silent)
        return NULL;
    return xasprintf("no answer from cleave-agent on %s since %s to the layout ordered; look at "
                     "its pod: kubectl get pods -A -o wide -l app.kubernetes.io/name=cleave "
                     "--field-selector spec.nodeName=%s",
                     object_name(v->device_object), rfc3339_format(v->silent_since_ms, since),
                     object_name(v->device_object));
}

/* The standing for work that is under way, as far as anybody knows. */
static void set_changing(const struct node_view *v, const char *message, struct standing *ret)
{
    auto_free char *silence = standing_silence(v);
    if (silence)
        standing_set(ret, PHASE_CHANGING, STANDING_SILENT, silence);
    else
        standing_set(ret, PHASE_CHANGING, "Progressing", message);
}

static void judge_card(const struct node_view *v, const struct device_want *want,
                       struct standing *ret)
{
    const struct device_want *in_force = device_spec_want(&v->device->spec, want->uuid);
    const struct card_record *card = records_card(v->device, want->uuid);
    if (!in_force || !standing_same_want(in_force, want) || is_agent_behind(v) || !card ||
        !card->applied.present) {
        set_changing(v, "a change is under way", ret);
        return;
    }
    if (card->applied.status == CONDITION_TRUE)
        return;
    auto_free char *message =
        xasprintf("%s GPU %u: %s", vendor_title(card->vendor), card->index, card->applied.message);
    standing_set(ret, is_passing(card->applied.reason) ? PHASE_CHANGING : PHASE_FAILED,
                 card->applied.reason, message);
}

/* --- The node --- */

/* A failed card decides the node's standing; without one, a changing card does. */
static void judge_cards(const struct node_view *v, const struct resolve_outcome *o,
                        struct standing *ret)
{
    for (size_t i = 0; i < v->result.spec.n_devices; i++) {
        const struct device_want *want = &v->result.spec.devices[i];
        if (!is_from(want, o->source.kind, o->source.name))
            continue;
        auto_standing struct standing card = {.phase = PHASE_UP_TO_DATE};
        judge_card(v, want, &card);
        if (card.phase == PHASE_UP_TO_DATE || ret->phase == PHASE_FAILED ||
            card.phase == ret->phase)
            continue;
        standing_set(ret, card.phase, card.reason, card.message);
    }
}

/* The condition that stops the agent as a whole (no driver, a library that hangs), where no single
 * card of the source is at fault. */
static const struct condition_record *node_fault(const struct node_view *v)
{
    const struct device_record *d = v->device;
    if (!d->stalled.present || d->stalled.status != CONDITION_TRUE)
        return NULL;
    for (size_t i = 0; i < d->n_cards; i++)
        if (d->cards[i].applied.present && d->cards[i].applied.status != CONDITION_TRUE &&
            device_spec_want(&d->spec, d->cards[i].uuid))
            return NULL;
    return &d->stalled;
}

static const struct resolve_problem *problem_of(const struct resolve_outcome *o, const char *reason)
{
    for (size_t i = 0; i < o->n_problems; i++)
        if (strcmp(o->problems[i].reason, reason) == 0)
            return &o->problems[i];
    return NULL;
}

static void set_refused(struct standing *ret, const struct resolve_problem *p)
{
    assert(p->reason && p->message);
    standing_set(ret, PHASE_FAILED, p->reason, p->message);
    ret->refused = true;
}

/* Decides what follows without a look at any card. True when that was enough. */
static bool judge_node(const struct node_view *v, struct standing *ret)
{
    const struct device_record *d = v->device;
    if (d->status_error) {
        auto_free char *message = xasprintf("the Device's status cannot be read: %s; the agent "
                                            "writes it anew when it starts",
                                            d->status_error);
        standing_set(ret, PHASE_FAILED, "Invalid", message);
        return true;
    }
    if (!d->has_status) {
        set_changing(v, "the agent has not reported yet", ret);
        return true;
    }
    const struct condition_record *fault = node_fault(v);
    if (fault)
        standing_set(ret, PHASE_FAILED, fault->reason, fault->message);
    return fault;
}

void standing_of(const struct node_view *v, const struct resolve_outcome *o, struct standing *ret)
{
    assert(v->device && v->device_object);
    *ret = (struct standing){.phase = PHASE_UP_TO_DATE, .n_cards = v->device->n_cards};
    if (judge_node(v, ret))
        return;
    const struct resolve_problem *refusal = resolve_outcome_refusal(o);
    if (o->verdict == RESOLVE_REFUSED && refusal) {
        set_refused(ret, refusal);
        return;
    }
    const struct resolve_problem *conflict = problem_of(o, "Conflict");
    if (conflict) {
        set_refused(ret, conflict);
        return;
    }
    if (o->verdict == RESOLVE_OVERRIDDEN) {
        standing_set(ret, PHASE_OVERRIDDEN, STANDING_OVERRIDDEN,
                     o->n_problems ? o->problems[0].message : "other sources govern its cards");
        return;
    }
    judge_cards(v, o, ret);
    const struct resolve_problem *remark = problem_of(o, STANDING_OVERRIDDEN);
    if (!remark)
        remark = problem_of(o, RESOLVE_ROUNDED);
    assert(!ret->refused);
    if (ret->phase == PHASE_UP_TO_DATE && serving_is_gone(v->device))
        standing_set(ret, PHASE_CHANGING, SERVING_GONE, v->device->ready.message);
    if (ret->phase == PHASE_UP_TO_DATE && remark)
        standing_set(ret, PHASE_UP_TO_DATE, remark->reason, remark->message);
}

bool standing_is_settled(const struct node_view *v, const char *profile)
{
    if (!v->device)
        return true;
    const struct device_spec *spec = &v->device->spec;
    for (size_t i = 0; i < spec->n_devices; i++)
        if (is_from(&spec->devices[i], API_SOURCE_PROFILE, profile) &&
            !is_applied(v, spec->devices[i].uuid))
            return false;
    return true;
}
