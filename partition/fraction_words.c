/* SPDX-License-Identifier: Apache-2.0 */
#include "partition/fraction_words.h"

#include "base/auto.h"
#include "base/sb.h"
#include "base/xalloc.h"

/* The cards of a node, by why they do not take a share, and the most that is left on one of those
 * which the pod's wishes allow. */
struct survey {
    unsigned n[FRACTION_N_MISFITS];
    unsigned allowed;
    unsigned best_memory_mib, best_percent;
    unsigned with_memory, with_percent; /* that have as much left as is asked for */
    unsigned together;                  /* of those that fit, the most for one container */
};

static bool is_allowed(enum fraction_misfit why)
{
    return why == FRACTION_FITS || why > FRACTION_LONELY;
}

static void look_at(const struct fraction_card *c, const struct fraction_ask *a,
                    enum fraction_misfit why, struct survey *s)
{
    struct fraction_size room = fraction_room(c);
    struct fraction_size share = fraction_share(c, a);
    s->n[why]++;
    if (!is_allowed(why))
        return;
    s->allowed++;
    s->with_memory += share.memory_mib && share.memory_mib <= room.memory_mib;
    s->with_percent += share.percent <= room.percent;
    if (room.memory_mib > s->best_memory_mib)
        s->best_memory_mib = room.memory_mib;
    if (room.percent > s->best_percent)
        s->best_percent = room.percent;
}

/* What the pod's lists say of each card. */
struct listing {
    enum fraction_misfit of[FRACTION_MAX_CARDS];
    unsigned n; /* cards; those beyond FRACTION_MAX_CARDS are not looked at */
};

static void listing_init(struct listing *l, const struct fraction_node *n,
                         const struct fraction_wish *w)
{
    l->n = n->n < FRACTION_MAX_CARDS ? n->n : FRACTION_MAX_CARDS;
    fraction_listed(n->cards, l->n, w, l->of);
}

static void survey(const struct fraction_node *n, const struct fraction_ask *a,
                   const struct fraction_wish *w, const struct listing *l, struct survey *ret)
{
    uint64_t fitting = 0;
    *ret = (struct survey){0};
    for (unsigned i = 0; i < l->n; i++) {
        enum fraction_misfit why = fraction_fit_listed(&n->cards[i], a, w, l->of[i]);
        look_at(&n->cards[i], a, why, ret);
        if (why == FRACTION_FITS)
            fitting |= 1ULL << i;
    }
    ret->together = fraction_together(n->cards, fitting, w);
}

/* "3000 MiB and 30 % of compute" */
static void add_size(struct sb *out, const struct fraction_ask *a)
{
    if (a->memory_mib)
        sb_addf(out, "%u MiB", a->memory_mib);
    else
        sb_addf(out, "%u %% of the memory", a->memory_percent);
    if (a->percent)
        sb_addf(out, " and %u %% of compute", a->percent);
}

/* "needs 3000 MiB on one card", "needs 2 cards with 3000 MiB each" */
static void add_need(struct sb *out, const struct fraction_ask *a, const struct fraction_wish *w)
{
    if (a->container)
        sb_addf(out, "container %s ", a->container);
    if (a->count == 1) {
        sb_add(out, "needs ");
        add_size(out, a);
        sb_add(out, " on one card");
        return;
    }
    sb_addf(out, "needs %u cards%s with ", a->count, w->one_numa ? " of one NUMA node" : "");
    add_size(out, a);
    sb_add(out, " each");
}

/* The cards that the pod may not use for what they are. */
static void add_excluded(struct sb *out, const struct survey *s, unsigned n)
{
    static const struct {
        enum fraction_misfit why;
        const char *words;
    } kinds[] = {{FRACTION_ILL, "unhealthy"},
                 {FRACTION_CORDONED, "cordoned"},
                 {FRACTION_MODEL, "of another model"},
                 {FRACTION_UUID, "not among those that the pod names"},
                 {FRACTION_PART, "given out as a whole only"},
                 {FRACTION_LONELY, "shared by MPS, for containers with one share"}};
    const char *before = " (";
    for (size_t i = 0; i < ARRAY_LEN(kinds); i++) {
        if (!s->n[kinds[i].why])
            continue;
        sb_addf(out, "%s%u of %u %s %s", before, s->n[kinds[i].why], n,
                s->n[kinds[i].why] == 1 ? "is" : "are", kinds[i].words);
        before = ", ";
    }
    if (before[0] == ',')
        sb_add(out, ")");
}

/* "; 1 of 2 has too little memory left, 1 of 2 has all compute given out" */
static void add_reasons(struct sb *out, const struct survey *s)
{
    static const struct {
        uint16_t set; /* of reasons */
        const char *words;
    } kinds[] = {{1 << FRACTION_SHARES, "every share given out"},
                 {1 << FRACTION_MEMORY, "too little memory left"},
                 {1 << FRACTION_COMPUTE, "too little compute left"},
                 {1 << FRACTION_TAKEN, "all compute given out"},
                 {1 << FRACTION_BUSY | 1 << FRACTION_SHARED,
                  "shares already, and it wants a card alone"}};
    const char *before = "; ";
    for (size_t i = 0; i < ARRAY_LEN(kinds); i++) {
        unsigned n = 0;
        for (unsigned why = 0; why < FRACTION_N_MISFITS; why++)
            n += kinds[i].set >> why & 1 ? s->n[why] : 0;
        if (!n)
            continue;
        if (n == s->allowed)
            sb_addf(out, "%sall %u have %s", before, n, kinds[i].words);
        else
            sb_addf(out, "%s%u of %u %s %s", before, n, s->allowed, n == 1 ? "has" : "have",
                    kinds[i].words);
        before = ", ";
    }
}

/* "; the best of 8 has 2100": of one share, where a number says it. */
static void add_best(struct sb *out, const struct survey *s, const struct fraction_ask *a)
{
    if (!s->with_memory && a->memory_mib)
        sb_addf(out, "; the best of %u has %u MiB", s->allowed, s->best_memory_mib);
    else if (!s->with_memory)
        sb_addf(out, "; none of %u has as much left", s->allowed);
    else if (!s->with_percent)
        sb_addf(out, "; the best of %u has %u %%", s->allowed, s->best_percent);
    else
        add_reasons(out, s);
}

static void add_miss(struct sb *out, const struct survey *s, const struct fraction_node *n,
                     const struct fraction_ask *a, const struct fraction_wish *w)
{
    add_need(out, a, w);
    if (!n->n)
        sb_add(out, "; the node has no cards for shares");
    else if (!s->allowed)
        sb_addf(out, "; none of %u may be used", n->n);
    else if (!s->n[FRACTION_FITS] && a->count == 1)
        add_best(out, s, a);
    else
        sb_addf(out, "; %u of %u fit%s", s->together, s->allowed, w->one_numa ? " on one" : "");
    add_excluded(out, s, n->n);
}

char *fraction_words(const struct fraction_node *n, const struct fraction_pod *p)
{
    enum { TEXT_BYTES = 512 };
    auto_sb struct sb out = SB_INIT(TEXT_BYTES);
    struct listing listing;
    unsigned n_asking = 0;
    listing_init(&listing, n, &p->wish);
    for (unsigned i = 0; i < p->n; i++) {
        struct survey s;
        if (!p->asks[i].count)
            continue;
        n_asking++;
        survey(n, &p->asks[i], &p->wish, &listing, &s);
        if (s.together >= p->asks[i].count)
            continue;
        add_miss(&out, &s, n, &p->asks[i], &p->wish);
        return sb_take(&out);
    }
    sb_addf(&out, "each of the pod's %u containers fits by itself, and not all of them together",
            n_asking);
    return sb_take(&out);
}

char *fraction_misfit_words(const struct fraction_node *n, const struct fraction_ask *a,
                            const struct fraction_wish *w)
{
    enum { TEXT_BYTES = 512 };
    auto_sb struct sb out = SB_INIT(TEXT_BYTES);
    struct listing listing;
    struct survey s;
    listing_init(&listing, n, w);
    survey(n, a, w, &listing, &s);
    for (unsigned why = FRACTION_FITS + 1; why < FRACTION_N_MISFITS; why++)
        if (s.n[why])
            sb_addf(&out, "%s%u/%u %s", out.len ? ", " : "", s.n[why], n->n,
                    fraction_misfit_names[why]);
    return sb_take(&out);
}
