/* SPDX-License-Identifier: Apache-2.0 */
#include "partition/mig_nearest.h"

#include <assert.h>
#include <string.h>

#include "partition/mig_feasible.h"
#include "partition/mig_pack.h"

/* Memory is compared in parts of a slot, so that a share of a GPU instance is a whole number. */
#define SLOT_PARTS 840

/* Every table known needs far less; this keeps a strange one from running on. */
#define MAX_STEPS 100000

/* Branch and bound over how many of each wanted kind are kept. */
struct nearest {
    const struct mig_table *t;
    const struct mig_limits *l;
    struct mig_wants wants;        /* kinds merged, counts capped at what a card could ever hold */
    unsigned parts[MIG_MAX_WANTS]; /* of one partition of a kind */
    unsigned count_from[MIG_MAX_WANTS + 1];       /* partitions of the kinds from here on */
    unsigned parts_from[MIG_MAX_WANTS + 1];       /* and their memory */
    unsigned least_parts_from[MIG_MAX_WANTS + 1]; /* of the smallest one among them */
    unsigned steps_left;
    struct mig_wants at, best;
    unsigned at_count, at_parts, best_count, best_parts;
};

static unsigned least(unsigned a, unsigned b)
{
    return a < b ? a : b;
}

/* The entry of that kind, made with count 0 when there is none; NULL when the list is full. */
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

/* The kinds that the table has, each once; one that fills its instance is written without size. */
static void merge(const struct mig_table *t, const struct mig_wants *wants, struct mig_wants *ret)
{
    ret->n = 0;
    for (unsigned i = 0; i < wants->n; i++) {
        const struct mig_want *w = &wants->items[i];
        if (w->count == 0 || w->profile >= t->n_profiles)
            continue;
        unsigned kind = mig_cut_kind(t->profiles[w->profile].slices, w->ci_slices);
        if (kind == MIG_CI_KINDS)
            continue;
        struct mig_want *into = find_want(ret, w->profile, kind);
        assert(into); /* merging never makes more */
        into->count += least(w->count, UINT32_MAX - into->count);
    }
}

static void measure(struct nearest *k)
{
    k->least_parts_from[k->wants.n] = UINT32_MAX;
    for (unsigned i = k->wants.n; i-- > 0;) {
        struct mig_want *w = &k->wants.items[i];
        const struct mig_profile *p = &k->t->profiles[w->profile];
        unsigned size = mig_cut_slices(p->slices, w->ci_slices);
        w->count =
            least(w->count, least(p->max_count, MIG_MAX_SLOTS) * mig_ci_max(p->slices, size));
        k->parts[i] = SLOT_PARTS * p->size * size / p->slices;
        k->count_from[i] = k->count_from[i + 1] + w->count;
        k->parts_from[i] = k->parts_from[i + 1] + w->count * k->parts[i];
        k->least_parts_from[i] = least(k->least_parts_from[i + 1], k->parts[i]);
    }
}

/* Can no choice among the kinds from here on beat the best? */
static bool is_hopeless(const struct nearest *k, unsigned kind)
{
    unsigned room = SLOT_PARTS * k->t->slots - k->at_parts;
    unsigned more = least(k->count_from[kind], room / k->least_parts_from[kind]);
    unsigned parts = least(k->parts_from[kind], room);
    if (k->at_count + more != k->best_count)
        return k->at_count + more < k->best_count;
    return k->at_parts + parts <= k->best_parts;
}

/* The most partitions of a kind that can stand beside those kept already. */
static unsigned most_beside(struct nearest *k, unsigned kind)
{
    struct mig_want *w = &k->at.items[kind];
    unsigned most = k->wants.items[kind].count;
    *w = k->wants.items[kind];
    k->at.n = kind + 1;
    for (w->count = 1; w->count <= most; w->count++) {
        if (!mig_feasible_within(k->t, k->l, &k->at))
            break;
    }
    return w->count - 1;
}

static void keep_from(struct nearest *k, unsigned kind)
{
    if (is_hopeless(k, kind) || k->steps_left == 0)
        return;
    k->steps_left--;
    if (kind == k->wants.n) {
        k->best = k->at;
        k->best_count = k->at_count;
        k->best_parts = k->at_parts;
        return;
    }
    for (unsigned n = most_beside(k, kind) + 1; n-- > 0;) {
        k->at.n = kind + 1;
        k->at.items[kind] = k->wants.items[kind];
        k->at.items[kind].count = n;
        k->at_count += n;
        k->at_parts += n * k->parts[kind];
        keep_from(k, kind + 1);
        k->at_parts -= n * k->parts[kind];
        k->at_count -= n;
    }
}

/* How far profile b, no larger, is from what a dropped partition of profile a was to be. */
static unsigned distance(const struct mig_profile *a, unsigned ci, const struct mig_profile *b)
{
    unsigned slices = ci > b->slices ? ci - b->slices : b->slices - ci;
    unsigned special = strpbrk(b->name, "+-") != NULL;
    return ((a->size - b->size) * MIG_MAX_SLOTS + slices) * 2 + special;
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
        if (!mig_feasible_within(k->t, k->l, &with))
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
    struct nearest k = {.t = t, .l = l, .steps_left = MAX_STEPS};
    struct mig_wants asked;
    merge(t, wants, &asked);
    k.wants = asked;
    measure(&k);
    keep_from(&k, 0);
    /* Best has the kinds of asked in the same order, or none at all. */
    *ret = k.best;
    for (unsigned i = 0; i < asked.n; i++) {
        unsigned kept = i < k.best.n ? k.best.items[i].count : 0;
        for (unsigned n = asked.items[i].count - kept; n > 0; n--) {
            if (!replace_one(&k, &asked.items[i], ret))
                break;
        }
    }
    drop_empty(ret);
}
