/* SPDX-License-Identifier: Apache-2.0 */
#include "partition/mig_explain.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/auto.h"
#include "base/sb.h"

#include "partition/mig_feasible.h"
#include "partition/mig_pack.h"

/* A long list of partitions is cut here, so that the limit that it exceeds still fits the
 * buffer. */
#define MAX_WHAT_BYTES 150

static const char *const engine_names[MIG_N_ENGINES] = {
    [MIG_COPY] = "copy engines", [MIG_DECODER] = "decoders",         [MIG_ENCODER] = "encoders",
    [MIG_JPEG] = "JPEG engines", [MIG_OFA] = "optical flow engines",
};

/* A want that the table does not have; NULL when there is none. */
static const struct mig_want *find_unknown(const struct mig_table *t, const struct mig_wants *w)
{
    for (unsigned i = 0; i < w->n; i++) {
        struct mig_wants one = {.n = 1, .items = {w->items[i]}};
        struct mig_demand d;
        if (!mig_demand_init(t, &one, &d))
            return &w->items[i];
    }
    return NULL;
}

static void explain_unknown(const struct mig_table *t, const struct mig_want *w, struct sb *b)
{
    if (w->profile >= t->n_profiles) {
        sb_add(b, "the card offers no such profile");
        return;
    }
    const struct mig_profile *p = &t->profiles[w->profile];
    if (mig_want_kind(t, &(struct mig_want){.profile = w->profile}) == MIG_CI_KINDS)
        sb_addf(b, "%s has no placement on this card", p->name);
    else
        sb_addf(b, "%s offers no compute instance of %u slices", p->name, w->ci_slices);
}

/* Removes every kind without which the rest is still infeasible, as far as the search can prove
 * it. */
static void narrow(const struct mig_table *t, const struct mig_limits *l, struct mig_wants *w)
{
    struct mig_effort effort = mig_effort_whole();
    for (unsigned i = w->n; i-- > 0;) {
        unsigned count = w->items[i].count;
        w->items[i].count = 0;
        if (mig_feasible_within(t, l, w, &effort) || mig_effort_is_spent(&effort))
            w->items[i].count = count;
    }
}

static unsigned divide_up(uint64_t a, unsigned b)
{
    uint64_t q = (a + b - 1) / b;
    return q < UINT32_MAX ? (unsigned)q : UINT32_MAX;
}

static unsigned greatest(unsigned a, unsigned b)
{
    return a > b ? a : b;
}

/* Number of GPU instances that the compute instances of one profile take: exact where that many are
 * allowed, otherwise a lower bound from their slices and the largest kind. */
static unsigned instances_needed(const struct mig_table *t, unsigned profile,
                                 const struct mig_wants *w, const struct mig_cuts *demand)
{
    const struct mig_profile *p = &t->profiles[profile];
    struct mig_packing bins;
    bins.n = 0;
    struct mig_effort effort = mig_effort_whole();
    if (mig_pack(p->slices, demand, p->max_count, &effort, &bins))
        return bins.n;
    uint64_t slices = 0;
    unsigned most = (p->max_count < MIG_MAX_INSTANCES ? p->max_count : MIG_MAX_INSTANCES) + 1;
    for (unsigned i = 0; i < w->n; i++) {
        if (w->items[i].profile != profile || w->items[i].count == 0)
            continue;
        unsigned kind = mig_cut_kind(p->slices, w->items[i].ci_slices);
        unsigned size = mig_cut_slices(p->slices, kind);
        slices += (uint64_t)w->items[i].count * size;
        most = greatest(most, divide_up(w->items[i].count, mig_ci_max(p->slices, size)));
    }
    return greatest(most, divide_up(slices, p->slices));
}

static void count(const struct mig_table *t, const struct mig_wants *w, struct mig_counts *ret)
{
    struct mig_demand d;
    bool known = mig_demand_init(t, w, &d);
    assert(known);
    *ret = (struct mig_counts){0};
    for (unsigned p = 0; p < t->n_profiles; p++) {
        if (mig_cuts_total(&d.of[p]) > 0)
            ret->of[p] = instances_needed(t, p, w, &d.of[p]);
    }
}

static void explain_breach(const struct mig_table *t, const struct mig_breach *b, const char *what,
                           struct sb *s)
{
    switch (b->limit) {
    case MIG_LIMIT_MEMORY_SLICES:
        sb_addf(s, "%s needs %" PRIu64 " of %u memory slices", what, b->needs, b->has);
        break;
    case MIG_LIMIT_SLICES:
        sb_addf(s, "%s needs %" PRIu64 " of %u compute slices", what, b->needs, b->has);
        break;
    case MIG_LIMIT_ME_ALL:
        sb_addf(s, "%s: +me.all takes every media engine, only -me profiles can stand beside it",
                what);
        break;
    case MIG_LIMIT_ME:
        sb_addf(s, "%s: at most 1 partition with +me per card", what);
        break;
    case MIG_LIMIT_MAX_COUNT:
        sb_addf(s, "%s at most %u per card, not %" PRIu64, t->profiles[b->profile].name, b->has,
                b->needs);
        break;
    case MIG_LIMIT_ENGINES:
        sb_addf(s, "%s needs %" PRIu64 " of %u %s", what, b->needs, b->has,
                engine_names[b->engine]);
        break;
    case MIG_LIMIT_INSTANCES:
        sb_addf(s, "%s needs %" PRIu64 " GPU instances, at most %u are handled", what, b->needs,
                b->has);
        break;
    case MIG_LIMIT_NONE:
        sb_addf(s, "%s: their possible placements overlap in every arrangement", what);
        break;
    }
}

void mig_explain(const struct mig_table *t, const struct mig_limits *l,
                 const struct mig_wants *wants, char *buf, size_t bytes)
{
    assert(bytes > 0);
    auto_sb struct sb b = SB_INIT(1024);
    const struct mig_want *unknown = find_unknown(t, wants);
    if (unknown) {
        explain_unknown(t, unknown, &b);
    } else {
        struct mig_wants core = *wants;
        narrow(t, l, &core);
        struct mig_counts all;
        count(t, &core, &all);
        struct mig_breach breach = mig_limits_check(t, l, &all);
        auto_free char *what = mig_wants_text(t, &core);
        if (strlen(what) > MAX_WHAT_BYTES)
            memcpy(what + MAX_WHAT_BYTES - 3, "...", 4);
        explain_breach(t, &breach, what, &b);
    }
    (void)snprintf(buf, bytes, "%s", sb_str(&b));
}
