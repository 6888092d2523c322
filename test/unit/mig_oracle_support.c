/* SPDX-License-Identifier: Apache-2.0 */
#include "mig_oracle_support.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/xalloc.h"

static unsigned count_of(uint64_t counts, unsigned profile)
{
    return (unsigned)(counts >> (4 * profile) & 15);
}

static bool ends_in(const char *name, const char *tail)
{
    size_t n = strlen(name), m = strlen(tail);
    return n >= m && strcmp(name + n - m, tail) == 0;
}

struct usage {
    unsigned slices, copy, decoder, encoder, jpeg, ofa, me, me_all, no_me, all;
};

static struct usage use(const struct mig_table *t, uint64_t counts)
{
    struct usage u = {0};
    for (unsigned i = 0; i < t->n_profiles; i++) {
        const struct mig_profile *p = &t->profiles[i];
        unsigned n = count_of(counts, i);
        u.slices += n * p->slices;
        u.copy += n * p->engines.copy;
        u.decoder += n * p->engines.decoder;
        u.encoder += n * p->engines.encoder;
        u.jpeg += n * p->engines.jpeg;
        u.ofa += n * p->engines.ofa;
        u.me += ends_in(p->name, "+me") ? n : 0;
        u.me_all += ends_in(p->name, "+me.all") ? n : 0;
        u.no_me += ends_in(p->name, "-me") ? n : 0;
        u.all += n;
    }
    return u;
}

/* Whether a kind of engines is believed: no profile alone, as often as it may be, has too many. */
#define BELIEVED(t, full, field)                                                                   \
    ({                                                                                             \
        bool ok_ = true;                                                                           \
        for (unsigned i_ = 0; i_ < (t)->n_profiles; i_++)                                          \
            ok_ &= (t)->profiles[i_].max_count * (t)->profiles[i_].engines.field <=                \
                   (full)->engines.field;                                                          \
        ok_;                                                                                       \
    })

/* The profile of the whole card is the one placed at the whole grid; all tables here have it. */
static const struct mig_profile *full_profile(const struct mig_table *t)
{
    for (unsigned i = 0; i < t->n_profiles; i++) {
        if (t->profiles[i].size == t->memory_slices)
            return &t->profiles[i];
    }
    abort();
}

static bool is_legal(const struct mig_table *t, uint64_t counts)
{
    const struct mig_profile *full = full_profile(t);
    struct usage u = use(t, counts);
    for (unsigned i = 0; i < t->n_profiles; i++) {
        if (count_of(counts, i) > t->profiles[i].max_count)
            return false;
    }
    if (u.slices > t->slices || u.me > 1 || (u.me_all && u.all - u.no_me > 1))
        return false;
    return (!BELIEVED(t, full, copy) || u.copy <= full->engines.copy) &&
           (!BELIEVED(t, full, decoder) || u.decoder <= full->engines.decoder) &&
           (!BELIEVED(t, full, encoder) || u.encoder <= full->engines.encoder) &&
           (!BELIEVED(t, full, jpeg) || u.jpeg <= full->engines.jpeg) &&
           (!BELIEVED(t, full, ofa) || u.ofa <= full->engines.ofa);
}

/* Every set that has the spots chosen so far and some of those from `next` on; grid says which
 * memory slices are covered. No cutting off: a set is judged when it is complete. */
static void enumerate(struct mig_oracle *o, unsigned next, const bool grid[MIG_MAX_MEMORY_SLICES],
                      struct mig_oracle_set set)
{
    if (next == o->n_spots) {
        if (is_legal(o->table, set.counts))
            *XPUSH(o->sets, o->n_sets) = set;
        return;
    }
    enumerate(o, next + 1, grid, set);
    const struct mig_oracle_spot *spot = &o->spots[next];
    bool covered[MIG_MAX_MEMORY_SLICES];
    memcpy(covered, grid, sizeof(covered));
    for (unsigned i = 0; i < o->table->profiles[spot->profile].size; i++) {
        if (covered[spot->start + i])
            return;
        covered[spot->start + i] = true;
    }
    set.spots |= UINT32_C(1) << next;
    set.counts += UINT64_C(1) << (4 * spot->profile);
    enumerate(o, next + 1, covered, set);
}

static int by_counts(const void *a, const void *b)
{
    const struct mig_oracle_set *x = a, *y = b;
    return (x->counts > y->counts) - (x->counts < y->counts);
}

void mig_oracle_init(struct mig_oracle *o, const struct mig_table *t)
{
    *o = (struct mig_oracle){.table = t};
    for (unsigned p = 0; p < t->n_profiles; p++) {
        for (unsigned i = 0; i < t->profiles[p].n_starts; i++) {
            assert(o->n_spots < MIG_ORACLE_SPOTS);
            o->spots[o->n_spots++] = (struct mig_oracle_spot){p, t->profiles[p].starts[i]};
        }
    }
    bool grid[MIG_MAX_MEMORY_SLICES] = {false};
    enumerate(o, 0, grid, (struct mig_oracle_set){0});
    qsort(o->sets, o->n_sets, sizeof(o->sets[0]), by_counts);
}

void mig_oracle_done(struct mig_oracle *o)
{
    free(o->sets);
}

const struct mig_oracle_set *mig_oracle_find(const struct mig_oracle *o, uint64_t counts,
                                             size_t *ret_n)
{
    size_t low = 0;
    for (size_t high = o->n_sets; low < high;) {
        size_t mid = (low + high) / 2;
        if (o->sets[mid].counts < counts)
            low = mid + 1;
        else
            high = mid;
    }
    *ret_n = 0;
    while (low + *ret_n < o->n_sets && o->sets[low + *ret_n].counts == counts)
        ++*ret_n;
    return o->sets + low;
}

bool mig_oracle_next(const struct mig_table *t, uint64_t *counts)
{
    for (unsigned p = 0; p < t->n_profiles; p++) {
        if (count_of(*counts, p) < t->profiles[p].max_count) {
            *counts += UINT64_C(1) << (4 * p);
            return true;
        }
        *counts &= ~(UINT64_C(15) << (4 * p));
    }
    return false;
}

void mig_oracle_wants(const struct mig_table *t, uint64_t counts, struct mig_wants *ret)
{
    ret->n = 0;
    for (unsigned p = 0; p < t->n_profiles; p++) {
        unsigned n = count_of(counts, p);
        if (n > 0)
            ret->items[ret->n++] = (struct mig_want){.profile = p, .count = n};
    }
}

void mig_oracle_state(const struct mig_oracle *o, uint32_t spots, uint32_t in_use,
                      struct mig_state *ret)
{
    ret->n = 0;
    for (unsigned i = 0; i < o->n_spots; i++) {
        if (!(spots >> i & 1))
            continue;
        const struct mig_profile *p = &o->table->profiles[o->spots[i].profile];
        bool busy = in_use >> i & 1;
        ret->items[ret->n] = (struct mig_instance){
            .profile = o->spots[i].profile,
            .gi_id = ret->n + 1,
            .start = o->spots[i].start,
            .size = p->size,
            .in_use = busy,
            .n_cis = 1,
            .cis = {{.slices = p->slices, .in_use = busy}},
        };
        ret->n++;
    }
}
