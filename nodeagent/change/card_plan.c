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

/* --- layouts --- */

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

/* Adds the existing instance, without the compute instances whose bit is in `without`. */
static struct card_instance *add_standing(const struct gpu_card *card, unsigned i, uint32_t without,
                                          struct card_layout *ret)
{
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

void card_layout_of(const struct gpu_card *card, struct card_layout *ret)
{
    *ret = (struct card_layout){.mode = card->mode};
    for (unsigned i = 0; card->mode == GPU_MIG && i < card->state.n; i++)
        (void)add_standing(card, i, 0, ret);
    if (card->mode == GPU_SGPU)
        card_slices_layout_of(card, ret);
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

/* --- steps --- */

static struct card_step *add_step(struct card_steps *s, enum card_step_kind kind)
{
    assert(s->n < CARD_MAX_STEPS);
    struct card_step *step = &s->items[s->n++];
    *step = (struct card_step){.kind = kind, .ci_start = -1};
    return step;
}

static void destroy_cis(const struct gpu_card *card, unsigned i, uint32_t stays,
                        struct card_steps *ret)
{
    const struct mig_instance *in = &card->state.items[i];
    for (unsigned c = 0; c < in->n_cis; c++) {
        if (stays & (1U << c))
            continue;
        struct card_step *s = add_step(ret, CARD_CI_DESTROY);
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
    struct card_step *s = add_step(ret, CARD_GI_DESTROY);
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
        struct card_step *s = add_step(ret, CARD_CI_CREATE);
        s->start = item->start;
        s->slices = item->ci_slices[w];
        s->ci_start = item->ci_starts[w];
    }
}

static void create_instance(const struct card_instance *item, struct card_steps *ret)
{
    struct card_step *s = add_step(ret, CARD_GI_CREATE);
    s->profile_id = item->profile_id;
    s->start = item->start;
    s->size = item->size;
    create_cis(item, 0, ret);
}

static unsigned standing_count(const struct gpu_card *card)
{
    return card->mode == GPU_MIG ? card->state.n : 0;
}

static void steps_down(const struct gpu_card *card, const struct card_layout *layout,
                       struct card_steps *ret)
{
    for (unsigned i = 0; i < standing_count(card); i++) {
        const struct card_instance *item = find_item(card, &card->state.items[i], layout);
        if (item)
            destroy_cis(card, i, match_cis(card, i, item).stays, ret);
        else
            destroy_instance(card, i, ret);
    }
}

static bool used_as_a_whole(const struct gpu_card *card)
{
    for (unsigned i = 0; i < card->n_processes; i++)
        if (card->mode == GPU_NATIVE || card->processes[i].gi_id < 0)
            return true;
    return false;
}

/* A pending mode that is the wanted one needs only its reset. Another one is withdrawn by setting
 * the current mode again. */
static void steps_mode(const struct gpu_card *card, enum gpu_mode mode, struct card_steps *ret)
{
    bool changes = card->mode != mode;
    if (card->pending_mode != mode || (changes && !card->mode_needs_reset))
        add_step(ret, CARD_MODE_SET)->mode = mode;
    if (changes && card->mode_needs_reset)
        add_step(ret, CARD_RESET)->mode = mode;
    if (changes && used_as_a_whole(card))
        ret->card_blocking = true;
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
    for (unsigned w = 0; layout->mode == GPU_MIG && w < layout->n; w++) {
        const struct card_instance *item = &layout->items[w];
        int i = find_standing(card, layout, item);
        if (i < 0)
            create_instance(item, ret);
        else
            create_cis(item, match_cis(card, (unsigned)i, item).there, ret);
    }
}

/* Cleave neither makes nor removes virtual functions, so there are no steps to or from them. */
static bool concerns_vfs(const struct gpu_card *card, enum gpu_mode mode)
{
    return card->mode == GPU_VGPU || mode == GPU_VGPU;
}

void card_steps_to(const struct gpu_card *card, const struct card_layout *layout,
                   struct card_steps *ret)
{
    ret->n = 0;
    ret->blocking = 0;
    ret->card_blocking = false;
    if (concerns_vfs(card, layout->mode))
        return;
    if (card_slices_concern(card, layout)) {
        card_slices_steps_to(card, layout, ret);
        return;
    }
    steps_down(card, layout, ret);
    steps_mode(card, layout->mode, ret);
    steps_up(card, layout, ret);
}

bool card_layout_matches(const struct gpu_card *card, const struct card_layout *layout)
{
    struct card_steps steps;
    if (concerns_vfs(card, layout->mode))
        return card->mode == layout->mode;
    card_steps_to(card, layout, &steps);
    return steps.n == 0;
}

bool card_wish_equal(const struct card_wish *a, const struct card_wish *b)
{
    return a->mode == b->mode && memcmp(&a->wants, &b->wants, sizeof(a->wants)) == 0 &&
           sgpu_wants_equal(&a->sgpu, &b->sgpu);
}

/* --- the plan --- */

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
    for (unsigned i = 0; i < standing_count(card); i++) {
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
    if (concerns_vfs(card, wish->mode)) {
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

/* --- texts --- */

static const char *profile_name(const struct mig_table *t, unsigned profile_id)
{
    for (unsigned i = 0; t && i < t->n_profiles; i++)
        if (t->profiles[i].id == profile_id)
            return t->profiles[i].name;
    return NULL;
}

static char *instance_text(const char *verb, const struct card_step *s, const struct mig_table *t)
{
    const char *name = profile_name(t, s->profile_id);
    if (name)
        return xasprintf("%s %s at %u", verb, name, s->start);
    return xasprintf("%s profile %u at %u", verb, s->profile_id, s->start);
}

static char *slice_text(const char *verb, const struct card_step *s)
{
    return xasprintf("%s slice %s of %u MiB and %u %%", verb, s->slice.alias,
                     s->slice.quota.memory_mib, s->slice.quota.compute_percent);
}

char *card_step_text(const struct card_step *s, const struct mig_table *t)
{
    switch (s->kind) {
    case CARD_CI_DESTROY:
        return xasprintf("destroy compute instance %u (%uc) at %u", s->ci_id, s->slices, s->start);
    case CARD_GI_DESTROY:
        return instance_text("destroy", s, t);
    case CARD_MODE_SET:
        return xasprintf("switch %s %s",
                         s->mode == GPU_SGPU || s->from == GPU_SGPU ? "sGPU" : "MIG",
                         s->mode == GPU_NATIVE ? "off" : "on");
    case CARD_RESET:
        return xstrdup("reset the card");
    case CARD_GI_CREATE:
        return instance_text("create", s, t);
    case CARD_CI_CREATE:
        return xasprintf("create compute instance %uc at %u", s->slices, s->start);
    case CARD_SLICE_DESTROY:
        return slice_text("remove", s);
    case CARD_QOS_SET:
        return xasprintf("set the QoS policy %s", api_qos_policy_names[s->qos]);
    case CARD_TIMESLICE_SET:
        return xasprintf("set a time slice of %u ms", s->timeslice_ms);
    case CARD_SLICE_CREATE:
        return slice_text("create", s);
    default:
        return xstrdup("?");
    }
}
