/* SPDX-License-Identifier: Apache-2.0 */
#include "nodeagent/change/card_plan.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "base/sb.h"
#include "base/xalloc.h"

#include "nodeagent/change/card_slices.h"
#include "nodeagent/change/ci_fit.h"
#include "partition/resolve.h"

bool card_wish_equal(const struct card_wish *a, const struct card_wish *b)
{
    return a->mode == b->mode && memcmp(&a->wants, &b->wants, sizeof(a->wants)) == 0 &&
           sgpu_wants_equal(&a->sgpu, &b->sgpu);
}

static void infeasible(struct card_plan *ret, const char *reason, const char *message)
{
    ret->verdict = CARD_INFEASIBLE;
    ret->reason = reason;
    (void)snprintf(ret->message, sizeof(ret->message), "%s", message);
}

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
        cut.starts[c] = card_ci_start(card, i, c);
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
    struct card_instance *item = card_layout_add_standing(card, i, r->destroy, ret);
    for (unsigned c = 0; c < r->n_create; c++)
        card_layout_add_ci(item, r->create[c], -1);
}

/* The planner decides how many of each size; which ones stay follows from their compute slices.
 * Where nothing fits around those in use, everything is cut anew: a drain. */
static void target_recut(const struct gpu_card *card, unsigned i, const struct mig_recut *r,
                         struct card_layout *ret)
{
    const struct mig_instance *in = &card->state.items[i];
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
    struct card_instance *item = card_layout_add_standing(card, i, ~fit.stay, ret);
    for (unsigned c = 0; c < fit.n; c++)
        card_layout_add_ci(item, fit.slices[c], (int)fit.starts[c]);
}

static void target_keeps(const struct gpu_card *card, const struct mig_plan *p,
                         struct card_layout *ret)
{
    for (unsigned i = 0; i < card_standing_count(card); i++) {
        const struct mig_recut *r = recut_of(p, i);
        if (p->destroy & (1U << i))
            continue;
        if (r)
            target_recut(card, i, r, ret);
        else
            (void)card_layout_add_standing(card, i, 0, ret);
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
        card_layout_add_ci(item, placed ? fit.slices[c] : new->cis[c],
                           placed ? (int)fit.starts[c] : -1);
}

static void target_creates(const struct gpu_card *card, const struct mig_plan *p,
                           struct card_layout *ret)
{
    for (unsigned i = 0; i < p->n_create && ret->n < MIG_MAX_INSTANCES; i++) {
        const struct mig_new *new = &p->create[i];
        const struct mig_profile *profile = &card->mig.profiles[new->profile];
        struct card_instance *item = &ret->items[ret->n++];
        *item = (struct card_instance){.profile_id = profile->id,
                                       .start = new->start,
                                       .size = profile->size};
        create_cut(new, profile->slices, item);
    }
}

/* The target layout for a geometry. False: there is none. */
static bool plan_geometry(const struct gpu_card *card, const struct mig_wants *wants,
                          struct card_plan *ret)
{
    static const struct mig_state none = {0};
    struct mig_plan p;
    mig_plan(&card->mig, card->mode == GPU_MIG ? &card->state : &none, wants, &p);
    if (p.undecided) {
        infeasible(ret, "TooComplex", p.reason);
        return false;
    }
    if (p.verdict == MIG_PLAN_INFEASIBLE) {
        auto_free char *nearest = mig_wants_text(&card->mig, &p.nearest);
        auto_free char *text =
            xasprintf("%s; the nearest layout that fits is %s", p.reason, nearest);
        infeasible(ret, "Infeasible", text);
        ret->nearest = p.nearest;
        return false;
    }
    target_keeps(card, &p, &ret->target);
    target_creates(card, &p, &ret->target);
    return true;
}

static void add_users(const struct gpu_card *card, int gi_id, struct sb *b)
{
    unsigned shown = 0;
    for (unsigned i = 0; i < card->n_processes; i++) {
        const struct gpu_process *p = &card->processes[i];
        bool holds_all = !p->pid && p->gi_id < 0;
        if (gi_id >= 0 && p->gi_id != gi_id && !holds_all)
            continue;
        if (shown++ >= 3)
            continue;
        const char *nameless = p->pid ? "a process" : "a pod";
        sb_addf(b, "%s%s%s", shown > 1 ? ", " : " by ", p->pid || !*p->name ? "" : "pod ",
                *p->name ? p->name : nameless);
        if (p->pid)
            sb_addf(b, " (pid %u)", p->pid);
    }
    if (shown > 3)
        sb_addf(b, " and %u more", shown - 3);
}

static void explain_slices(const struct gpu_card *card, uint32_t blocking, struct sb *b)
{
    for (unsigned i = 0; card->mode == GPU_SGPU && i < card->sgpu.n; i++) {
        const struct sgpu_slice *s = &card->sgpu.items[i];
        if (!(blocking & (1U << i)))
            continue;
        sb_addf(b, "%sslice %u (%s) is in use", b->len ? "; " : "", s->id, s->alias);
        add_users(card, (int)s->id, b);
    }
}

static void explain_drain(const struct gpu_card *card, struct card_plan *ret)
{
    auto_sb struct sb b = SB_INIT(sizeof(ret->message) - 1);
    for (unsigned i = 0; i < card_standing_count(card); i++) {
        const struct mig_instance *in = &card->state.items[i];
        if (!(ret->steps.blocking & (1U << i)))
            continue;
        const char *name = in->profile < card->mig.n_profiles ? card->mig.profiles[in->profile].name
                                                              : "an instance of unknown profile";
        sb_addf(&b, "%s%s at memory slice %u is in use", b.len ? "; " : "", name, in->start);
        add_users(card, (int)in->gi_id, &b);
    }
    explain_slices(card, ret->steps.blocking, &b);
    if (ret->steps.card_blocking) {
        sb_addf(&b, "%sthe card is in use", b.len ? "; " : "");
        add_users(card, -1, &b);
        sb_add(&b, ", and its mode cannot change before that ends");
    }
    (void)snprintf(ret->message, sizeof(ret->message), "%s", sb_str(&b));
}

static bool only_creates(const struct card_steps *steps)
{
    for (unsigned i = 0; i < steps->n; i++)
        if (steps->items[i].kind != CARD_GI_CREATE && steps->items[i].kind != CARD_CI_CREATE &&
            steps->items[i].kind != CARD_SLICE_CREATE)
            return false;
    return true;
}

static bool plan_slices(const struct gpu_card *card, const struct card_wish *wish,
                        struct card_plan *ret)
{
    char why[256];
    ret->target.sgpu = wish->sgpu;
    if (wish->sgpu.qos < 0)
        ret->target.sgpu.qos = card->sgpu.qos;
    if (card_slices_feasible(card, wish, why, sizeof(why)))
        return true;
    infeasible(ret, "Infeasible", why);
    return false;
}

static void set_verdict(const struct gpu_card *card, struct card_plan *ret)
{
    card_steps_to(card, &ret->target, &ret->steps);
    if (card->users_unknown && !only_creates(&ret->steps)) {
        infeasible(ret, "UsersUnknown",
                   "the driver does not report who uses the card, so nothing on it can be removed");
        return;
    }
    for (unsigned i = 0; i < ret->steps.n; i++)
        ret->resets |= ret->steps.items[i].kind == CARD_RESET;
    ret->verdict = ret->steps.n == 0 ? CARD_NOTHING : CARD_CHANGE;
    if (ret->steps.blocking == 0 && !ret->steps.card_blocking)
        return;
    ret->verdict = CARD_DRAIN;
    ret->reason = "InUse";
    explain_drain(card, ret);
}

/* Existing functions are as wanted, whatever their number. */
static void plan_vfs(const struct gpu_card *card, const struct card_wish *wish,
                     struct card_plan *ret)
{
    if (wish->mode != GPU_VGPU)
        infeasible(ret, RESOLVE_VFS_STAND, RESOLVE_VFS_STAND_WHY);
    else if (card->mode != GPU_VGPU)
        infeasible(ret, RESOLVE_VFS_MISSING, RESOLVE_VFS_MISSING_WHY);
}

void card_plan(const struct gpu_card *card, const struct card_wish *wish, struct card_plan *ret)
{
    assert(card && wish && ret);
    *ret = (struct card_plan){.reason = "", .target = {.mode = wish->mode}};
    if (!card->healthy) {
        infeasible(ret, "Unhealthy", card->unhealthy_message);
        return;
    }
    if (card_concerns_vfs(card, wish->mode)) {
        plan_vfs(card, wish, ret);
        return;
    }
    if (wish->mode == GPU_MIG && !card->mig_capable) {
        infeasible(ret, "NotCapable", "this card has no MIG");
        return;
    }
    if (wish->mode == GPU_SGPU && !card->sgpu_capable) {
        infeasible(ret, "NotCapable", "this card has no sGPU");
        return;
    }
    if (!card->mig_capable && !card->sgpu_capable)
        return; /* native, the only possibility */
    if (wish->mode == GPU_MIG && !plan_geometry(card, &wish->wants, ret))
        return;
    if (card->sgpu_capable && !plan_slices(card, wish, ret))
        return;
    set_verdict(card, ret);
}
