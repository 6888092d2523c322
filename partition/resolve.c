/* SPDX-License-Identifier: Apache-2.0 */
#include "partition/resolve.h"

#include <assert.h>
#include <string.h>

#include "base/xalloc.h"

#include "partition/resolve_work.h"
#include "partition/vendor.h"

/* The caller owns the name in it. */
struct device_source resolve_source_id(const struct source *s)
{
    return (struct device_source){s->kind, xstrdup(s->name), s->generation};
}

void resolve_add_problem(struct source *s, const char *reason, const struct resolve_card *card,
                         const char *message)
{
    assert(reason && message);
    struct resolve_problem *p = XPUSH(s->problems, s->n_problems);
    p->reason = xstrdup(reason);
    p->message = xstrdup(message);
    p->uuid = card ? xstrdup(card->uuid) : NULL;
}

void resolve_refuse(struct source *s, const char *reason, const struct resolve_card *card,
                    const char *why)
{
    auto_sb struct sb text = SB_INIT(TEXT_BYTES);
    if (card)
        sb_addf(&text, "GPU %u (%s): ", card->index, card->model ? card->model : card->uuid);
    sb_add(&text, why);
    resolve_add_problem(s, reason, card, sb_str(&text));
    s->refused = true;
}

/* --- Pass 2: owners --- */

/* The label beats every profile. */
static bool beats(const struct source *a, const struct source *b)
{
    if (!a->profile || !b->profile)
        return !a->profile && b->profile;
    return a->profile->priority > b->profile->priority;
}

bool resolve_leads(const struct source *a, const struct source *b)
{
    return beats(a, b) || (!beats(b, a) && strcmp(a->name, b->name) < 0);
}

static void report_contender(const struct work *w, size_t card, const struct source *top,
                             struct source *s)
{
    const struct resolve_card *c = &w->in->cards[card];
    auto_sb struct sb text = SB_INIT(TEXT_BYTES);
    sb_addf(&text, "%s GPU %u is selected with equal priority by GPUProfile",
            vendor_title(c->vendor), c->index);
    const char *separator = " ";
    for (size_t k = 0; k < w->n_sources; k++) {
        const struct source *rival = &w->sources[k];
        if (rival == s || !rival->claims[card].made || beats(top, rival))
            continue;
        sb_addf(&text, "%s%s", separator, rival->name);
        separator = ", ";
    }
    sb_add(&text, " too; raise one priority or narrow a selector");
    resolve_add_problem(s, "Conflict", c, sb_str(&text));
    s->contends = true;
}

static void report_conflict(struct work *w, size_t card, const struct source *top)
{
    const struct resolve_card *c = &w->in->cards[card];
    for (size_t i = 0; i < w->n_sources; i++) {
        struct source *s = &w->sources[i];
        if (!s->claims[card].made)
            continue;
        if (!beats(top, s)) {
            report_contender(w, card, top, s);
            continue;
        }
        auto_sb struct sb text = SB_INIT(TEXT_BYTES);
        sb_addf(&text, "%s GPU %u stays as it is: profiles of higher priority conflict on it",
                vendor_title(c->vendor), c->index);
        resolve_add_problem(s, "Overridden", c, sb_str(&text));
    }
}

static void give_card(struct work *w, size_t card)
{
    struct source *top = NULL;
    bool tie = false;
    for (size_t i = 0; i < w->n_sources; i++) {
        struct source *s = &w->sources[i];
        if (!s->claims[card].made)
            continue;
        if (!top || beats(s, top)) {
            top = s;
            tie = false;
        } else if (!beats(top, s)) {
            tie = true;
        }
    }
    assert(!top || top->claims[card].made);
    w->contested[card] = tie;
    if (tie)
        report_conflict(w, card, top);
    else if (top)
        top->owned++;
    w->owner[card] = tie ? NULL : top;
}

/* --- The result --- */

static void want_copy(const struct device_want *from, struct device_want *to)
{
    *to = *from;
    to->uuid = xstrdup(from->uuid);
    to->source.name = xstrdup(from->source.name);
    to->mig.profiles = NULL;
    to->mig.n_profiles = 0;
    for (size_t i = 0; i < from->mig.n_profiles; i++) {
        struct profile_count *pc = XPUSH(to->mig.profiles, to->mig.n_profiles);
        pc->profile = xstrdup(from->mig.profiles[i].profile);
        pc->count = from->mig.profiles[i].count;
    }
    device_sgpu_copy(&from->sgpu, &to->sgpu);
}

const struct device_want *resolve_kept_want(const struct work *w, size_t card)
{
    return w->owner[card] || w->contested[card]
               ? device_spec_want(w->in->current, w->in->cards[card].uuid)
               : NULL;
}

static void emit_card(struct work *w, size_t i, struct device_spec *spec)
{
    struct source *s = w->owner[i];
    assert(!s || (!w->contested[i] && s->claims[i].made));
    if (s && !s->refused) {
        assert(w->wants[i].uuid);
        *XPUSH(spec->devices, spec->n_devices) = w->wants[i];
        w->wants[i] = (struct device_want){0};
        return;
    }
    const struct device_want *kept = resolve_kept_want(w, i);
    if (kept)
        want_copy(kept, XPUSH(spec->devices, spec->n_devices));
}

static int by_uuid(const void *a, const void *b)
{
    return strcmp(((const struct device_want *)a)->uuid, ((const struct device_want *)b)->uuid);
}

/* The source of the node as a whole: the strongest that governs a card. */
static const struct source *leading(const struct work *w)
{
    const struct source *top = NULL;
    for (size_t i = 0; i < w->n_sources; i++) {
        const struct source *s = &w->sources[i];
        if (s->owned && !s->refused && (!top || resolve_leads(s, top)))
            top = s;
    }
    return top;
}

/* Resource names belong to the node, so the strongest profile decides, also under a label. While
 * that profile is refused, or equals disagree, the present names stay. */
static int strategy(const struct work *w)
{
    const struct source *top = NULL;
    bool agreed = true;
    for (size_t i = 0; i < w->n_sources; i++) {
        const struct source *s = &w->sources[i];
        if (!s->profile || !s->claimed || (top && beats(top, s)))
            continue;
        if (!top || beats(s, top) || (top->refused && !s->refused)) {
            top = s;
            agreed = true;
        } else if (!s->refused) {
            agreed &= s->profile->mig_strategy == top->profile->mig_strategy;
        }
    }
    if (top && !top->refused && agreed)
        return top->profile->mig_strategy;
    return top && w->in->current ? w->in->current->mig_strategy : API_STRATEGY_MIXED;
}

static void emit_spec(struct work *w, struct device_spec *spec)
{
    *spec = (struct device_spec){.mig_strategy = strategy(w), .has_rollout = true};
    spec->rollout.timeout_s = 600;
    for (size_t i = 0; i < w->in->n_cards; i++)
        emit_card(w, i, spec);
    assert(spec->n_devices <= w->in->n_cards);
    if (spec->n_devices)
        qsort(spec->devices, spec->n_devices, sizeof(*spec->devices), by_uuid);
    const struct source *lead = leading(w);
    if (!lead)
        return;
    spec->has_source = true;
    spec->source = resolve_source_id(lead);
    if (!lead->profile)
        return;
    spec->rollout.drain = lead->profile->rollout.drain;
    spec->rollout.timeout_s = lead->profile->rollout.timeout_s;
    spec->failure_policy = lead->profile->failure_policy;
}

static enum resolve_verdict verdict_of(const struct source *s)
{
    assert(s->owned <= s->claimed);
    if (s->refused)
        return RESOLVE_REFUSED;
    if (!s->claimed)
        return RESOLVE_NOT_CONCERNED;
    if (s->owned)
        return RESOLVE_GOVERNS;
    return s->contends ? RESOLVE_REFUSED : RESOLVE_OVERRIDDEN;
}

static void report_overridden(struct work *w, struct source *s)
{
    auto_sb struct sb text = SB_INIT(TEXT_BYTES);
    for (size_t i = 0; i < w->in->n_cards; i++) {
        const struct source *o = w->owner[i];
        if (!s->claims[i].made || !o || o == s)
            continue;
        sb_addf(&text, "%s%s GPU %u is governed by %s %s", text.len ? ", " : "",
                vendor_title(w->in->cards[i].vendor), w->in->cards[i].index,
                o->profile ? "GPUProfile" : "the node's label", o->name);
    }
    if (text.len)
        resolve_add_problem(s, "Overridden", NULL, sb_str(&text));
}

static void emit_outcomes(struct work *w, struct resolve_result *ret)
{
    for (size_t i = 0; i < w->n_sources; i++) {
        struct source *s = &w->sources[i];
        report_overridden(w, s);
        struct resolve_outcome *o = XPUSH(ret->outcomes, ret->n_outcomes);
        o->source = resolve_source_id(s);
        o->verdict = verdict_of(s);
        o->n_cards = s->refused ? 0 : s->owned;
        o->problems = TAKE(s->problems);
        o->n_problems = s->n_problems;
    }
}

static void add_source(struct work *w, struct source s)
{
    assert(s.name && w->n_sources <= w->in->n_profiles);
    s.claims = xcalloc(w->in->n_cards, sizeof(*s.claims));
    w->sources[w->n_sources++] = s;
}

static void collect_sources(struct work *w)
{
    const struct resolve_input *in = w->in;
    w->sources = xcalloc(in->n_profiles + 1, sizeof(*w->sources));
    if (in->label && *in->label)
        add_source(w, (struct source){.kind = API_SOURCE_NODE_LABEL, .name = in->label});
    for (size_t i = 0; i < in->n_profiles; i++)
        add_source(w, (struct source){.kind = API_SOURCE_PROFILE,
                                      .name = in->profiles[i].name,
                                      .generation = in->profiles[i].generation,
                                      .profile = in->profiles[i].spec});
}

static void want_done(struct device_want *want)
{
    struct device_spec holder = {.devices = xmemdup(want, sizeof(*want)), .n_devices = 1};
    device_spec_done(&holder);
}

static void work_done(struct work *w)
{
    for (size_t i = 0; i < w->n_sources; i++)
        free(w->sources[i].claims);
    for (size_t i = 0; i < w->in->n_cards; i++)
        want_done(&w->wants[i]);
    free(w->sources);
    free(w->owner);
    free(w->contested);
    free(w->wants);
}

void resolve_node(const struct resolve_input *in, struct resolve_result *ret)
{
    assert((in->cards || !in->n_cards) && (in->profiles || !in->n_profiles));
    *ret = (struct resolve_result){0};
    struct work w = {
        .in = in,
        .owner = xcalloc(in->n_cards, sizeof(*w.owner)),
        .contested = xcalloc(in->n_cards, sizeof(*w.contested)),
        .wants = xcalloc(in->n_cards, sizeof(*w.wants)),
    };
    collect_sources(&w);
    resolve_make_claims(&w);
    for (size_t i = 0; i < in->n_cards; i++)
        give_card(&w, i);
    resolve_judge_cards(&w);
    resolve_judge_shares(&w);
    emit_spec(&w, &ret->spec);
    emit_outcomes(&w, ret);
    work_done(&w);
}

const struct resolve_problem *resolve_outcome_refusal(const struct resolve_outcome *o)
{
    for (size_t i = 0; i < o->n_problems; i++)
        if (strcmp(o->problems[i].reason, RESOLVE_ROUNDED) != 0)
            return &o->problems[i];
    return NULL;
}

void resolve_result_done(struct resolve_result *r)
{
    device_spec_done(&r->spec);
    for (size_t i = 0; i < r->n_outcomes; i++) {
        struct resolve_outcome *o = &r->outcomes[i];
        for (size_t k = 0; k < o->n_problems; k++) {
            free(o->problems[k].reason);
            free(o->problems[k].message);
            free(o->problems[k].uuid);
        }
        free(o->problems);
        free(o->source.name);
    }
    free(r->outcomes);
    *r = (struct resolve_result){0};
}

static int64_t count_of_profile(const struct profile_count *list, size_t n, const char *profile)
{
    int64_t count = 0;
    for (size_t i = 0; i < n; i++)
        if (strcmp(list[i].profile, profile) == 0)
            count += list[i].count;
    return count;
}

static int64_t total(const struct profile_count *list, size_t n)
{
    int64_t count = 0;
    for (size_t i = 0; i < n; i++)
        count += list[i].count;
    return count;
}

static bool shows_slices(const struct resolve_card *card, const struct device_sgpu *wanted)
{
    struct sgpu_wants wants;
    struct sgpu_plan plan;
    if (!card->sgpu || sgpu_wants_of(wanted, &wants, NULL) < 0)
        return false;
    sgpu_plan(card->sgpu, &wants, &plan);
    return plan.verdict == SGPU_PLAN_NOTHING;
}

bool resolve_card_matches(const struct resolve_card *card, const struct device_want *want)
{
    if (card->mode != want->mode)
        return false;
    if (want->mode == API_MODE_SGPU)
        return shows_slices(card, &want->sgpu);
    if (want->mode != API_MODE_MIG)
        return true;
    const struct profile_count *wanted = want->mig.profiles;
    size_t n = want->mig.n_profiles;
    for (size_t i = 0; i < n; i++)
        if (count_of_profile(card->partitions, card->n_partitions, wanted[i].profile) !=
            wanted[i].count)
            return false;
    return total(card->partitions, card->n_partitions) == total(wanted, n);
}
