/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "base/err.h"

#include "partition/mig.h"
#include "test/fuzz/bytes.h"

/*
 * Input: a table of MIG profiles as a driver or an agent may send it, what stands on the card, and
 * what is wanted. Any table that passes the check is planned with, in bounded time, and a plan is
 * one that the card can hold.
 */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

static void take_profile(struct bytes *b, unsigned number, struct mig_profile *p)
{
    static const char *const attributes[] = {"", "+me", "+me.all", "-me"};
    *p = (struct mig_profile){.id = number};
    p->slices = take(b) % 40;
    p->size = take(b) % 40;
    p->max_count = take(b) % 40;
    p->engines.jpeg = take(b);
    (void)snprintf(p->name, sizeof(p->name), "%ug.%ugb%s", p->slices, number + 1,
                   attributes[take(b) % 4]);
    p->n_starts = take(b) % (MIG_MAX_PLACEMENTS + 2);
    unsigned at = 0;
    for (unsigned i = 0; i < p->n_starts && i < MIG_MAX_PLACEMENTS; i++) {
        p->starts[i] = (uint8_t)at;
        at += take(b) % 9;
    }
}

static void take_table(struct bytes *b, struct mig_table *t)
{
    *t = (struct mig_table){.memory_slices = take(b) % 36, .n_profiles = take(b) % 12};
    for (unsigned i = 0; i < t->n_profiles; i++) {
        take_profile(b, i, &t->profiles[i]);
        if (t->profiles[i].slices > t->slices)
            t->slices = t->profiles[i].slices;
    }
}

static void take_state(struct bytes *b, struct mig_state *s)
{
    *s = (struct mig_state){.n = take(b) % 5};
    for (unsigned i = 0; i < s->n; i++) {
        struct mig_instance *in = &s->items[i];
        unsigned profile = take(b);
        *in = (struct mig_instance){.profile = profile < 16 ? profile : MIG_NO_PROFILE, .gi_id = i};
        in->start = take(b) % 34;
        in->size = take(b) % 34;
        in->n_cis = take(b) % (MIG_MAX_CIS + 1);
        for (unsigned c = 0; c < in->n_cis; c++)
            in->cis[c] =
                (struct mig_ci){.id = c, .slices = take(b) % 34, .in_use = take(b) % 3 == 0};
        in->in_use = take(b) % 3 == 0;
    }
}

static void take_wants(struct bytes *b, struct mig_wants *w)
{
    *w = (struct mig_wants){.n = take(b) % 9};
    for (unsigned i = 0; i < w->n; i++) {
        w->items[i].profile = take(b) % 13;
        w->items[i].ci_slices = take(b) % 12;
        w->items[i].count = take(b);
    }
}

static void check_new(const struct mig_table *t, const struct mig_new *it, uint64_t *taken)
{
    assert(it->profile < t->n_profiles && it->n_cis > 0 && it->n_cis <= MIG_MAX_CIS);
    const struct mig_profile *p = &t->profiles[it->profile];
    unsigned slices = 0;
    for (unsigned c = 0; c < it->n_cis; c++)
        slices += it->cis[c];
    assert(slices <= p->slices);
    assert(it->start + p->size <= t->memory_slices);
    uint64_t memory_slices = ((UINT64_C(1) << p->size) - 1) << it->start;
    assert(!(*taken & memory_slices));
    *taken |= memory_slices;
}

static void check_plan(const struct mig_table *t, const struct mig_state *now,
                       const struct mig_plan *p)
{
    uint32_t all = (UINT32_C(1) << now->n) - 1;
    uint64_t taken = 0;
    assert(memchr(p->reason, '\0', sizeof(p->reason)));
    assert((p->keep & p->destroy) == 0 && (p->keep | p->destroy) == all);
    assert(p->n_create <= MIG_MAX_INSTANCES && p->n_recut <= MIG_MAX_INSTANCES);
    if (p->verdict == MIG_PLAN_INFEASIBLE) {
        assert(p->reason[0] && !p->n_create && !p->n_recut && !p->destroy);
        assert(mig_feasible(t, &p->nearest));
        return;
    }
    if (p->verdict == MIG_PLAN_NOTHING)
        return;
    for (unsigned i = 0; i < now->n; i++) {
        const struct mig_instance *in = &now->items[i];
        if (p->keep >> i & 1)
            taken |= in->start < 32 ? (((UINT64_C(1) << in->size) - 1) << in->start) &
                                          ((UINT64_C(1) << t->memory_slices) - 1)
                                    : 0;
    }
    for (unsigned i = 0; i < p->n_create; i++)
        check_new(t, &p->create[i], &taken);
    for (unsigned i = 0; i < p->n_recut; i++)
        assert(p->recut[i].n_create <= MIG_MAX_CIS && p->recut[i].instance < now->n);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    struct bytes b = {data, len};
    struct mig_table t;
    struct mig_state now;
    struct mig_wants wants;
    struct mig_plan plan;
    auto_err struct err e = {0};
    take_table(&b, &t);
    if (mig_table_check(&t, &e) < 0) {
        assert(e.kind == ERR_INVALID && e.msg);
        return 0;
    }
    take_state(&b, &now);
    take_wants(&b, &wants);
    mig_plan(&t, &now, &wants, &plan);
    check_plan(&t, &now, &plan);
    return 0;
}
