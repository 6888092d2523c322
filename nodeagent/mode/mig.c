/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "base/xalloc.h"

#include "nodeagent/mode/card_mode.h"
#include "nodeagent/mode/ci_fit.h"
#include "nodeagent/mode/memory_slices.h"
#include "partition/resource_names.h"

/* Partitions: GPU instances at places of the card, each with compute instances (NVIDIA MIG). */

static_assert(MIG_MAX_CIS <= 32, "a set of compute instances is a word");

/* --- Parts --- */

static bool is_possible(const struct gpu_card *card)
{
    return card->mig_capable;
}

static unsigned count(const struct gpu_card *card)
{
    return card->n_partitions;
}

static const struct mig_instance *instance_of(const struct gpu_card *card,
                                              const struct card_part *p)
{
    return &card->state.items[p->mig->instance];
}

static const struct mig_profile *profile_of(const struct gpu_card *card,
                                            const struct mig_instance *inst)
{
    return inst->profile < card->mig.n_profiles ? &card->mig.profiles[inst->profile] : NULL;
}

static struct card_part part_at(const struct gpu_card *card, unsigned i)
{
    const struct gpu_partition *p = &card->partitions[i];
    assert(p->instance < card->state.n);
    const struct mig_instance *inst = &card->state.items[p->instance];
    assert(p->ci < inst->n_cis && p->gi_id == inst->gi_id);
    const struct mig_profile *profile = profile_of(card, inst);
    return (struct card_part){.mig = p,
                              .number = (int)p->gi_id,
                              .ci = (int)p->ci_id,
                              .start = inst->start,
                              .memory_mib = profile ? profile->memory_mib : 0,
                              .healthy = p->healthy,
                              .declared = true,
                              .in_use = inst->cis[p->ci].in_use};
}

static bool kind(const struct gpu_card *card, const struct card_part *p, char *buf)
{
    const struct mig_instance *inst = instance_of(card, p);
    if (inst->profile == MIG_NO_PROFILE)
        return false;
    assert(inst->profile < card->mig.n_profiles);
    mig_partition_name(&card->mig.profiles[inst->profile], inst->cis[p->mig->ci].slices, buf);
    return true;
}

/* The first compute slice of a compute instance in its GPU instance; -1: it fills the GPU instance,
 * and its names do not have the slice. */
static int named_ci_start(const struct gpu_card *card, const struct card_part *p)
{
    const struct mig_instance *inst = instance_of(card, p);
    assert(inst->profile != MIG_NO_PROFILE); /* such a partition has no kind, so no name */
    if (inst->cis[p->mig->ci].slices == card->mig.profiles[inst->profile].slices)
        return -1;
    return p->mig->ci_start >= 0 ? p->mig->ci_start : (int)p->mig->ci_id;
}

static bool place(const struct gpu_card *card, const struct card_part *p, char *buf)
{
    char profile[MIG_NAME_BYTES];
    if (!kind(card, p, profile))
        return false;
    int ci = named_ci_start(card, p);
    if (ci >= 0)
        (void)snprintf(buf, CARD_PLACE_BYTES, "%s@%u.%u", profile, p->start, (unsigned)ci);
    else
        (void)snprintf(buf, CARD_PLACE_BYTES, "%s@%u", profile, p->start);
    return true;
}

static void set_entry(const struct gpu_card *card, const struct card_part *p,
                      struct entry_device *d)
{
    char profile[MIG_NAME_BYTES];
    d->mig = true;
    d->gi_id = p->mig->gi_id;
    d->ci_id = p->mig->ci_id;
    d->mig_index = p->mig->mig_index;
    xstr_set(&d->uuid, p->mig->uuid);
    if (kind(card, p, profile))
        d->cdi_name = entry_cdi_name(card->uuid, profile, p->start, named_ci_start(card, p));
}

static void show(const struct gpu_card *card, const struct card_part *p,
                 struct device_partition *to)
{
    const struct gpu_partition *from = p->mig;
    to->uuid = *from->uuid ? xstrdup(from->uuid)
                           : xasprintf("%s/%u/%u", card->uuid, from->gi_id, from->ci_id);
    to->has_gi_id = true;
    to->gi_id = from->gi_id;
    to->has_ci_id = true;
    to->ci_id = from->ci_id;
    to->placement = xasprintf("%u:%u", p->start, instance_of(card, p)->size);
}

static void describe(const struct gpu_card *card, const struct card_part *p, struct sb *b)
{
    char name[MIG_NAME_BYTES] = "?";
    char slices[CARD_SLICES_BYTES];
    const struct mig_instance *inst = instance_of(card, p);
    (void)kind(card, p, name);
    sb_addf(b, "%-14s %-10s  gi %u ci %u  %s", name, card_memory_slices(inst, slices),
            p->mig->gi_id, p->mig->ci_id, p->mig->uuid);
}

static int64_t wanted_of(const struct device_want *want, const char *name)
{
    for (size_t i = 0; i < want->mig.n_profiles; i++)
        if (strcmp(want->mig.profiles[i].profile, name) == 0)
            return want->mig.profiles[i].count;
    return 0;
}

static void name_of(const struct gpu_card *card, unsigned i, char *buf)
{
    const struct card_part p = part_at(card, i);
    if (!kind(card, &p, buf))
        *buf = '\0';
}

/* The parts that have to go are not known by themselves, only how many of each kind. */
static bool keeps(const struct gpu_card *card, const struct device_want *want, const bool *stays)
{
    for (unsigned i = 0; i < card->n_partitions; i++) {
        char name[MIG_NAME_BYTES];
        int64_t exist = 0;
        int64_t left = 0;
        name_of(card, i, name);
        for (unsigned k = 0; k < card->n_partitions; k++) {
            char other[MIG_NAME_BYTES];
            name_of(card, k, other);
            exist += strcmp(name, other) == 0;
            left += strcmp(name, other) == 0 && stays[k];
        }
        int64_t wanted = wanted_of(want, name);
        if (left < (wanted < exist ? wanted : exist))
            return false;
    }
    return true;
}

/* --- Layouts --- */

static unsigned profile_id_of(const struct gpu_card *card, unsigned profile)
{
    return profile < card->mig.n_profiles ? card->mig.profiles[profile].id : CARD_NO_PROFILE;
}

static int ci_start_of(const struct gpu_card *card, unsigned instance, unsigned ci)
{
    for (unsigned i = 0; i < card->n_partitions; i++)
        if (card->partitions[i].instance == instance && card->partitions[i].ci == ci)
            return card->partitions[i].ci_start;
    return -1;
}

static void add_ci(struct card_instance *in, unsigned slices, int start)
{
    assert(in->n_cis < MIG_MAX_CIS);
    in->ci_slices[in->n_cis] = slices;
    in->ci_starts[in->n_cis++] = start;
}

/* Adds the existing GPU instance i, without the compute instances whose bit is in `without`.
 * Borrowed until the next one. */
static struct card_instance *add_standing(const struct gpu_card *card, unsigned i, uint32_t without,
                                          struct card_layout *ret)
{
    assert(i < card->state.n && ret->n < MIG_MAX_INSTANCES);
    const struct mig_instance *in = &card->state.items[i];
    struct card_instance *item = &ret->items[ret->n++];
    *item = (struct card_instance){.profile_id = profile_id_of(card, in->profile),
                                   .start = in->start,
                                   .size = in->size};
    for (unsigned c = 0; c < in->n_cis; c++)
        if (!(without & (1U << c)))
            add_ci(item, in->cis[c].slices, ci_start_of(card, i, c));
    return item;
}

static unsigned standing_count(const struct gpu_card *card)
{
    return card->mode == GPU_MIG ? card->state.n : 0;
}

static void layout_of(const struct gpu_card *card, struct card_layout *ret)
{
    assert(ret->n == 0);
    for (unsigned i = 0; i < standing_count(card); i++)
        (void)add_standing(card, i, 0, ret);
}

static int wish_of(const struct gpu_card *card, const struct device_want *want,
                   struct card_wish *ret, struct err *e)
{
    struct mig_request requests[MIG_MAX_WANTS];
    size_t n = want->mig.n_profiles;
    if (n > ARRAY_LEN(requests))
        return err_set(e, ERR_INVALID, "%zu kinds of partitions are more than is known", n);
    for (size_t i = 0; i < n; i++)
        requests[i] = (struct mig_request){want->mig.profiles[i].profile,
                                           (unsigned)want->mig.profiles[i].count};
    return n ? mig_resolve(&card->mig, requests, n, &ret->wants, e) : 0;
}

/* --- matching the card with a layout --- */

static const struct card_instance *find_item(const struct gpu_card *card,
                                             const struct mig_instance *in,
                                             const struct card_layout *layout)
{
    unsigned id = profile_id_of(card, in->profile);
    for (unsigned i = 0; layout->mode == GPU_MIG && i < layout->n; i++) {
        const struct card_instance *item = &layout->items[i];
        if (item->start == in->start && item->size == in->size && item->profile_id == id)
            return item;
    }
    return NULL;
}

/* The existing compute instances that stay, and the wanted ones that exist already. */
struct ci_match {
    uint32_t stays; /* bit: existing one */
    uint32_t there; /* bit: wanted one */
};

enum ci_pass { CI_SAME_START, CI_IN_USE, CI_ANY, CI_PASSES };

static bool ci_fits(const struct gpu_card *card, unsigned i, unsigned c, int wanted_start,
                    enum ci_pass pass)
{
    int start = ci_start_of(card, i, c);
    if (pass == CI_SAME_START)
        return wanted_start >= 0 && start == wanted_start;
    if (wanted_start >= 0 && start >= 0)
        return false;
    return pass == CI_ANY || card->state.items[i].cis[c].in_use;
}

static void match_one(const struct gpu_card *card, unsigned i, const struct card_instance *item,
                      unsigned wanted, enum ci_pass pass, struct ci_match *m)
{
    const struct mig_instance *in = &card->state.items[i];
    for (unsigned c = 0; c < in->n_cis && !(m->there & (1U << wanted)); c++) {
        if (m->stays & (1U << c) || in->cis[c].slices != item->ci_slices[wanted] ||
            !ci_fits(card, i, c, item->ci_starts[wanted], pass))
            continue;
        m->stays |= 1U << c;
        m->there |= 1U << wanted;
    }
}

/* Matches those at the same compute slice first, then those in use, so that neither is given up for
 * another. */
static struct ci_match match_cis(const struct gpu_card *card, unsigned i,
                                 const struct card_instance *item)
{
    struct ci_match m = {0};
    for (enum ci_pass pass = 0; pass < CI_PASSES; pass++)
        for (unsigned w = 0; w < item->n_cis; w++)
            match_one(card, i, item, w, pass, &m);
    return m;
}

/* --- Steps --- */

static void destroy_cis(const struct gpu_card *card, unsigned i, uint32_t stays,
                        struct card_steps *ret)
{
    const struct mig_instance *in = &card->state.items[i];
    for (unsigned c = 0; c < in->n_cis; c++) {
        if (stays & (1U << c))
            continue;
        struct card_step *s = card_steps_add(ret, CARD_CI_DESTROY);
        s->gi_id = in->gi_id;
        s->ci_id = in->cis[c].id;
        s->start = in->start;
        s->slices = in->cis[c].slices;
        if (in->cis[c].in_use)
            ret->blocking |= 1U << i;
    }
}

static void destroy_instance(const struct gpu_card *card, unsigned i, struct card_steps *ret)
{
    const struct mig_instance *in = &card->state.items[i];
    destroy_cis(card, i, 0, ret);
    struct card_step *s = card_steps_add(ret, CARD_GI_DESTROY);
    s->gi_id = in->gi_id;
    s->profile_id = profile_id_of(card, in->profile);
    s->start = in->start;
    s->size = in->size;
    if (in->in_use)
        ret->blocking |= 1U << i;
}

static void create_cis(const struct card_instance *item, uint32_t there, struct card_steps *ret)
{
    for (unsigned w = 0; w < item->n_cis; w++) {
        if (there & (1U << w))
            continue;
        struct card_step *s = card_steps_add(ret, CARD_CI_CREATE);
        s->start = item->start;
        s->slices = item->ci_slices[w];
        s->ci_start = item->ci_starts[w];
    }
}

static void create_instance(const struct card_instance *item, struct card_steps *ret)
{
    struct card_step *s = card_steps_add(ret, CARD_GI_CREATE);
    s->profile_id = item->profile_id;
    s->start = item->start;
    s->size = item->size;
    create_cis(item, 0, ret);
}

static void steps_down(const struct gpu_card *card, const struct card_layout *layout,
                       struct card_steps *ret)
{
    assert(card->mode == GPU_MIG);
    for (unsigned i = 0; i < standing_count(card); i++) {
        const struct card_instance *item = find_item(card, &card->state.items[i], layout);
        if (item)
            destroy_cis(card, i, match_cis(card, i, item).stays, ret);
        else
            destroy_instance(card, i, ret);
    }
}

static int find_standing(const struct gpu_card *card, const struct card_layout *layout,
                         const struct card_instance *item)
{
    for (unsigned i = 0; i < standing_count(card); i++)
        if (find_item(card, &card->state.items[i], layout) == item)
            return (int)i;
    return -1;
}

static void steps_up(const struct gpu_card *card, const struct card_layout *layout,
                     struct card_steps *ret)
{
    assert(layout->mode == GPU_MIG && layout->n <= MIG_MAX_INSTANCES);
    for (unsigned w = 0; layout->mode == GPU_MIG && w < layout->n; w++) {
        const struct card_instance *item = &layout->items[w];
        int i = find_standing(card, layout, item);
        if (i < 0)
            create_instance(item, ret);
        else
            create_cis(item, match_cis(card, (unsigned)i, item).there, ret);
    }
}

/* --- The target of a wish --- */

static const struct mig_recut *recut_of(const struct mig_plan *p, unsigned instance)
{
    for (unsigned i = 0; i < p->n_recut; i++)
        if (p->recut[i].instance == instance)
            return &p->recut[i];
    return NULL;
}

/* The compute instances of a GPU instance that is cut anew. Those in use that the planner gives up
 * are not kept: that is a drain, as the steps show. */
static struct ci_cut cut_of(const struct gpu_card *card, unsigned i, uint32_t destroy)
{
    const struct mig_instance *in = &card->state.items[i];
    struct ci_cut cut = {.n = in->n_cis};
    for (unsigned c = 0; c < in->n_cis; c++) {
        cut.slices[c] = in->cis[c].slices;
        cut.starts[c] = ci_start_of(card, i, c);
        cut.in_use[c] = in->cis[c].in_use && !(destroy & (1U << c));
    }
    return cut;
}

/* The sizes after a recut. Returns their number. */
static unsigned sizes_after(const struct mig_instance *in, const struct mig_recut *r, unsigned *ret)
{
    unsigned n = 0;
    for (unsigned c = 0; c < in->n_cis; c++)
        if (!(r->destroy & (1U << c)))
            ret[n++] = in->cis[c].slices;
    for (unsigned c = 0; c < r->n_create && n < MIG_MAX_CIS; c++)
        ret[n++] = r->create[c];
    return n;
}

/* Follows the planner; the driver chooses the compute slices. */
static void recut_as_planned(const struct gpu_card *card, unsigned i, const struct mig_recut *r,
                             struct card_layout *ret)
{
    struct card_instance *item = add_standing(card, i, r->destroy, ret);
    for (unsigned c = 0; c < r->n_create; c++)
        add_ci(item, r->create[c], -1);
}

/* The planner decides how many of each size; which ones stay follows from their compute slices.
 * Where nothing fits around those in use, everything is cut anew: a drain. */
static void target_recut(const struct gpu_card *card, unsigned i, const struct mig_recut *r,
                         struct card_layout *ret)
{
    const struct mig_instance *in = &card->state.items[i];
    assert(in->profile < card->mig.n_profiles); /* the planner cuts only known ones anew */
    struct ci_cut cut = cut_of(card, i, r->destroy);
    unsigned sizes[MIG_MAX_CIS];
    unsigned n = sizes_after(in, r, sizes);
    unsigned room = card->mig.profiles[in->profile].slices;
    struct ci_fit fit;
    bool found = ci_fit_choose(room, &cut, sizes, n, &fit);
    if (!found) {
        memset(cut.in_use, 0, sizeof(cut.in_use));
        found = ci_fit_choose(room, &cut, sizes, n, &fit);
    }
    if (!found) {
        recut_as_planned(card, i, r, ret);
        return;
    }
    struct card_instance *item = add_standing(card, i, ~fit.stay, ret);
    for (unsigned c = 0; c < fit.n; c++)
        add_ci(item, fit.slices[c], (int)fit.starts[c]);
}

static void target_keeps(const struct gpu_card *card, const struct mig_plan *p,
                         struct card_layout *ret)
{
    for (unsigned i = 0; i < standing_count(card); i++) {
        const struct mig_recut *r = recut_of(p, i);
        if (p->destroy & (1U << i))
            continue;
        if (r)
            target_recut(card, i, r, ret);
        else
            (void)add_standing(card, i, 0, ret);
    }
}

/* An instance that fills its GPU instance needs no compute slice. Several get theirs from the plan,
 * because a driver that places them one by one may leave no room for the last. */
static void create_cut(const struct mig_new *new, unsigned room, struct card_instance *item)
{
    static const struct ci_cut nothing = {0};
    struct ci_fit fit;
    bool placed = new->n_cis > 1 && ci_fit_choose(room, &nothing, new->cis, new->n_cis, &fit);
    for (unsigned c = 0; c < new->n_cis; c++)
        add_ci(item, placed ? fit.slices[c] : new->cis[c], placed ? (int)fit.starts[c] : -1);
}

static void target_creates(const struct gpu_card *card, const struct mig_plan *p,
                           struct card_layout *ret)
{
    for (unsigned i = 0; i < p->n_create && ret->n < MIG_MAX_INSTANCES; i++) {
        const struct mig_new *new = &p->create[i];
        assert(new->profile < card->mig.n_profiles &&new->n_cis <= MIG_MAX_CIS);
        const struct mig_profile *profile = &card->mig.profiles[new->profile];
        struct card_instance *item = &ret->items[ret->n++];
        *item = (struct card_instance){.profile_id = profile->id,
                                       .start = new->start,
                                       .size = profile->size};
        create_cut(new, profile->slices, item);
    }
}

static bool target_of(const struct gpu_card *card, const struct card_wish *wish,
                      struct card_layout *ret, struct card_unfit *why)
{
    static const struct mig_state none = {0};
    struct mig_plan p;
    assert(wish->mode == GPU_MIG && ret->n == 0);
    mig_plan(&card->mig, card->mode == GPU_MIG ? &card->state : &none, &wish->wants, &p);
    if (p.undecided) {
        why->reason = "TooComplex";
        (void)snprintf(why->message, sizeof(why->message), "%s", p.reason);
        return false;
    }
    if (p.verdict == MIG_PLAN_INFEASIBLE) {
        auto_free char *nearest = mig_wants_text(&card->mig, &p.nearest);
        why->reason = "Infeasible";
        (void)snprintf(why->message, sizeof(why->message), "%s; the nearest layout that fits is %s",
                       p.reason, nearest);
        why->nearest = p.nearest;
        return false;
    }
    target_keeps(card, &p, ret);
    target_creates(card, &p, ret);
    return true;
}

static int blocking_item(const struct gpu_card *card, unsigned i, struct sb *b)
{
    assert(i < card->state.n);
    const struct mig_instance *in = &card->state.items[i];
    const struct mig_profile *profile = profile_of(card, in);
    sb_addf(b, "%s at memory slice %u", profile ? profile->name : "an instance of unknown profile",
            in->start);
    return (int)in->gi_id;
}

/* Only this partition; its neighbours in the same GPU instance may stay. */
static bool must_be_free(const struct card_steps *steps, const struct card_part *p, unsigned i)
{
    (void)i;
    for (unsigned k = 0; k < steps->n; k++) {
        const struct card_step *s = &steps->items[k];
        if (s->kind == CARD_CI_DESTROY && s->gi_id == p->mig->gi_id && s->ci_id == p->mig->ci_id)
            return true;
    }
    return false;
}

extern const struct card_mode card_mode_mig;
const struct card_mode card_mode_mig = {
    .word = "MIG",
    .bare = "nothing cut",
    .summary = "empty",
    .unsupported = "MIGUnsupported",
    .is_possible = is_possible,
    .count = count,
    .part_at = part_at,
    .kind = kind,
    .place = place,
    .resource = resource_name,
    .can_share = true,
    .set_entry = set_entry,
    .show = show,
    .describe = describe,
    .wish_of = wish_of,
    .layout_of = layout_of,
    .target_of = target_of,
    .steps_down = steps_down,
    .steps_up = steps_up,
    .blocking_item = blocking_item,
    .must_be_free = must_be_free,
    .keeps = keeps,
};
