/* SPDX-License-Identifier: Apache-2.0 */
#include "partition/sgpu.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/num.h"

static_assert(SGPU_MAX_SLICES < 32, "plans are sets of bits");
static_assert(SGPU_ALIAS_MAX < SGPU_ALIAS_BYTES, "an alias fits with its end");

/* --- what makes sense on any card --- */

static int check_quota(const struct sgpu_want *w, int qos, struct err *e)
{
    unsigned least = qos == API_BEST_EFFORT ? 0 : 1;
    uint32_t below = w->quota.memory_mib - w->quota.memory_mib % SGPU_STEP_MIB;
    if (w->quota.memory_mib < SGPU_STEP_MIB)
        return err_set(e, ERR_INVALID,
                       "slice %s: %u MiB of memory are not a multiple of %u above 0; nearest: %u",
                       w->alias, w->quota.memory_mib, SGPU_STEP_MIB, SGPU_STEP_MIB);
    if (below != w->quota.memory_mib)
        return err_set(e, ERR_INVALID,
                       "slice %s: %u MiB of memory are not a multiple of %u above 0; nearest: %u "
                       "or %u",
                       w->alias, w->quota.memory_mib, SGPU_STEP_MIB, below, below + SGPU_STEP_MIB);
    if (w->quota.compute_percent < least || w->quota.compute_percent > 100)
        return err_set(e, ERR_INVALID, "slice %s: %u %% of compute are not from %u to 100",
                       w->alias, w->quota.compute_percent, least);
    return 0;
}

static bool has_twin(const struct sgpu_wants *w, unsigned i)
{
    for (unsigned k = 0; k < i; k++)
        if (strcmp(w->items[k].alias, w->items[i].alias) == 0)
            return true;
    return false;
}

int sgpu_wants_check(const struct sgpu_wants *w, struct err *e)
{
    unsigned compute = 0;
    if (w->n > SGPU_MAX_SLICES)
        return err_set(e, ERR_INVALID, "%u slices are more than the %u that a card takes", w->n,
                       SGPU_MAX_SLICES);
    for (unsigned i = 0; i < w->n; i++) {
        TRY(check_quota(&w->items[i], w->qos, e));
        if (!w->items[i].alias[0])
            return err_set(e, ERR_INVALID, "a slice has no alias");
        if (has_twin(w, i))
            return err_set(e, ERR_INVALID, "two slices have the alias %s", w->items[i].alias);
        compute += w->items[i].quota.compute_percent;
    }
    if (w->qos != API_BEST_EFFORT && compute > 100)
        return err_set(e, ERR_INVALID,
                       "the slices' compute adds up to %u %%; under %s at most 100 are given",
                       compute, api_qos_policy_names[w->qos]);
    return 0;
}

bool sgpu_wants_equal(const struct sgpu_wants *a, const struct sgpu_wants *b)
{
    if (a->qos != b->qos || a->timeslice_ms != b->timeslice_ms || a->dynamic != b->dynamic ||
        a->n != b->n)
        return false;
    for (unsigned i = 0; i < a->n; i++)
        if (strcmp(a->items[i].alias, b->items[i].alias) != 0 ||
            a->items[i].quota.memory_mib != b->items[i].quota.memory_mib ||
            a->items[i].quota.compute_percent != b->items[i].quota.compute_percent)
            return false;
    return true;
}

/* --- sums --- */

struct sums {
    uint64_t memory_mib, compute_percent;
    unsigned n;
};

/* The sum over these slices of the state. */
static struct sums taken(const struct sgpu_state *now, uint32_t which)
{
    struct sums sum = {0};
    for (unsigned i = 0; i < now->n; i++) {
        if (!(which & (1U << i)))
            continue;
        sum.memory_mib += now->items[i].quota.memory_mib;
        sum.compute_percent += now->items[i].quota.compute_percent;
        sum.n++;
    }
    return sum;
}

static unsigned room_left(unsigned all, uint64_t used)
{
    return used < all ? (unsigned)(all - used) : 0;
}

static struct sgpu_room room_beside(const struct sgpu_state *now, uint32_t which, int qos)
{
    struct sums sum = taken(now, which);
    return (struct sgpu_room){
        .memory_mib = room_left(now->memory_mib, sum.memory_mib),
        .compute_percent = qos == API_BEST_EFFORT ? 100 : room_left(100, sum.compute_percent),
        .slices = room_left(SGPU_MAX_SLICES, sum.n),
    };
}

struct sgpu_room sgpu_room(const struct sgpu_state *now)
{
    assert(now->n <= SGPU_MAX_SLICES);
    return room_beside(now, UINT32_MAX, now->qos);
}

/* --- the plan --- */

static uint32_t foreign_of(const struct sgpu_state *now)
{
    uint32_t foreign = 0;
    for (unsigned i = 0; i < now->n; i++)
        if (now->items[i].foreign)
            foreign |= 1U << i;
    return foreign;
}

/* Fails early when the wants do not fit beside the foreign slices, before existing ones are
 * compared. */
static bool fits(const struct sgpu_state *now, const struct sgpu_wants *w, struct sgpu_plan *ret)
{
    uint32_t foreign = foreign_of(now);
    struct sgpu_room room = room_beside(now, foreign, w->qos);
    const char *beside = foreign ? " beside slices that Cleave did not make" : "";
    uint64_t memory = 0;
    unsigned compute = 0;
    for (unsigned i = 0; i < w->n; i++) {
        memory += w->items[i].quota.memory_mib;
        compute += w->items[i].quota.compute_percent;
    }
    if (memory > room.memory_mib)
        (void)snprintf(ret->reason, sizeof(ret->reason),
                       "the slices take %" PRIu64 " MiB of memory and the card has %u%s", memory,
                       room.memory_mib, beside);
    else if (w->qos != API_BEST_EFFORT && compute > room.compute_percent)
        (void)snprintf(ret->reason, sizeof(ret->reason),
                       "the slices take %u %% of compute and the card has %u%s", compute,
                       room.compute_percent, beside);
    else if (w->n > room.slices)
        (void)snprintf(ret->reason, sizeof(ret->reason), "%u slices and the card takes %u%s", w->n,
                       room.slices, beside);
    else
        return true;
    return false;
}

static bool qos_is_free(const struct sgpu_state *now, const struct sgpu_wants *w,
                        struct sgpu_plan *ret)
{
    if (w->qos < 0 || now->qos == w->qos || !foreign_of(now))
        return true;
    (void)snprintf(ret->reason, sizeof(ret->reason),
                   "the QoS policy belongs to the whole card, and slices that Cleave did not "
                   "make have %s",
                   api_qos_policy_names[now->qos]);
    return false;
}

/* The first want with the slice's alias that has no slice yet. */
static int wanted_as(const struct sgpu_slice *s, const struct sgpu_wants *w, uint32_t missing)
{
    for (unsigned i = 0; i < w->n; i++)
        if (missing & (1U << i) && strcmp(s->alias, w->items[i].alias) == 0 &&
            s->quota.memory_mib == w->items[i].quota.memory_mib &&
            s->quota.compute_percent == w->items[i].quota.compute_percent)
            return (int)i;
    return -1;
}

/* Divides the existing slices into those that stay and those that go. When there are more of one
 * alias than wanted, the first ones stay. */
static void sort_standing(const struct sgpu_state *now, const struct sgpu_wants *w,
                          struct sgpu_plan *ret)
{
    ret->create = (uint32_t)((UINT64_C(1) << w->n) - 1);
    for (unsigned i = 0; i < now->n; i++) {
        const struct sgpu_slice *s = &now->items[i];
        int as = s->foreign || ret->set_qos ? -1 : wanted_as(s, w, ret->create);
        bool theirs = w->dynamic && !ret->set_qos && sgpu_slot_of(s->alias) >= 0;
        if (s->foreign || theirs || as >= 0) {
            ret->keep |= 1U << i;
            if (as >= 0)
                ret->create &= ~(1U << as);
            continue;
        }
        ret->destroy |= 1U << i;
        if (s->in_use)
            ret->blocking |= 1U << i;
    }
}

static void block_timeslice(const struct sgpu_state *now, struct sgpu_plan *ret)
{
    for (unsigned i = 0; ret->set_timeslice && i < now->n; i++)
        if (now->items[i].in_use)
            ret->blocking |= 1U << i;
}

void sgpu_plan(const struct sgpu_state *now, const struct sgpu_wants *wants, struct sgpu_plan *ret)
{
    auto_err struct err e = {0};
    if (sgpu_wants_check(wants, &e) == 0) {
        sgpu_plan_layout(now, wants, ret);
        return;
    }
    *ret = (struct sgpu_plan){.verdict = SGPU_PLAN_INFEASIBLE};
    (void)snprintf(ret->reason, sizeof(ret->reason), "%s", err_msg(&e));
}

void sgpu_plan_layout(const struct sgpu_state *now, const struct sgpu_wants *wants,
                      struct sgpu_plan *ret)
{
    assert(now->n <= SGPU_MAX_SLICES && wants->n <= SGPU_MAX_SLICES);
    *ret = (struct sgpu_plan){.verdict = SGPU_PLAN_INFEASIBLE};
    if (!qos_is_free(now, wants, ret) || !fits(now, wants, ret))
        return;
    ret->set_qos = wants->qos >= 0 && now->qos != wants->qos;
    ret->set_timeslice = wants->timeslice_ms && now->timeslice_ms != wants->timeslice_ms;
    sort_standing(now, wants, ret);
    block_timeslice(now, ret);
    assert((ret->keep ^ ret->destroy) == (1U << now->n) - 1 && !(ret->keep & ret->destroy));
    assert(ret->set_timeslice || !(ret->blocking & ~ret->destroy));
    bool change = ret->destroy || ret->create || ret->set_qos || ret->set_timeslice;
    ret->verdict = ret->blocking ? SGPU_PLAN_DRAIN : change ? SGPU_PLAN_CHANGE : SGPU_PLAN_NOTHING;
}

/* --- names --- */

#define SLOT "slot."

void sgpu_slot_alias(unsigned slot, char *buf)
{
    assert(slot < SGPU_MAX_SLOTS);
    (void)snprintf(buf, SGPU_ALIAS_BYTES, SLOT "%u", slot % SGPU_MAX_SLOTS);
}

int sgpu_slot_of(const char *alias)
{
    int64_t slot = -1;
    if (strncmp(alias, SLOT, strlen(SLOT)) != 0)
        return -1;
    const char *digits = alias + strlen(SLOT);
    bool padded = digits[0] == '0' && digits[1];
    if (padded || num_parse(digits, 0, SGPU_MAX_SLOTS - 1, &slot, /* e= */ NULL) < 0)
        return -1;
    return (int)slot;
}

bool sgpu_is_declared(const struct device_card *c, const struct device_partition *p)
{
    bool share = p->has_slice && c->mode == API_MODE_NATIVE;
    return !share && (!p->has_slice ||
                      (!p->slice.foreign && p->slice.alias && sgpu_slot_of(p->slice.alias) < 0));
}

/* The names derived from an alias (resources, ids, CDI devices) allow no other characters. */
static bool is_alias_text(const char *alias)
{
    size_t len = strlen(alias);
    return len > 0 && alias[0] != '-' && alias[len - 1] != '-' &&
           strspn(alias, "abcdefghijklmnopqrstuvwxyz0123456789-") == len;
}

bool sgpu_is_alias(const char *alias)
{
    return (is_alias_text(alias) && strlen(alias) <= SGPU_ALIAS_MAX) || sgpu_slot_of(alias) >= 0;
}

void sgpu_drop_slot(struct sgpu_state *s, unsigned slot)
{
    assert(s->n <= SGPU_MAX_SLICES && slot < SGPU_MAX_SLOTS);
    unsigned n = 0;
    for (unsigned i = 0; i < s->n; i++)
        if (s->items[i].foreign || sgpu_slot_of(s->items[i].alias) != (int)slot)
            s->items[n++] = s->items[i];
    s->n = n;
}

void sgpu_kind_of(const char *alias, char *buf)
{
    (void)snprintf(buf, SGPU_ALIAS_BYTES, "%s", alias);
    char *dash = strrchr(buf, '-');
    if (dash && dash[1] && dash[1 + strspn(dash + 1, "0123456789")] == '\0')
        *dash = '\0';
}

/* --- from a spec --- */

static int check_kind(const char *alias, struct err *e)
{
    char kind[SGPU_ALIAS_BYTES];
    sgpu_kind_of(alias, kind);
    if (!is_alias_text(alias))
        return err_set(e, ERR_INVALID,
                       "the alias \"%s\" may only have lower-case letters, digits, and dashes "
                       "between them",
                       alias);
    if (strlen(alias) <= SGPU_ALIAS_MAX && strcmp(kind, alias) != 0)
        return err_set(e, ERR_INVALID,
                       "the alias %s is also that of slice %s of %s; choose another", alias,
                       alias + strlen(kind) + 1, kind);
    return 0;
}

static int add_wants(const struct device_slice_want *from, struct sgpu_wants *w, struct err *e)
{
    int64_t count = from->count ? from->count : 1;
    TRY(check_kind(from->alias, e));
    for (int64_t i = 0; i < count; i++) {
        if (w->n == SGPU_MAX_SLICES)
            return err_set(e, ERR_INVALID, "more slices are wanted than the %u that a card takes",
                           SGPU_MAX_SLICES);
        struct sgpu_want *item = &w->items[w->n++];
        int len = count == 1
                      ? snprintf(item->alias, sizeof(item->alias), "%s", from->alias)
                      : snprintf(item->alias, sizeof(item->alias), "%s-%" PRId64, from->alias, i);
        if (len < 0 || len > SGPU_ALIAS_MAX)
            return err_set(e, ERR_INVALID, "the alias %s is too long for %" PRId64 " slices",
                           from->alias, count);
        item->quota =
            (struct sgpu_quota){(unsigned)from->memory_mib, (unsigned)from->compute_percent};
    }
    return 0;
}

int sgpu_wants_of(const struct device_sgpu *spec, struct sgpu_wants *ret, struct err *e)
{
    bool of_pods = spec->n_slices == 0;
    struct sgpu_wants w = {.qos = of_pods && !spec->has_qos_policy ? -1 : spec->qos_policy,
                           .timeslice_ms = (unsigned)spec->timeslice_ms,
                           .dynamic = of_pods};
    for (size_t i = 0; i < spec->n_slices; i++)
        TRY(add_wants(&spec->slices[i], &w, e));
    assert(!w.dynamic || w.n == 0);
    *ret = w;
    return 0;
}
