/* SPDX-License-Identifier: Apache-2.0 */
#include "test/unit/gpu_fake_support.h"

#include <assert.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/xalloc.h"

struct fake_gpu {
    struct gpu gpu; /* first */
    struct fake_hw *hw;
};

/* --- hardware --- */

/* reference: MIG user guide, A100/H100 placements; the ids are the driver's. */
static const struct mig_profile profiles[] = {
    {.name = "1g.10gb",
     .id = 19,
     .slices = 1,
     .size = 1,
     .max_count = 7,
     .memory_mib = 9856,
     .n_starts = 7,
     .starts = {0, 1, 2, 3, 4, 5, 6}},
    {.name = "1g.10gb+me",
     .id = 20,
     .slices = 1,
     .size = 1,
     .max_count = 1,
     .memory_mib = 9856,
     .n_starts = 7,
     .starts = {0, 1, 2, 3, 4, 5, 6},
     .engines = {.copy = 1, .decoder = 1, .jpeg = 1, .ofa = 1}},
    {.name = "1g.20gb",
     .id = 15,
     .slices = 1,
     .size = 2,
     .max_count = 4,
     .memory_mib = 19968,
     .n_starts = 4,
     .starts = {0, 2, 4, 6}},
    {.name = "2g.20gb",
     .id = 14,
     .slices = 2,
     .size = 2,
     .max_count = 3,
     .memory_mib = 19968,
     .n_starts = 3,
     .starts = {0, 2, 4}},
    {.name = "3g.40gb",
     .id = 9,
     .slices = 3,
     .size = 4,
     .max_count = 2,
     .memory_mib = 40192,
     .n_starts = 2,
     .starts = {0, 4}},
    {.name = "4g.40gb",
     .id = 5,
     .slices = 4,
     .size = 4,
     .max_count = 1,
     .memory_mib = 40192,
     .n_starts = 1,
     .starts = {0}},
    {.name = "7g.80gb",
     .id = 0,
     .slices = 7,
     .size = 8,
     .max_count = 1,
     .memory_mib = 80384,
     .n_starts = 1,
     .starts = {0}},
};

static void set_table(struct mig_table *t)
{
    t->memory_slices = 8;
    t->slices = 7;
    t->n_profiles = ARRAY_LEN(profiles);
    memcpy(t->profiles, profiles, sizeof(profiles));
}

struct fake_card *fake_add(struct fake_hw *hw, enum fake_model model)
{
    assert(hw->n_cards < FAKE_MAX_CARDS);
    struct fake_card *c = &hw->cards[hw->n_cards];
    struct gpu_card *g = &c->card;
    bool metax = model == FAKE_C500;
    g->vendor = metax ? "metax" : "nvidia";
    g->index = g->minor = hw->n_cards;
    (void)snprintf(g->uuid, sizeof(g->uuid), "GPU-%08u-fake", hw->n_cards++);
    (void)snprintf(g->model, sizeof(g->model), "%s",
                   metax                ? "C500"
                   : model == FAKE_A100 ? "A100"
                                        : "H100");
    g->healthy = true;
    g->numa_node = -1;
    g->mig_capable = model != FAKE_NO_MIG && !metax;
    g->sgpu_capable = metax;
    if (metax)
        g->sgpu = (struct sgpu_state){.memory_mib = 65536, .timeslice_ms = 10};
    g->mode_needs_reset = model == FAKE_A100;
    if (g->mig_capable)
        set_table(&g->mig);
    return c;
}

unsigned fake_profile(const struct fake_card *c, const char *name)
{
    for (unsigned i = 0; i < c->card.mig.n_profiles; i++)
        if (strcmp(c->card.mig.profiles[i].name, name) == 0)
            return i;
    abort(); /* the test names a profile that is not there */
}

static int find_gi(const struct fake_card *c, unsigned gi_id)
{
    for (unsigned i = 0; i < c->card.state.n; i++)
        if (c->card.state.items[i].gi_id == gi_id)
            return (int)i;
    return -1;
}

static unsigned free_gi_id(const struct fake_card *c)
{
    unsigned id = 1;
    while (find_gi(c, id) >= 0)
        id++;
    return id;
}

/* Compute slices of instance i that are taken, as bits; partitions hold where each one is. */
static uint32_t taken_slices(const struct fake_card *c, unsigned i)
{
    uint32_t taken = 0;
    for (unsigned p = 0; p < c->card.n_partitions; p++) {
        const struct gpu_partition *part = &c->card.partitions[p];
        if (part->instance == i)
            taken |= ((1U << c->card.state.items[i].cis[part->ci].slices) - 1) << part->ci_start;
    }
    return taken;
}

/* Where GPU instances of the size may lie, compute instances may: a 3c at 0 and 4. */
static unsigned stride_of(unsigned slices)
{
    return slices < 3 ? slices : 4;
}

static int first_fit(uint32_t taken, unsigned slices, unsigned room)
{
    for (unsigned s = 0; s + slices <= room; s += stride_of(slices))
        if (!(taken & (((1U << slices) - 1) << s)))
            return (int)s;
    return -1;
}

static int make_ci(struct fake_card *c, unsigned i, unsigned slices, int start, unsigned serial)
{
    struct mig_instance *in = &c->card.state.items[i];
    uint32_t taken = taken_slices(c, i);
    unsigned room = c->card.mig.profiles[in->profile].slices;
    if (start < 0)
        start = first_fit(taken, slices, room);
    if (start < 0 || (unsigned)start % stride_of(slices) || (unsigned)start + slices > room ||
        taken & (((1U << slices) - 1) << start) || in->n_cis == MIG_MAX_CIS)
        return -1;
    unsigned id = 0;
    for (unsigned k = 0; k < in->n_cis; k++)
        if (in->cis[k].id == id) {
            id++;
            k = UINT32_MAX; /* start over */
        }
    struct gpu_partition *p = &c->card.partitions[c->card.n_partitions++];
    *p = (struct gpu_partition){.healthy = true,
                                .gi_id = in->gi_id,
                                .ci_id = id,
                                .instance = i,
                                .ci = in->n_cis,
                                .ci_start = start};
    (void)snprintf(p->uuid, sizeof(p->uuid), "MIG-%u", serial);
    in->cis[in->n_cis++] = (struct mig_ci){.id = id, .slices = slices};
    return (int)id;
}

static int make_gi(struct fake_card *c, unsigned profile, unsigned start)
{
    struct mig_state *s = &c->card.state;
    const struct mig_profile *p = &c->card.mig.profiles[profile];
    if (!memchr(p->starts, (int)start, p->n_starts))
        return -1;
    for (unsigned i = 0; i < s->n; i++)
        if (start < s->items[i].start + s->items[i].size && s->items[i].start < start + p->size)
            return -1;
    unsigned id = free_gi_id(c);
    s->items[s->n++] =
        (struct mig_instance){.profile = profile, .gi_id = id, .start = start, .size = p->size};
    return (int)id;
}

static void drop_partition(struct fake_card *c, unsigned at)
{
    struct gpu_card *g = &c->card;
    struct gpu_partition gone = g->partitions[at];
    struct mig_instance *in = &g->state.items[gone.instance];
    memmove(&g->partitions[at], &g->partitions[at + 1],
            (g->n_partitions - at - 1) * sizeof(g->partitions[0]));
    g->n_partitions--;
    memmove(&in->cis[gone.ci], &in->cis[gone.ci + 1],
            (in->n_cis - gone.ci - 1) * sizeof(in->cis[0]));
    in->n_cis--;
    for (unsigned p = 0; p < g->n_partitions; p++)
        if (g->partitions[p].instance == gone.instance && g->partitions[p].ci > gone.ci)
            g->partitions[p].ci--;
}

static void drop_gi(struct fake_card *c, unsigned i)
{
    struct mig_state *s = &c->card.state;
    memmove(&s->items[i], &s->items[i + 1], (s->n - i - 1) * sizeof(s->items[0]));
    s->n--;
    for (unsigned p = 0; p < c->card.n_partitions; p++)
        if (c->card.partitions[p].instance > i)
            c->card.partitions[p].instance--;
}

void fake_put(struct fake_card *c, const char *profile, unsigned start, const unsigned *cis)
{
    static unsigned serial = 1000;
    int id = make_gi(c, fake_profile(c, profile), start);
    assert(id >= 0 && c->card.mode == GPU_MIG);
    for (; *cis; cis++) {
        int ci = make_ci(c, c->card.state.n - 1, *cis, -1, serial++);
        assert(ci >= 0);
    }
}

static int find_slice(const struct fake_card *c, unsigned id)
{
    for (unsigned i = 0; i < c->card.sgpu.n; i++)
        if (c->card.sgpu.items[i].id == id)
            return (int)i;
    return -1;
}

unsigned fake_slice(struct fake_card *c, const char *alias, struct sgpu_quota quota, bool foreign)
{
    struct sgpu_state *s = &c->card.sgpu;
    assert(c->card.mode == GPU_SGPU && s->n < SGPU_MAX_SLICES);
    unsigned id = 0;
    while (find_slice(c, id) >= 0)
        id++;
    struct gpu_slice *more = &c->card.slices[s->n];
    *more = (struct gpu_slice){.minor = id, .healthy = true};
    (void)snprintf(more->uuid, sizeof(more->uuid), "GPU-slice-%u", id);
    (void)snprintf(more->alias, sizeof(more->alias), "%s%s", foreign ? "" : "cleave.", alias);
    struct sgpu_slice *slice = &s->items[s->n++];
    *slice = (struct sgpu_slice){.id = id, .quota = quota, .foreign = foreign};
    (void)snprintf(slice->alias, sizeof(slice->alias), "%s", alias);
    return id;
}

void fake_attach(struct fake_card *c, struct fake_process p)
{
    for (size_t i = 0; i < ARRAY_LEN(c->users); i++)
        if (c->users[i].pid == 0) {
            c->users[i] = p;
            return;
        }
    abort(); /* more processes than the fake has places for */
}

void fake_heal(struct fake_hw *hw)
{
    hw->calls = 0;
    hw->fail_at = hw->fail_after_at = hw->fail_count = 0;
    hw->kill_at = hw->kill_after_at = hw->attach_at = 0;
    hw->dead = false;
    hw->on_kill = NULL;
}

/* --- who uses what --- */

static bool is_on(const struct fake_process *p, const struct mig_instance *in)
{
    return p->pid && p->start == (int)in->start;
}

static bool uses_ci(const struct fake_card *c, const struct gpu_partition *part)
{
    for (size_t i = 0; i < ARRAY_LEN(c->users); i++) {
        const struct fake_process *p = &c->users[i];
        if (is_on(p, &c->card.state.items[part->instance]) &&
            (p->ci_start < 0 || p->ci_start == part->ci_start))
            return true;
    }
    return false;
}

static bool uses_slice(const struct fake_card *c, unsigned id)
{
    for (size_t i = 0; i < ARRAY_LEN(c->users); i++)
        if (c->users[i].pid && c->users[i].start == (int)id)
            return true;
    return false;
}

static bool uses_card(const struct fake_card *c)
{
    for (size_t i = 0; i < ARRAY_LEN(c->users); i++)
        if (c->users[i].pid)
            return true;
    return false;
}

static void mark_use(const struct fake_card *c, struct gpu_card *ret)
{
    for (unsigned p = 0; p < ret->n_partitions; p++) {
        if (!uses_ci(c, &ret->partitions[p]))
            continue;
        ret->state.items[ret->partitions[p].instance].in_use = true;
        ret->state.items[ret->partitions[p].instance].cis[ret->partitions[p].ci].in_use = true;
    }
    for (unsigned i = 0; i < ret->sgpu.n; i++)
        ret->sgpu.items[i].in_use = uses_slice(c, ret->sgpu.items[i].id);
    ret->users = xcalloc(ARRAY_LEN(c->users), sizeof(*ret->users));
    for (size_t i = 0; i < ARRAY_LEN(c->users); i++) {
        const struct fake_process *p = &c->users[i];
        if (!p->pid)
            continue;
        struct gpu_user *shown = &ret->users[ret->n_users++];
        *shown = (struct gpu_user){.pid = p->pid, .name = "train", .part = -1, .ci = -1};
        for (unsigned k = 0; k < c->card.state.n; k++)
            if (is_on(p, &c->card.state.items[k]))
                shown->part = (int)c->card.state.items[k].gi_id;
        if (c->card.sgpu_capable)
            shown->part = p->start;
    }
}

/* --- calls --- */

/* Several threads may call, as of a vendor's library. */
static pthread_mutex_t one_at_a_time = PTHREAD_MUTEX_INITIALIZER;

static void die(struct fake_hw *hw)
{
    hw->dead = true;
    if (hw->on_kill)
        hw->on_kill(hw->on_kill_arg);
}

static int refuse(struct err *e, enum err_kind kind, const char *reason, const char *what)
{
    int rc = err_set(e, kind, "%s", what);
    if (e)
        e->reason = reason;
    return rc;
}

static bool is_within(unsigned call, unsigned from, unsigned count)
{
    return from && call >= from && call < from + (count ? count : 1);
}

/* Before a call's effect. */
static int enter(struct fake_hw *hw, struct err *e)
{
    unsigned call = ++hw->calls;
    if (hw->attach_at == call)
        fake_attach(&hw->cards[hw->attach_card], hw->attach);
    if (hw->kill_at == call && !hw->dead)
        die(hw);
    if (hw->dead)
        return refuse(e, ERR_UNAVAILABLE, NULL, "the process is dead");
    if (is_within(call, hw->fail_at, hw->fail_count))
        return refuse(e, ERR_UNAVAILABLE, "NVMLError", "injected");
    return 0;
}

/* After a call's effect. */
static int leave(struct fake_hw *hw, struct err *e)
{
    if (hw->kill_after_at == hw->calls) {
        die(hw);
        return refuse(e, ERR_UNAVAILABLE, NULL, "the process is dead");
    }
    if (is_within(hw->calls, hw->fail_after_at, hw->fail_count))
        return refuse(e, ERR_UNAVAILABLE, "NVMLError", "injected, after the effect");
    return 0;
}

static struct fake_hw *hw_of(struct gpu *g)
{
    return ((struct fake_gpu *)g)->hw;
}

static int find_card(struct gpu *g, const char *uuid, struct fake_card **ret, struct err *e)
{
    struct fake_hw *hw = hw_of(g);
    TRY(enter(hw, e));
    for (unsigned i = 0; i < hw->n_cards; i++)
        if (strcmp(hw->cards[i].card.uuid, uuid) == 0) {
            *ret = &hw->cards[i];
            return 0;
        }
    return err_set(e, ERR_NOT_FOUND, "no card %s", uuid);
}

static int find_to_change(struct gpu *g, const char *uuid, struct fake_card **ret, struct err *e)
{
    TRY(find_card(g, uuid, ret, e));
    (*ret)->mutations++;
    return 0;
}

static int violation(struct gpu *g, struct err *e)
{
    hw_of(g)->violations++;
    return refuse(e, ERR_UNAVAILABLE, "InUse", "in use");
}

static int fake_read(struct gpu *g, struct gpu_inventory *ret, struct err *e)
{
    HOLD(&one_at_a_time);
    struct fake_hw *hw = hw_of(g);
    TRY(enter(hw, e));
    *ret = (struct gpu_inventory){.n_drivers = 1,
                                  .drivers = {{.vendor = "nvidia"}},
                                  .n_cards = hw->n_cards};
    ret->cards = xcalloc(hw->n_cards, sizeof(*ret->cards));
    for (unsigned i = 0; i < hw->n_cards; i++) {
        ret->cards[i] = hw->cards[i].card;
        mark_use(&hw->cards[i], &ret->cards[i]);
    }
    return 0;
}

static int fake_read_card(struct gpu *g, const char *uuid, struct gpu_card *ret, struct err *e)
{
    HOLD(&one_at_a_time);
    struct fake_card *c = NULL;
    TRY(find_card(g, uuid, &c, e));
    TRY(leave(hw_of(g), e));
    *ret = c->card;
    mark_use(c, ret);
    return 0;
}

static int fake_mode_set(struct gpu *g, const char *uuid, enum gpu_mode mode,
                         enum gpu_mode_result *ret, struct err *e)
{
    HOLD(&one_at_a_time);
    struct fake_card *c = NULL;
    TRY(find_to_change(g, uuid, &c, e));
    if (!(mode == GPU_SGPU ? c->card.sgpu_capable : c->card.mig_capable || mode == GPU_NATIVE))
        return err_set(e, ERR_INVALID, "the card has no such mode");
    bool changes = c->card.mode != mode;
    if (changes &&
        (c->card.state.n > 0 || c->card.sgpu.n > 0 || (uses_card(c) && !c->card.mode_needs_reset)))
        return violation(g, e);
    c->card.pending_mode = mode;
    if (!c->card.mode_needs_reset && hw_of(g)->stubborn == GPU_MODE_DONE)
        c->card.mode = mode;
    TRY(leave(hw_of(g), e));
    *ret = c->card.mode == mode ? GPU_MODE_DONE : GPU_MODE_NEEDS_RESET;
    if (c->card.mode != mode && hw_of(g)->stubborn)
        *ret = hw_of(g)->stubborn;
    return 0;
}

static int fake_exclusive_set(struct gpu *g, const char *uuid, bool on, struct err *e)
{
    HOLD(&one_at_a_time);
    struct fake_card *c = NULL;
    TRY(find_to_change(g, uuid, &c, e));
    c->card.exclusive = on;
    return leave(hw_of(g), e);
}

static int fake_reset(struct gpu *g, const char *uuid, struct err *e)
{
    HOLD(&one_at_a_time);
    struct fake_card *c = NULL;
    TRY(find_to_change(g, uuid, &c, e));
    if (hw_of(g)->reset_impossible)
        return err_set(e, ERR_INVALID, "no reset in a virtual machine");
    if (uses_card(c))
        return violation(g, e);
    c->card.mode = c->card.pending_mode;
    c->card.state.n = c->card.n_partitions = 0;
    return leave(hw_of(g), e);
}

static int fake_gi_create(struct gpu *g, const char *uuid, unsigned profile_id, unsigned start,
                          unsigned size, unsigned *ret_gi_id, struct err *e)
{
    HOLD(&one_at_a_time);
    struct fake_card *c = NULL;
    TRY(find_to_change(g, uuid, &c, e));
    for (unsigned p = 0; p < c->card.mig.n_profiles; p++) {
        if (c->card.mig.profiles[p].id != profile_id || c->card.mig.profiles[p].size != size)
            continue;
        int id = c->card.mode == GPU_MIG ? make_gi(c, p, start) : -1;
        if (id < 0)
            break;
        TRY(leave(hw_of(g), e));
        *ret_gi_id = (unsigned)id;
        return 0;
    }
    return refuse(e, ERR_CONFLICT, "InsufficientResources", "no room");
}

static int fake_gi_destroy(struct gpu *g, const char *uuid, unsigned gi_id, struct err *e)
{
    HOLD(&one_at_a_time);
    struct fake_card *c = NULL;
    TRY(find_to_change(g, uuid, &c, e));
    int i = find_gi(c, gi_id);
    if (i < 0)
        return err_set(e, ERR_NOT_FOUND, "no such instance");
    if (c->card.state.items[i].n_cis > 0)
        return violation(g, e);
    drop_gi(c, (unsigned)i);
    return leave(hw_of(g), e);
}

static int fake_ci_create(struct gpu *g, const char *uuid, unsigned gi_id, unsigned slices,
                          int start, unsigned *ret_ci_id, struct err *e)
{
    HOLD(&one_at_a_time);
    struct fake_card *c = NULL;
    TRY(find_to_change(g, uuid, &c, e));
    int i = find_gi(c, gi_id);
    if (i < 0)
        return err_set(e, ERR_NOT_FOUND, "no such instance");
    if (hw_of(g)->places_cis_itself)
        start = -1;
    int id = make_ci(c, (unsigned)i, slices, start, ++hw_of(g)->serial);
    if (id < 0)
        return refuse(e, ERR_CONFLICT, "InsufficientResources", "no room");
    TRY(leave(hw_of(g), e));
    *ret_ci_id = (unsigned)id;
    return 0;
}

static int fake_ci_destroy(struct gpu *g, const char *uuid, unsigned gi_id, unsigned ci_id,
                           struct err *e)
{
    HOLD(&one_at_a_time);
    struct fake_card *c = NULL;
    TRY(find_to_change(g, uuid, &c, e));
    for (unsigned p = 0; p < c->card.n_partitions; p++) {
        const struct gpu_partition *part = &c->card.partitions[p];
        if (part->gi_id != gi_id || part->ci_id != ci_id)
            continue;
        if (uses_ci(c, part))
            return violation(g, e);
        drop_partition(c, p);
        return leave(hw_of(g), e);
    }
    return err_set(e, ERR_NOT_FOUND, "no such compute instance");
}

/* What a slice that a caller made is known by, as long as it has no name. */
#define MADE "GPU-made-"

static void mark_made(struct fake_card *c, unsigned id)
{
    struct gpu_slice *s = &c->card.slices[find_slice(c, id)];
    (void)snprintf(s->uuid, sizeof(s->uuid), MADE "%u", id);
}

static bool was_made(const struct fake_card *c, int i)
{
    return strncmp(c->card.slices[i].uuid, MADE, strlen(MADE)) == 0;
}

static void take_slice(struct fake_card *c, int i)
{
    struct sgpu_state *s = &c->card.sgpu;
    size_t rest = s->n - (unsigned)i - 1;
    memmove(&s->items[i], &s->items[i + 1], rest * sizeof(s->items[0]));
    memmove(&c->card.slices[i], &c->card.slices[i + 1], rest * sizeof(c->card.slices[0]));
    s->n--;
}

/* The second of the two calls that make a slice. */
static int name_slice(struct gpu *g, const char *uuid, unsigned id, const char *alias,
                      struct err *e)
{
    struct fake_card *c = NULL;
    TRY(find_to_change(g, uuid, &c, e));
    int i = find_slice(c, id);
    struct sgpu_slice *s = &c->card.sgpu.items[i];
    (void)snprintf(s->alias, sizeof(s->alias), "%s", alias);
    (void)snprintf(c->card.slices[i].alias, sizeof(c->card.slices[i].alias), "cleave.%.*s",
                   SGPU_ALIAS_MAX, alias);
    s->foreign = false;
    return leave(hw_of(g), e);
}

/* As the driver does it: made without a name, then named; one that gets none is removed. */
static int fake_slice_create(struct gpu *g, const char *uuid, const struct sgpu_want *want,
                             unsigned *ret_id, struct err *e)
{
    HOLD(&one_at_a_time);
    struct fake_card *c = NULL;
    TRY(find_to_change(g, uuid, &c, e));
    struct sgpu_room room = sgpu_room(&c->card.sgpu);
    if (c->card.mode != GPU_SGPU || room.slices == 0 || room.memory_mib < want->quota.memory_mib ||
        room.compute_percent < want->quota.compute_percent)
        return refuse(e, ERR_INVALID, "InsufficientResources", "no room");
    *ret_id = fake_slice(c, "", want->quota, /* foreign= */ true);
    mark_made(c, *ret_id);
    TRY(leave(hw_of(g), e));
    int rc = name_slice(g, uuid, *ret_id, want->alias, e);
    if (rc < 0 && !hw_of(g)->dead)
        take_slice(c, find_slice(c, *ret_id));
    return rc;
}

static int fake_slice_destroy(struct gpu *g, const char *uuid, unsigned id, struct err *e)
{
    HOLD(&one_at_a_time);
    struct fake_card *c = NULL;
    TRY(find_to_change(g, uuid, &c, e));
    int i = find_slice(c, id);
    if (i < 0)
        return err_set(e, ERR_NOT_FOUND, "no such slice");
    bool theirs = c->card.sgpu.items[i].foreign && !was_made(c, i);
    if (theirs || uses_slice(c, id))
        return violation(g, e);
    take_slice(c, i);
    return leave(hw_of(g), e);
}

/* Stricter than the driver may be: with slices on the card. */
static int fake_qos_set(struct gpu *g, const char *uuid, int qos, struct err *e)
{
    HOLD(&one_at_a_time);
    struct fake_card *c = NULL;
    TRY(find_to_change(g, uuid, &c, e));
    if (c->card.sgpu.n > 0)
        return violation(g, e);
    c->card.sgpu.qos = qos;
    return leave(hw_of(g), e);
}

static int fake_timeslice_set(struct gpu *g, const char *uuid, unsigned ms, struct err *e)
{
    HOLD(&one_at_a_time);
    struct fake_card *c = NULL;
    TRY(find_to_change(g, uuid, &c, e));
    if (uses_card(c))
        return violation(g, e);
    c->card.sgpu.timeslice_ms = ms;
    return leave(hw_of(g), e);
}

static struct gpu *fake_free(struct gpu *g)
{
    free(g);
    return NULL;
}

static const struct gpu_ops fake_ops = {
    .read = fake_read,
    .read_card = fake_read_card,
    .mode_set = fake_mode_set,
    .reset = fake_reset,
    .gi_create = fake_gi_create,
    .gi_destroy = fake_gi_destroy,
    .ci_create = fake_ci_create,
    .ci_destroy = fake_ci_destroy,
    .slice_create = fake_slice_create,
    .slice_destroy = fake_slice_destroy,
    .qos_set = fake_qos_set,
    .timeslice_set = fake_timeslice_set,
    .exclusive_set = fake_exclusive_set,
    .free = fake_free,
};

struct gpu *gpu_fake_open(struct fake_hw *hw)
{
    struct fake_gpu *f = xcalloc(1, sizeof(*f));
    f->gpu.ops = &fake_ops;
    f->hw = hw;
    return &f->gpu;
}
