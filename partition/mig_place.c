/* SPDX-License-Identifier: Apache-2.0 */
#include "partition/mig_place.h"

#include <assert.h>
#include <string.h>

static_assert(MIG_MAX_MEMORY_SLICES <= 32, "a bit for each memory slice");
static_assert(MIG_MAX_PROFILES <= 32, "a bit for each profile");

uint32_t mig_memory_slices(unsigned start, unsigned size)
{
    if (start >= MIG_MAX_MEMORY_SLICES)
        return 0;
    uint64_t ones = size >= MIG_MAX_MEMORY_SLICES ? UINT32_MAX : (UINT64_C(1) << size) - 1;
    return (uint32_t)(ones << start);
}

static unsigned engines_of(const struct mig_profile *p, enum mig_engine kind)
{
    const unsigned of[MIG_N_ENGINES] = {
        [MIG_COPY] = p->engines.copy,       [MIG_DECODER] = p->engines.decoder,
        [MIG_ENCODER] = p->engines.encoder, [MIG_JPEG] = p->engines.jpeg,
        [MIG_OFA] = p->engines.ofa,
    };
    return of[kind];
}

/* The card's number of engines: that of the profile that covers the whole grid. */
static unsigned engine_total(const struct mig_table *t, enum mig_engine kind)
{
    unsigned total = 0;
    bool seen = false;
    for (unsigned i = 0; i < t->n_profiles; i++) {
        if (t->profiles[i].size != t->memory_slices)
            continue;
        unsigned n = engines_of(&t->profiles[i], kind);
        total = n > total ? n : total;
        seen = true;
    }
    for (unsigned i = 0; i < t->n_profiles && seen; i++) {
        const struct mig_profile *p = &t->profiles[i];
        seen = (uint64_t)p->max_count * engines_of(p, kind) <= total;
    }
    return seen ? total : UINT32_MAX;
}

static bool has_attribute(const char *name, char sign, const char *attr)
{
    const char *list = strchr(name, sign);
    size_t len = strlen(attr);
    for (const char *s = list; s && *s; s += strcspn(s, ",")) {
        s++; /* the sign, or the comma */
        if (strcspn(s, ",") == len && strncmp(s, attr, len) == 0)
            return true;
    }
    return false;
}

/* Profiles that differ only in attributes count as one spot; 3g and 4g on the same memory slices
 * count as two. */
static void add_spot(struct mig_limits *l, uint32_t memory_slices, unsigned slices)
{
    for (unsigned i = 0; i < l->n_spots; i++) {
        if (l->spots[i].memory_slices == memory_slices && l->spots[i].slices == slices)
            return;
    }
    assert(l->n_spots < MIG_MAX_PROFILES * MIG_MAX_PLACEMENTS);
    l->spots[l->n_spots++] = (struct mig_spot){.memory_slices = memory_slices, .slices = slices};
}

void mig_limits_init(const struct mig_table *t, struct mig_limits *ret)
{
    assert(t->memory_slices <= MIG_MAX_MEMORY_SLICES && t->n_profiles <= MIG_MAX_PROFILES);
    ret->me = ret->me_all = ret->no_me = 0;
    ret->n_spots = 0;
    for (enum mig_engine kind = 0; kind < MIG_N_ENGINES; kind++)
        ret->engines[kind] = engine_total(t, kind);
    for (unsigned i = 0; i < t->n_profiles; i++) {
        const struct mig_profile *p = &t->profiles[i];
        assert(p->n_starts <= MIG_MAX_PLACEMENTS);
        ret->me |= (uint32_t)has_attribute(p->name, '+', "me") << i;
        ret->me_all |= (uint32_t)has_attribute(p->name, '+', "me.all") << i;
        ret->no_me |= (uint32_t)has_attribute(p->name, '-', "me") << i;
        for (unsigned s = 0; s < p->n_starts; s++)
            add_spot(ret, mig_memory_slices(p->starts[s], p->size), p->slices);
    }
}

/* Number of instances whose profile is in the bit set. */
static uint64_t count_in(const struct mig_table *t, const struct mig_counts *all, uint32_t profiles)
{
    uint64_t n = 0;
    for (unsigned i = 0; i < t->n_profiles; i++)
        n += (profiles >> i & 1) ? all->of[i] : 0;
    return n;
}

static struct mig_breach check_sums(const struct mig_table *t, const struct mig_counts *all)
{
    uint64_t memory_slices = 0, slices = 0, instances = 0;
    for (unsigned i = 0; i < t->n_profiles; i++) {
        memory_slices += (uint64_t)all->of[i] * t->profiles[i].size;
        slices += (uint64_t)all->of[i] * t->profiles[i].slices;
        instances += all->of[i];
    }
    if (memory_slices > t->memory_slices)
        return (struct mig_breach){.limit = MIG_LIMIT_MEMORY_SLICES,
                                   .needs = memory_slices,
                                   .has = t->memory_slices};
    if (slices > t->slices)
        return (struct mig_breach){.limit = MIG_LIMIT_SLICES, .needs = slices, .has = t->slices};
    if (instances > MIG_MAX_INSTANCES)
        return (struct mig_breach){.limit = MIG_LIMIT_INSTANCES,
                                   .needs = instances,
                                   .has = MIG_MAX_INSTANCES};
    return (struct mig_breach){.limit = MIG_LIMIT_NONE};
}

/* nvml.h: at most one +me on a card; +me.all leaves room for -me only. */
static struct mig_breach check_media(const struct mig_table *t, const struct mig_limits *l,
                                     const struct mig_counts *all)
{
    uint64_t me = count_in(t, all, l->me);
    uint64_t me_all = count_in(t, all, l->me_all);
    uint64_t others = count_in(t, all, ~l->no_me);
    if (me_all > 0 && others > 1)
        return (struct mig_breach){.limit = MIG_LIMIT_ME_ALL, .needs = others, .has = 1};
    if (me > 1)
        return (struct mig_breach){.limit = MIG_LIMIT_ME, .needs = me, .has = 1};
    return (struct mig_breach){.limit = MIG_LIMIT_NONE};
}

static struct mig_breach check_engine(const struct mig_table *t, const struct mig_limits *l,
                                      const struct mig_counts *all, enum mig_engine kind)
{
    uint64_t needs = 0;
    for (unsigned i = 0; i < t->n_profiles; i++)
        needs += (uint64_t)all->of[i] * engines_of(&t->profiles[i], kind);
    if (needs <= l->engines[kind])
        return (struct mig_breach){.limit = MIG_LIMIT_NONE};
    return (struct mig_breach){.limit = MIG_LIMIT_ENGINES,
                               .needs = needs,
                               .has = l->engines[kind],
                               .engine = kind};
}

struct mig_breach mig_limits_check(const struct mig_table *t, const struct mig_limits *l,
                                   const struct mig_counts *all)
{
    struct mig_breach b = check_sums(t, all);
    for (unsigned i = 0; i < t->n_profiles && b.limit == MIG_LIMIT_NONE; i++) {
        unsigned most = t->profiles[i].max_count;
        if (all->of[i] > most)
            b = (struct mig_breach){.limit = MIG_LIMIT_MAX_COUNT,
                                    .needs = all->of[i],
                                    .has = most,
                                    .profile = i};
    }
    if (b.limit == MIG_LIMIT_NONE)
        b = check_media(t, l, all);
    for (enum mig_engine kind = 0; kind < MIG_N_ENGINES && b.limit == MIG_LIMIT_NONE; kind++)
        b = check_engine(t, l, all, kind);
    return b;
}

/* Depth first over the instances to place; those of one shape are interchangeable on the grid and
 * take ascending starts. */
struct placer {
    const struct mig_table *t;
    const struct mig_limits *l; /* NULL: any placement will do */
    struct mig_effort *effort;
    struct mig_layout at;
    bool found;
    struct mig_layout *best;
};

static unsigned longest_run(uint32_t memory_slices)
{
    unsigned n = 0;
    for (; memory_slices; memory_slices &= memory_slices << 1)
        n++;
    return n;
}

static bool is_better(const struct mig_layout *a, const struct mig_layout *b)
{
    if (a->flexibility != b->flexibility)
        return a->flexibility > b->flexibility;
    return a->run > b->run;
}

static void rate_layout(struct placer *k, uint32_t taken)
{
    unsigned flexibility = 0;
    for (unsigned i = 0; i < k->l->n_spots; i++) {
        uint32_t memory_slices = k->l->spots[i].memory_slices;
        if (!(memory_slices & taken))
            flexibility += (unsigned)__builtin_popcount(memory_slices);
    }
    k->at.flexibility = flexibility;
    k->at.run = longest_run(mig_memory_slices(0, k->t->memory_slices) & ~taken);
    if (!k->found || is_better(&k->at, k->best))
        *k->best = k->at;
}

static bool is_same_shape(const struct mig_profile *a, const struct mig_profile *b)
{
    return a == b || (a->size == b->size && a->n_starts == b->n_starts &&
                      memcmp(a->starts, b->starts, a->n_starts) == 0);
}

static unsigned first_start(const struct placer *k, unsigned item)
{
    const struct mig_new *it = &k->at.items[item];
    const struct mig_profile *all = k->t->profiles;
    bool ordered = item > 0 && is_same_shape(&all[it[-1].profile], &all[it->profile]);
    return ordered ? it[-1].start + 1 : 0;
}

static void place_from(struct placer *k, unsigned item, uint32_t taken)
{
    assert(item <= k->at.n);
    if (item == k->at.n) {
        if (k->l && !mig_effort_spend(k->effort, k->l->n_spots))
            return;
        if (k->l)
            rate_layout(k, taken);
        k->found = true;
        return;
    }
    struct mig_new *it = &k->at.items[item];
    const struct mig_profile *p = &k->t->profiles[it->profile];
    unsigned from = first_start(k, item);
    if (!mig_effort_spend(k->effort, 1 + p->n_starts))
        return;
    for (unsigned i = 0; i < p->n_starts && (k->l || !k->found); i++) {
        uint32_t memory_slices = mig_memory_slices(p->starts[i], p->size);
        if (p->starts[i] < from || p->starts[i] + p->size > k->t->memory_slices ||
            (memory_slices & taken))
            continue;
        it->start = p->starts[i];
        place_from(k, item + 1, taken | memory_slices);
    }
}

static bool goes_before(const struct mig_profile *a, const struct mig_profile *b)
{
    if (a->size != b->size)
        return a->size > b->size;
    return a->slices > b->slices;
}

/* The instances to place, largest first and otherwise in the table's order. */
static void list_items(const struct mig_table *t, const struct mig_counts *need,
                       struct mig_layout *l)
{
    l->n = 0;
    for (unsigned p = 0; p < t->n_profiles; p++) {
        for (unsigned i = 0; i < need->of[p]; i++) {
            assert(l->n < MIG_MAX_INSTANCES); /* the limits have checked this */
            unsigned at = l->n++;
            for (; at > 0 && goes_before(&t->profiles[p], &t->profiles[l->items[at - 1].profile]);
                 at--)
                l->items[at] = l->items[at - 1];
            l->items[at] = (struct mig_new){.profile = p};
        }
    }
}

bool mig_fits(const struct mig_table *t, uint32_t taken, const struct mig_counts *need,
              struct mig_effort *effort)
{
    struct placer k = {.t = t, .effort = effort};
    list_items(t, need, &k.at);
    place_from(&k, 0, taken);
    return k.found;
}

bool mig_place(const struct mig_table *t, const struct mig_limits *l, uint32_t taken,
               const struct mig_counts *need, struct mig_effort *effort, struct mig_layout *ret)
{
    struct placer k = {.t = t, .l = l, .effort = effort, .best = ret};
    assert(!(taken & ~mig_memory_slices(0, t->memory_slices)));
    list_items(t, need, &k.at);
    place_from(&k, 0, taken);
    return k.found;
}
