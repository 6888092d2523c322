/* SPDX-License-Identifier: Apache-2.0 */
#include "kubectl/layout_fix.h"

#include <string.h>

#include "base/sb.h"
#include "base/xalloc.h"

#include "kubectl/status_card.h"
#include "nodeagent/change/card_view.h"

enum { TEXT_BYTES = 1000, MAX_IDLE = 8 };

struct attempt {
    const struct gpu_card *card;
    struct mig_want kind; /* what is asked for, and how many more */
    struct fix_effort *effort;
    struct mig_wants wants;
    struct mig_plan plan;
    bool undecided; /* the planner gave up: enough for one card */
};

/* --- Instances as wants for the planner, so that they stay --- */

/* Adds one partition of this kind. False: there is no room for another kind. */
static bool add_want(struct mig_wants *w, unsigned profile, unsigned ci_slices)
{
    for (unsigned i = 0; i < w->n; i++)
        if (w->items[i].profile == profile && w->items[i].ci_slices == ci_slices) {
            w->items[i].count++;
            return true;
        }
    if (w->n == MIG_MAX_WANTS)
        return false;
    w->items[w->n++] = (struct mig_want){profile, ci_slices, 1};
    return true;
}

/* Adds the instances of the mask (bit i: card->state.items[i]). False: one of them cannot be
 * wanted, since the card's table does not have it, or it has no compute instance. */
static bool keep(const struct gpu_card *card, uint32_t mask, struct mig_wants *w)
{
    for (unsigned i = 0; i < card->state.n; i++) {
        const struct mig_instance *in = &card->state.items[i];
        if (!(mask & (1U << i)))
            continue;
        if (in->profile >= card->mig.n_profiles || in->n_cis == 0)
            return false;
        unsigned whole = card->mig.profiles[in->profile].slices;
        for (unsigned k = 0; k < in->n_cis; k++)
            if (!add_want(w, in->profile, in->cis[k].slices == whole ? 0 : in->cis[k].slices))
                return false;
    }
    return true;
}

/* The mask of all instances. */
static uint32_t all_mask(const struct mig_state *s)
{
    return s->n ? UINT32_MAX >> (32 - s->n) : 0;
}

/* --- The search for partitions --- */

/* Counts the partitions of the kind among these instances. */
static unsigned count_kind(const struct attempt *a, uint32_t mask)
{
    unsigned n = 0;
    for (unsigned i = 0; i < a->card->state.n; i++) {
        const struct mig_instance *in = &a->card->state.items[i];
        if (!(mask & (1U << i)) || in->profile != a->kind.profile)
            continue;
        unsigned whole = a->card->mig.profiles[in->profile].slices;
        for (unsigned k = 0; k < in->n_cis; k++)
            n += in->cis[k].slices == (a->kind.ci_slices ? a->kind.ci_slices : whole);
    }
    return n;
}

/* Plans the layout of these instances and the new partitions; those of the kind that are given up
 * come again. True: it can be made now. */
static bool try_keeping(struct attempt *a, uint32_t mask)
{
    unsigned lost = count_kind(a, all_mask(&a->card->state)) - count_kind(a, mask);
    a->wants = (struct mig_wants){.n = 1, .items = {a->kind}};
    a->wants.items[0].count += lost;
    if (a->undecided || !keep(a->card, mask, &a->wants) ||
        !fix_effort_spend(a->effort, /* plans= */ 1))
        return false;
    mig_plan_unexplained(&a->card->mig, &a->card->state, &a->wants, &a->plan);
    a->undecided = a->plan.undecided;
    a->effort->cut |= a->undecided;
    return fix_effort_spend(a->effort, a->plan.steps / MIG_WORST_STEPS) &&
           a->plan.verdict == MIG_PLAN_CHANGE;
}

static uint32_t used_mask(const struct mig_state *s)
{
    uint32_t mask = 0;
    for (unsigned i = 0; i < s->n; i++)
        if (s->items[i].in_use)
            mask |= 1U << i;
    return mask;
}

static bool are_alike(const struct mig_instance *a, const struct mig_instance *b)
{
    if (a->profile != b->profile || a->n_cis != b->n_cis)
        return false;
    for (unsigned k = 0; k < a->n_cis; k++)
        if (a->cis[k].slices != b->cis[k].slices)
            return false;
    return true;
}

/* True for the first of the sets that differ in nothing but which of several instances that are alike
 * go: that the planner chooses itself, and one of these sets is enough. */
static bool is_first_of_its_like(const struct mig_state *s, uint32_t idle, uint32_t drop)
{
    for (unsigned i = 0; i < s->n; i++)
        for (unsigned k = 0; k < i && drop & (1U << i); k++)
            if (idle & ~drop & (1U << k) && are_alike(&s->items[i], &s->items[k]))
                return false;
    return true;
}

/* Tries all subsets of the free instances, those that give up fewest first, and takes the one whose
 * plan destroys fewest, which may be more than it gives up. A card of today has eight instances at
 * most; of more, which only a Device that no agent wrote could show, all or none go. */
static bool find_smallest(struct attempt *a)
{
    uint32_t used = used_mask(&a->card->state);
    uint32_t all = all_mask(&a->card->state);
    uint32_t idle = all & ~used, best = 0;
    const struct fix_cost *limit = &a->effort->most;
    int n_idle = __builtin_popcount(idle), least = n_idle + 1;
    int most = limit->modes == 0 && limit->goes < (unsigned)n_idle ? (int)limit->goes : n_idle;
    if (n_idle > MAX_IDLE) {
        a->effort->cut = true;
        return try_keeping(a, all) || try_keeping(a, used);
    }
    for (int gone = 0; gone <= most && gone < least; gone++)
        for (uint32_t drop = idle;; drop = (drop - 1) & idle) {
            if (__builtin_popcount(drop) == gone &&
                is_first_of_its_like(&a->card->state, idle, drop) && try_keeping(a, all & ~drop) &&
                __builtin_popcount(a->plan.destroy) < least) {
                least = __builtin_popcount(a->plan.destroy);
                best = drop;
            }
            if (drop == 0)
                break;
        }
    return least <= n_idle && try_keeping(a, all & ~best);
}

static json_t *partitions_of(const struct attempt *a)
{
    json_t *counts = json_object();
    for (unsigned i = 0; i < a->wants.n; i++) {
        char name[MIG_NAME_BYTES];
        const struct mig_want *w = &a->wants.items[i];
        const struct mig_profile *p = &a->card->mig.profiles[w->profile];
        (void)mig_partition_name(p, w->ci_slices ? w->ci_slices : p->slices, name);
        (void)json_object_set_new(counts, name, json_integer(w->count));
    }
    return counts;
}

static char *layout_text(json_t *partitions)
{
    const char *name;
    json_t *count;
    auto_sb struct sb b = SB_INIT(TEXT_BYTES);
    json_object_foreach(partitions, name, count)
        sb_addf(&b, "%s%s: %lld", b.len ? ", " : "", name, (long long)json_integer_value(count));
    return sb_take(&b);
}

static char *places_text(const struct attempt *a)
{
    auto_sb struct sb b = SB_INIT(TEXT_BYTES);
    for (unsigned i = 0; i < a->plan.n_create; i++)
        sb_addf(&b, "%s%s@%u", i ? ", " : "", a->card->mig.profiles[a->plan.create[i].profile].name,
                a->plan.create[i].start);
    return sb_take(&b);
}

/* A whole card has no instances: the parts in its Device are shares. */
static bool fix_partitions(const struct gpu_card *card, const char *profile, unsigned more,
                           struct fix_effort *effort, struct layout_fix *ret)
{
    struct mig_wants asked;
    const struct mig_request request = {profile, more};
    auto_free struct attempt *a = xmalloc(sizeof(*a));
    bool whole = card->mode == GPU_NATIVE;
    if ((card->mode != GPU_MIG && !whole) ||
        (whole && (card->n_users || effort->most.modes == 0)) ||
        mig_resolve(&card->mig, &request, 1, &asked, NULL) < 0)
        return false;
    a->card = card;
    a->kind = asked.items[0];
    a->effort = effort;
    if (!find_smallest(a))
        return false;
    json_t *partitions = partitions_of(a);
    *ret = (struct layout_fix){.cost = {whole, (unsigned)__builtin_popcount(a->plan.destroy), 1},
                               .mode = API_MODE_MIG,
                               .partitions = partitions,
                               .layout = layout_text(partitions),
                               .at = places_text(a)};
    return true;
}

bool layout_fix_partitions(const struct device_card *from, const struct mig_table *table,
                           const char *profile, unsigned more, struct fix_effort *effort,
                           struct layout_fix *ret)
{
    if (!from->healthy || !from->mig_capable)
        return false;
    auto_free struct gpu_card *card = xmalloc(sizeof(*card));
    status_card_read(from, table, card);
    bool found = fix_partitions(card, profile, more, effort, ret);
    gpu_card_done(card);
    return found;
}

/* --- A whole want --- */

static unsigned count_destroyed(const struct card_steps *s)
{
    unsigned n = 0;
    for (unsigned i = 0; i < s->n; i++)
        n += s->items[i].kind == CARD_GI_DESTROY || s->items[i].kind == CARD_SLICE_DESTROY;
    return n;
}

static char *slices_text(const struct card_steps *s)
{
    auto_sb struct sb b = SB_INIT(TEXT_BYTES);
    for (unsigned i = 0; i < s->n; i++)
        if (s->items[i].kind == CARD_SLICE_CREATE)
            sb_addf(&b, "%s%s", b.len ? ", " : "", s->items[i].slice.alias);
    return sb_take(&b);
}

bool layout_fix_want(const struct device_card *from, const struct mig_table *table,
                     const struct device_want *want, const char *layout, struct layout_fix *ret)
{
    struct card_wish wish;
    auto_free struct gpu_card *card = xmalloc(sizeof(*card));
    auto_free struct card_plan *plan = xmalloc(sizeof(*plan));
    status_card_read(from, table, card);
    bool found = card_wish_of(card, want, &wish, /* e= */ NULL) == 0;
    if (found) {
        card_plan(card, &wish, plan);
        found = plan->verdict == CARD_CHANGE;
    }
    if (found)
        *ret = (struct layout_fix){.cost = {(int)card->mode != want->mode,
                                            count_destroyed(&plan->steps), 1},
                                   .mode = want->mode,
                                   .layout = xstrdup(layout),
                                   .at = slices_text(&plan->steps)};
    gpu_card_done(card);
    return found;
}

void layout_fix_done(struct layout_fix *f)
{
    json_decref(f->partitions);
    free(f->layout);
    free(f->at);
    *f = (struct layout_fix){0};
}

/* --- Prices and efforts --- */

bool fix_effort_spend(struct fix_effort *effort, size_t plans)
{
    effort->cut |= effort->plans < plans;
    if (effort->plans < plans)
        return false;
    effort->plans -= (unsigned)plans;
    return true;
}

bool fix_cost_is_less(const struct fix_cost *a, const struct fix_cost *b)
{
    if (a->modes != b->modes)
        return a->modes < b->modes;
    return a->goes != b->goes ? a->goes < b->goes : a->cards < b->cards;
}

struct fix_cost fix_cost_sum(const struct fix_cost *a, const struct fix_cost *b)
{
    return (struct fix_cost){a->modes + b->modes, a->goes + b->goes, a->cards + b->cards};
}
