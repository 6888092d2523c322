/* SPDX-License-Identifier: Apache-2.0 */
#include "kubectl/layout_fix.h"

#include <string.h>

#include "base/sb.h"
#include "base/xalloc.h"

#include "kubectl/status_card.h"

enum { TEXT_BYTES = 1000, MAX_IDLE = 8 };

struct attempt {
    const struct mig_table *table;
    struct mig_state state; /* empty where the card is whole */
    struct mig_wants wants;
    struct mig_plan plan;
};

static bool add_want(struct mig_wants *w, unsigned profile, unsigned ci_slices, unsigned count)
{
    for (unsigned i = 0; i < w->n; i++)
        if (w->items[i].profile == profile && w->items[i].ci_slices == ci_slices) {
            w->items[i].count += count;
            return true;
        }
    if (w->n == MIG_MAX_WANTS)
        return false;
    w->items[w->n++] = (struct mig_want){profile, ci_slices, count};
    return true;
}

/* Wants again the instances of the mask. False: one of them cannot be described. */
static bool keep(struct attempt *a, uint32_t mask)
{
    for (unsigned i = 0; i < a->state.n; i++) {
        const struct mig_instance *in = &a->state.items[i];
        if (!(mask & (1U << i)))
            continue;
        if (in->profile >= a->table->n_profiles || in->n_cis == 0)
            return false;
        unsigned whole = a->table->profiles[in->profile].slices;
        for (unsigned k = 0; k < in->n_cis; k++)
            if (!add_want(&a->wants, in->profile,
                          in->cis[k].slices == whole ? 0 : in->cis[k].slices, 1))
                return false;
    }
    return true;
}

/* The layout of these instances and the new ones. True: it can be made now. */
static bool try_keeping(struct attempt *a, const struct mig_wants *asked, uint32_t mask)
{
    a->wants = *asked;
    if (!keep(a, mask))
        return false;
    mig_plan(a->table, &a->state, &a->wants, &a->plan);
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

/* All subsets of the free instances, those that give up fewest first, until one fits. A card of today
 * has eight instances at most; of more, which only a Device that no agent wrote could show, all or
 * none go. */
static bool find_smallest(struct attempt *a, const struct mig_wants *asked)
{
    uint32_t used = used_mask(&a->state);
    uint32_t all = a->state.n ? UINT32_MAX >> (32 - a->state.n) : 0;
    uint32_t idle = all & ~used;
    if (__builtin_popcount(idle) > MAX_IDLE)
        return try_keeping(a, asked, all) || try_keeping(a, asked, used);
    for (int gone = 0; gone <= __builtin_popcount(idle); gone++)
        for (uint32_t drop = idle;; drop = (drop - 1) & idle) {
            if (__builtin_popcount(drop) == gone && try_keeping(a, asked, all & ~drop))
                return true;
            if (drop == 0)
                break;
        }
    return false;
}

static char *layout_text(const struct attempt *a)
{
    auto_sb struct sb b = SB_INIT(TEXT_BYTES);
    for (unsigned i = 0; i < a->wants.n; i++) {
        char name[MIG_NAME_BYTES];
        const struct mig_want *w = &a->wants.items[i];
        const struct mig_profile *p = &a->table->profiles[w->profile];
        (void)mig_partition_name(p, w->ci_slices ? w->ci_slices : p->slices, name);
        sb_addf(&b, "%s%s: %u", i ? ", " : "", name, w->count);
    }
    return sb_take(&b);
}

static char *places_text(const struct attempt *a)
{
    auto_sb struct sb b = SB_INIT(TEXT_BYTES);
    for (unsigned i = 0; i < a->plan.n_create; i++)
        sb_addf(&b, "%s%s@%u", i ? ", " : "", a->table->profiles[a->plan.create[i].profile].name,
                a->plan.create[i].start);
    return sb_take(&b);
}

static bool fix_partition(const struct gpu_card *card, const struct mig_table *t,
                          const char *profile, unsigned count, struct layout_fix *ret)
{
    struct mig_wants asked;
    const struct mig_request request = {profile, count};
    auto_free struct attempt *a = xmalloc(sizeof(*a));
    bool whole = card->mode == GPU_NATIVE;
    a->table = t;
    if (!whole)
        a->state = card->state;
    if ((card->mode != GPU_MIG && !whole) || (whole && card->n_users) ||
        mig_resolve(t, &request, 1, &asked, NULL) < 0 || !find_smallest(a, &asked))
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
    bool found = profile ? fix_partition(card, table, profile, count, ret) : fix_whole(card, ret);
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
