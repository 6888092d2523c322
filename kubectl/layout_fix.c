/* SPDX-License-Identifier: Apache-2.0 */
#include "kubectl/layout_fix.h"

#include <string.h>

#include "base/sb.h"
#include "base/xalloc.h"

#include "kubectl/status_card.h"

enum { TEXT_BYTES = 1000, MAX_IDLE = 8 };

struct attempt {
    const struct gpu_card *card;
    struct mig_wants wants;
    struct mig_plan plan;
    bool undecided; /* the planner was: that is some 2 million steps, and enough for one card */
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

/* --- The search --- */

/* Plans the layout of these instances and the new ones. True: it can be made now. */
static bool try_keeping(struct attempt *a, const struct mig_wants *asked, uint32_t mask)
{
    a->wants = *asked;
    if (a->undecided || !keep(a->card, mask, &a->wants))
        return false;
    mig_plan(&a->card->mig, &a->card->state, &a->wants, &a->plan);
    a->undecided = a->plan.undecided;
    return a->plan.verdict == MIG_PLAN_CHANGE;
}

static uint32_t used_mask(const struct mig_state *s)
{
    uint32_t mask = 0;
    for (unsigned i = 0; i < s->n; i++)
        if (s->items[i].in_use)
            mask |= 1U << i;
    return mask;
}

/* Tries all subsets of the free instances, those that give up fewest first, and takes the one whose
 * plan destroys fewest, which may be more than it gives up. A card of today has eight instances at
 * most; of more, which only a Device that no agent wrote could show, all or none go. */
static bool find_smallest(struct attempt *a, const struct mig_wants *asked)
{
    uint32_t used = used_mask(&a->card->state);
    uint32_t all = all_mask(&a->card->state);
    uint32_t idle = all & ~used, best = 0;
    int n_idle = __builtin_popcount(idle), least = n_idle + 1;
    if (n_idle > MAX_IDLE)
        return try_keeping(a, asked, all) || try_keeping(a, asked, used);
    for (int gone = 0; gone <= n_idle && gone < least; gone++)
        for (uint32_t drop = idle;; drop = (drop - 1) & idle) {
            if (__builtin_popcount(drop) == gone && try_keeping(a, asked, all & ~drop) &&
                __builtin_popcount(a->plan.destroy) < least) {
                least = __builtin_popcount(a->plan.destroy);
                best = drop;
            }
            if (drop == 0)
                break;
        }
    return least <= n_idle && try_keeping(a, asked, all & ~best);
}

static char *layout_text(const struct attempt *a)
{
    auto_sb struct sb b = SB_INIT(TEXT_BYTES);
    for (unsigned i = 0; i < a->wants.n; i++) {
        char name[MIG_NAME_BYTES];
        const struct mig_want *w = &a->wants.items[i];
        const struct mig_profile *p = &a->card->mig.profiles[w->profile];
        (void)mig_partition_name(p, w->ci_slices ? w->ci_slices : p->slices, name);
        sb_addf(&b, "%s%s: %u", i ? ", " : "", name, w->count);
    }
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
static bool fix_partition(const struct gpu_card *card, const char *profile, unsigned count,
                          struct layout_fix *ret)
{
    struct mig_wants asked;
    const struct mig_request request = {profile, count};
    auto_free struct attempt *a = xmalloc(sizeof(*a));
    bool whole = card->mode == GPU_NATIVE;
    a->card = card;
    if ((card->mode != GPU_MIG && !whole) || (whole && card->n_users) ||
        mig_resolve(&card->mig, &request, 1, &asked, NULL) < 0 || !find_smallest(a, &asked))
        return false;
    *ret = (struct layout_fix){.goes = (unsigned)__builtin_popcount(a->plan.destroy),
                               .mode = whole,
                               .layout = layout_text(a),
                               .at = places_text(a)};
    return true;
}

static bool fix_whole(const struct gpu_card *card, struct layout_fix *ret)
{
    if (card->mode != GPU_MIG || card->n_users)
        return false;
    *ret = (struct layout_fix){.goes = card->state.n,
                               .mode = true,
                               .layout = xstrdup("native"),
                               .at = xstrdup("")};
    return true;
}

bool layout_fix_find(const struct device_card *from, const struct mig_table *table,
                     const char *profile, unsigned count, struct layout_fix *ret)
{
    if (!from->healthy || !from->mig_capable || !table)
        return false;
    auto_free struct gpu_card *card = xmalloc(sizeof(*card));
    status_card_read(from, table, card);
    bool found = profile ? fix_partition(card, profile, count, ret) : fix_whole(card, ret);
    gpu_card_done(card);
    return found;
}

bool layout_fix_is_less(const struct layout_fix *a, const struct layout_fix *b)
{
    return a->mode != b->mode ? b->mode : a->goes < b->goes;
}

void layout_fix_done(struct layout_fix *f)
{
    free(f->layout);
    free(f->at);
    *f = (struct layout_fix){0};
}
