/* SPDX-License-Identifier: Apache-2.0 */
#include "partition/mig_nearest.h"

#include <assert.h>
#include <string.h>

#include "partition/mig_feasible.h"
#include "partition/mig_pack.h"

/* Memory is counted in fractions of a memory slice, so that a share of a GPU instance is a whole
 * number. */
#define MEMORY_SLICE_PARTS 840
static_assert(MIG_MAX_SLICES == 8 && MEMORY_SLICE_PARTS % (3 * 5 * 7 * 8) == 0, "whole shares");

/* The least that a partition takes of a card. */
struct share {
    unsigned parts, slices;
};

/* Branch and bound over how many of each wanted kind are kept. */
struct nearest {
    const struct mig_table *t;
    const struct mig_limits *l;
    struct mig_wants wants;         /* kinds merged, counts capped at what any card could hold */
    struct share of[MIG_MAX_WANTS]; /* for one partition of each kind */
    struct share least_from[MIG_MAX_WANTS + 1]; /* minimum over the kinds from here on */
    unsigned count_from[MIG_MAX_WANTS + 1];     /* partitions of the kinds from here on */
    unsigned parts_from[MIG_MAX_WANTS + 1];     /* the memory of these */
    struct mig_effort *effort;
    struct mig_wants at, best;
    unsigned at_count, best_count, best_parts;
    struct share used;
};

static unsigned least(unsigned a, unsigned b)
{
    return a < b ? a : b;
}

/* The entry of that kind, added with count 0 when missing; NULL when the list is full. */
static struct mig_want *find_want(struct mig_wants *w, unsigned profile, unsigned ci_slices)
{
    for (unsigned i = 0; i < w->n; i++) {
        if (w->items[i].profile == profile && w->items[i].ci_slices == ci_slices)
            return &w->items[i];
    }
    if (w->n == MIG_MAX_WANTS)
        return NULL;
    w->items[w->n] = (struct mig_want){.profile = profile, .ci_slices = ci_slices};
    return &w->items[w->n++];
}

/* The kinds that the table has, each once; a compute instance that fills its GPU instance has
 * ci_slices 0. */
static void merge(const struct mig_table *t, const struct mig_wants *wants, struct mig_wants *ret)
{
    ret->n = 0;
    for (unsigned i = 0; i < wants->n; i++) {
        const struct mig_want *w = &wants->items[i];
        unsigned kind = mig_want_kind(t, w);
        if (w->count == 0 || kind == MIG_CI_KINDS)
            continue;
        struct mig_want *into = find_want(ret, w->profile, kind);
        assert(into); /* merging never makes more */
        into->count += least(w->count, UINT32_MAX - into->count);
    }
}

static struct share share_of(const struct mig_table *t, const struct mig_want *w)
{
    const struct mig_profile *p = &t->profiles[w->profile];
    unsigned slices = mig_cut_slices(p->slices, w->ci_slices);
    return (struct share){.parts = MEMORY_SLICE_PARTS * p->size * slices / p->slices,
                          .slices = slices};
}

/* Insertion sort, small ones first: they set a high count early, which later choices must beat. */
static void sort(const struct mig_table *t, struct mig_wants *w)
{
    for (unsigned i = 1; i < w->n; i++) {
        struct mig_want it = w->items[i];
        unsigned parts = share_of(t, &it).parts, at = i;
        for (; at > 0 && share_of(t, &w->items[at - 1]).parts > parts; at--)
            w->items[at] = w->items[at - 1];
        w->items[at] = it;
    }
}

static void measure(struct nearest *k)
{
    k->least_from[k->wants.n] = (struct share){UINT32_MAX, UINT32_MAX};
    for (unsigned i = k->wants.n; i-- > 0;) {
        struct mig_want *w = &k->wants.items[i];
        const struct mig_profile *p = &k->t->profiles[w->profile];
        struct share one = share_of(k->t, w);
        unsigned most =
            least(p->max_count, MIG_MAX_MEMORY_SLICES) * mig_ci_max(p->slices, one.slices);
        w->count = least(w->count, most);
        k->of[i] = one;
        k->least_from[i].parts = least(k->least_from[i + 1].parts, one.parts);
        k->least_from[i].slices = least(k->least_from[i + 1].slices, one.slices);
        k->count_from[i] = k->count_from[i + 1] + w->count;
        k->parts_from[i] = k->parts_from[i + 1] + w->count * one.parts;
    }
}

/* True when no choice among the kinds from here on beats the best. */
static bool is_hopeless(const struct nearest *k, unsigned kind)
{
    assert(k->used.parts <= MEMORY_SLICE_PARTS * k->t->memory_slices);
    assert(k->used.slices <= k->t->slices);
    unsigned room = MEMORY_SLICE_PARTS * k->t->memory_slices - k->used.parts;
    unsigned slices = k->t->slices - k->used.slices;
    unsigned more = least(room / k->least_from[kind].parts, slices / k->least_from[kind].slices);
    unsigned count = k->at_count + least(more, k->count_from[kind]);
    if (count != k->best_count)
        return count < k->best_count;
    return k->used.parts + least(k->parts_from[kind], room) <= k->best_parts;
}

/* The most partitions of a kind that fit beside those already kept. */
static unsigned most_beside(struct nearest *k, unsigned kind)
{
    struct mig_want *w = &k->at.items[kind];
    unsigned most = k->wants.items[kind].count;
    *w = k->wants.items[kind];
    k->at.n = kind + 1;
    for (w->count = 1; w->count <= most; w->count++) {
        if (!mig_feasible_within(k->t, k->l, &k->at, k->effort))
            break;
    }
    return w->count - 1;
}

static void keep_from(struct nearest *k, unsigned kind);

static void keep_some(struct nearest *k, unsigned kind, unsigned n)
{
    assert(n <= k->wants.items[kind].count);
    struct share used = k->used;
    k->at.n = kind + 1;
    k->at.items[kind] = k->wants.items[kind];
    k->at.items[kind].count = n;
    k->at_count += n;
    k->used.parts += n * k->of[kind].parts;
    k->used.slices += n * k->of[kind].slices;
    keep_from(k, kind + 1);
    k->used = used;
    k->at_count -= n;
}

static void keep_from(struct nearest *k, unsigned kind)
{
    if (is_hopeless(k, kind) || !mig_effort_spend(k->effort, 1))
        return;
    if (kind == k->wants.n) {
        k->best = k->at;
        k->best_count = k->at_count;
        k->best_parts = k->used.parts;
        return;
    }
    for (unsigned n = most_beside(k, kind) + 1; n-- > 0;)
        keep_some(k, kind, n);
}

/* The distance of profile b, not larger, from the dropped partition of profile a. */
static unsigned distance(const struct mig_profile *a, unsigned ci, const struct mig_profile *b)
{
    assert(b->size <= a->size);
    unsigned slices = ci > b->slices ? ci - b->slices : b->slices - ci;
    unsigned special = strpbrk(b->name, "+-") != NULL;
    return ((a->size - b->size) * MIG_MAX_MEMORY_SLICES + slices) * 2 + special;
}

/* Adds one partition of the closest other profile that fits; false when none does. */
static bool replace_one(const struct nearest *k, const struct mig_want *dropped,
                        struct mig_wants *w)
{
    const struct mig_profile *a = &k->t->profiles[dropped->profile];
    unsigned best = UINT32_MAX;
    struct mig_wants found = {0};
    for (unsigned p = 0; p < k->t->n_profiles; p++) {
        const struct mig_profile *b = &k->t->profiles[p];
        if (p == dropped->profile || b->size > a->size)
            continue;
        unsigned d = distance(a, mig_cut_slices(a->slices, dropped->ci_slices), b);
        struct mig_wants with = *w;
        struct mig_want *into = find_want(&with, p, 0);
        if (d >= best || !into)
            continue;
        into->count++;
        if (!mig_feasible_within(k->t, k->l, &with, k->effort))
            continue;
        best = d;
        found = with;
    }
    if (best != UINT32_MAX)
        *w = found;
    return best != UINT32_MAX;
}

static void drop_empty(struct mig_wants *w)
{
    unsigned n = 0;
    for (unsigned i = 0; i < w->n; i++) {
        if (w->items[i].count > 0)
            w->items[n++] = w->items[i];
    }
    w->n = n;
}

void mig_nearest(const struct mig_table *t, const struct mig_limits *l,
                 const struct mig_wants *wants, struct mig_wants *ret)
{
    struct mig_effort effort = mig_effort_whole();
    struct nearest k = {.t = t, .l = l, .effort = &effort};
    struct mig_wants asked;
    merge(t, wants, &asked);
    sort(t, &asked);
    k.wants = asked;
    measure(&k);
    keep_from(&k, 0);
    /* Best lists the kinds of asked in the same order, or is empty. */
    assert(k.best.n == asked.n || k.best.n == 0);
    *ret = k.best;
    for (unsigned i = 0; i < asked.n; i++) {
        unsigned kept = i < k.best.n ? k.best.items[i].count : 0;
        assert(kept <= asked.items[i].count);
        for (unsigned n = asked.items[i].count - kept; n > 0; n--) {
            if (!replace_one(&k, &asked.items[i], ret))
                break;
        }
    }
    drop_empty(ret);
}
