/* SPDX-License-Identifier: Apache-2.0 */
#include "kubectl/node_plan.h"

#include <string.h>

#include "base/xalloc.h"

#include "kubectl/card_parts_plan.h"
#include "kubectl/status_card.h"
#include "nodeagent/change/card_view.h"
#include "reconcilers/device_spec.h"
#include "reconcilers/standing.h"

/* --- Sharing in words --- */

static char *sharing_words(const struct device_want *w)
{
    if (!w || !w->has_sharing)
        return xstrdup("not shared");
    const struct device_sharing *s = &w->sharing;
    if (s->has_time_slicing)
        return xasprintf("timeSlicing, %lld replicas%s", (long long)s->time_slicing.replicas,
                         s->time_slicing.rename_by_default ? ", renamed" : "");
    if (s->has_mps)
        return xasprintf("mps, %lld replicas%s", (long long)s->mps.replicas,
                         s->mps.rename_by_default ? ", renamed" : "");
    if (!s->has_fractional)
        return xstrdup("not shared");
    return xasprintf("shares, at most %lld, of %lld %% memory and %lld %% compute",
                     (long long)s->fractional.max_shares, (long long)s->fractional.memory_percent,
                     (long long)s->fractional.compute_percent);
}

static void set_sharing(const struct device_want *now, const struct device_want *want,
                        struct card_plan_view *ret)
{
    auto_free char *before = sharing_words(now);
    auto_free char *after = sharing_words(want);
    if (strcmp(before, after) == 0)
        return;
    ret->sharing = TAKE(before);
    ret->wanted_sharing = TAKE(after);
}

/* --- One card --- */

static void set_cannot(struct card_plan_view *ret, const char *reason, const char *message)
{
    ret->fate = FATE_CANNOT;
    xstr_set(&ret->reason, reason);
    xstr_set(&ret->message, message);
}

static void set_plan(const struct gpu_card *card, const struct device_card *st,
                     const struct card_plan *plan, struct card_plan_view *ret)
{
    static const enum card_fate fates[] = {[CARD_NOTHING] = FATE_STAYS,
                                           [CARD_CHANGE] = FATE_CHANGES,
                                           [CARD_DRAIN] = FATE_DRAINS,
                                           [CARD_INFEASIBLE] = FATE_CANNOT};
    ret->fate = fates[plan->verdict];
    if (plan->verdict == CARD_INFEASIBLE) {
        set_cannot(ret, plan->reason, plan->message);
        return;
    }
    card_parts_compare(card, plan, ret);
    if (plan->verdict != CARD_DRAIN)
        return;
    xstr_set(&ret->reason, plan->reason);
    xstr_set(&ret->message, plan->message);
    card_parts_users(card, st, plan, ret);
}

static void plan_want(const struct device_card *st, const struct mig_table *table,
                      const struct device_want *want, struct card_plan_view *ret)
{
    auto_err struct err e = {0};
    struct card_wish wish;
    auto_free struct gpu_card *card = xmalloc(sizeof(*card));
    auto_free struct card_plan *plan = xmalloc(sizeof(*plan));
    status_card_read(st, table, card);
    if (card_wish_of(card, want, &wish, &e) < 0) {
        set_cannot(ret, "Invalid", err_msg(&e));
    } else {
        card_plan(card, &wish, plan);
        set_plan(card, st, plan, ret);
    }
    gpu_card_done(card);
}

/* True when the card has this source since the file's Node has other labels. */
static bool governs_anew(const struct node_case *c, const struct device_want *want)
{
    if (!c->before)
        return false;
    const struct device_want *was = device_spec_want(&c->before->result.spec, want->uuid);
    return !was || !was->has_source || was->source.kind != want->source.kind ||
           strcmp(was->source.name, want->source.name) != 0;
}

static void plan_card(const struct node_case *c, const struct device_card *st,
                      const struct mig_table *table, const struct device_want *want,
                      struct node_plan *ret)
{
    const struct device_want *now = device_spec_want(&c->v->device->spec, want->uuid);
    struct card_plan_view *to = XPUSH(ret->cards, ret->n_cards);
    *to = (struct card_plan_view){
        .uuid = xstrdup(st->uuid),
        .vendor = xstrdup(st->vendor),
        .model = xstrdup(st->model),
        .source = xstrdup(want->has_source ? want->source.name : ""),
        .index = st->index,
        .of_file = want->has_source &&
                   (plan_file_brings(c->file, c->v, &want->source) || governs_anew(c, want)),
        .ill = !st->healthy,
        .mode = st->mode,
        .wanted_mode = want->mode,
        .evicts = want->has_rollout && want->rollout.drain == API_DRAIN_EVICT,
        .timeout_s = want->has_rollout ? want->rollout.timeout_s : 0,
    };
    plan_want(st, table, want, to);
    set_sharing(now, want, to);
    ret->cards_change |= to->fate == FATE_CHANGES || to->fate == FATE_DRAINS || to->sharing;
}

static void plan_cards(const struct node_case *c, const struct device_status *st,
                       struct node_plan *ret)
{
    const struct node_view *v = c->v;
    for (size_t i = 0; i < v->device->n_cards; i++) {
        const char *uuid = v->cards[i].uuid;
        const struct device_want *want = device_spec_want(&v->result.spec, uuid);
        const struct device_card *card = device_status_card(st, uuid);
        if (want && card)
            plan_card(c, card, v->cards[i].table, want, ret);
    }
}

/* --- Sources --- */

static void add_problem(const char *source, const char *reason, const char *message,
                        struct plan_problem kind, struct node_plan *ret)
{
    kind.source = xstrdup(source);
    kind.reason = xstrdup(reason);
    kind.message = xstrdup(message ? message : "");
    *XPUSH(ret->problems, ret->n_problems) = kind;
}

static bool is_refused(const struct resolve_outcome *o, const struct resolve_problem *p)
{
    return o->verdict == RESOLVE_REFUSED || strcmp(p->reason, "Conflict") == 0;
}

static bool has_conflict(const struct resolve_outcome *o)
{
    for (size_t i = 0; i < o->n_problems; i++)
        if (strcmp(o->problems[i].reason, "Conflict") == 0)
            return true;
    return false;
}

static bool has_problem(const struct resolve_outcome *o, const struct resolve_problem *p)
{
    for (size_t i = 0; i < o->n_problems; i++)
        if (strcmp(o->problems[i].reason, p->reason) == 0 &&
            strcmp(o->problems[i].message, p->message) == 0)
            return true;
    return false;
}

/* Adds what a profile in conflict could not have without the conflict either: the resolver does not
 * look at its wants, so that a user would learn of these only once the conflict is gone. */
static void judge_alone(const struct node_view *v, const struct resolve_outcome *o,
                        struct node_plan *ret)
{
    const char *profile = o->source.name;
    auto_node_view struct node_view view = {0};
    node_view_alone(v, profile, &view);
    const struct resolve_outcome *alone = node_view_profile(&view, profile);
    for (size_t i = 0; alone->verdict == RESOLVE_REFUSED && i < alone->n_problems; i++) {
        const struct resolve_problem *p = &alone->problems[i];
        if (!has_problem(o, p))
            add_problem(profile, p->reason, p->message,
                        (struct plan_problem){.refused = true, .of_file = true}, ret);
    }
}

/* True when a profile has problems that it had not before the file's Node had other labels. */
static bool fails_anew(const struct node_case *c, const struct resolve_outcome *o)
{
    if (!c->before || o->source.kind != API_SOURCE_PROFILE)
        return false;
    const struct resolve_outcome *was = node_view_profile(c->before, o->source.name);
    for (size_t i = 0; i < o->n_problems; i++)
        if (!was || !has_problem(was, &o->problems[i]))
            return true;
    return false;
}

/* A standing is of the node as it is: what it says of a change under way is no problem. */
static void judge_source(const struct node_case *c, const struct resolve_outcome *o,
                         struct node_plan *ret)
{
    bool of_file = plan_file_brings(c->file, c->v, &o->source) || fails_anew(c, o);
    for (size_t i = 0; i < o->n_problems; i++)
        add_problem(o->source.name, o->problems[i].reason, o->problems[i].message,
                    (struct plan_problem){.refused = is_refused(o, &o->problems[i]),
                                          .of_file = of_file},
                    ret);
    if (of_file && has_conflict(o))
        judge_alone(c->v, o, ret);
    auto_standing struct standing s = {0};
    standing_of(c->v, o, &s);
    if ((s.phase == PHASE_FAILED && !s.refused) || !c->v->device->has_status)
        add_problem(o->source.name, s.reason, s.message, (struct plan_problem){.of_file = of_file},
                    ret);
}

void node_plan_make(const struct node_case *c, const struct device_status *st,
                    struct node_plan *ret)
{
    const struct node_view *v = c->v;
    *ret = (struct node_plan){.name = xstrdup(object_name(v->device_object))};
    auto_spec_draft struct spec_draft draft = {0};
    plan_cards(c, st, ret);
    for (size_t i = 0; i < v->result.n_outcomes; i++)
        judge_source(c, &v->result.outcomes[i], ret);
    device_spec_draft(v, /* waiting= */ NULL, /* n_waiting= */ 0, &draft);
    ret->changes = ret->cards_change || draft.changed;
}

bool node_plan_refuses(const struct node_plan *p)
{
    for (size_t i = 0; i < p->n_problems; i++)
        if (p->problems[i].refused && p->problems[i].of_file)
            return true;
    for (size_t i = 0; i < p->n_cards; i++)
        if (p->cards[i].fate == FATE_CANNOT && p->cards[i].of_file && !p->cards[i].ill)
            return true;
    return false;
}

/* --- The end --- */

static void parts_done(struct plan_parts *l)
{
    for (size_t i = 0; i < l->n; i++)
        free(l->items[i]);
    free(l->items);
}

static void user_done(struct plan_user *u)
{
    free(u->ns);
    free(u->name);
    free(u->uid);
    free(u->process);
}

static void card_done(struct card_plan_view *c)
{
    parts_done(&c->stays);
    parts_done(&c->goes);
    parts_done(&c->comes);
    for (size_t i = 0; i < c->n_users; i++)
        user_done(&c->users[i]);
    free(c->users);
    free(c->uuid);
    free(c->vendor);
    free(c->model);
    free(c->source);
    free(c->reason);
    free(c->message);
    free(c->sharing);
    free(c->wanted_sharing);
}

void node_plan_done(struct node_plan *p)
{
    for (size_t i = 0; i < p->n_cards; i++)
        card_done(&p->cards[i]);
    for (size_t i = 0; i < p->n_problems; i++) {
        free(p->problems[i].source);
        free(p->problems[i].reason);
        free(p->problems[i].message);
    }
    free(p->cards);
    free(p->problems);
    free(p->name);
    *p = (struct node_plan){0};
}
