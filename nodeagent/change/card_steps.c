/* SPDX-License-Identifier: Apache-2.0 */
#include "nodeagent/change/card_steps.h"

#include <assert.h>

#include "base/xalloc.h"

#include "nodeagent/change/card_slices.h"

/* --- layouts --- */

static unsigned profile_id_of(const struct gpu_card *card, unsigned profile)
{
    return profile < card->mig.n_profiles ? card->mig.profiles[profile].id : CARD_NO_PROFILE;
}

int card_ci_start(const struct gpu_card *card, unsigned instance, unsigned ci)
{
    for (unsigned i = 0; i < card->n_partitions; i++)
        if (card->partitions[i].instance == instance && card->partitions[i].ci == ci)
            return card->partitions[i].ci_start;
    return -1;
}

void card_layout_add_ci(struct card_instance *in, unsigned slices, int start)
{
    assert(in->n_cis < MIG_MAX_CIS);
    in->ci_slices[in->n_cis] = slices;
    in->ci_starts[in->n_cis++] = start;
}

struct card_instance *card_layout_add_standing(const struct gpu_card *card, unsigned i,
                                               uint32_t without, struct card_layout *ret)
{
    assert(i < card->state.n && ret->n < MIG_MAX_INSTANCES);
    const struct mig_instance *in = &card->state.items[i];
    struct card_instance *item = &ret->items[ret->n++];
    *item = (struct card_instance){.profile_id = profile_id_of(card, in->profile),
                                   .start = in->start,
                                   .size = in->size};
    for (unsigned c = 0; c < in->n_cis; c++)
        if (!(without & (1U << c)))
            card_layout_add_ci(item, in->cis[c].slices, card_ci_start(card, i, c));
    return item;
}

void card_layout_of(const struct gpu_card *card, struct card_layout *ret)
{
    *ret = (struct card_layout){.mode = card->mode};
    for (unsigned i = 0; card->mode == GPU_MIG && i < card->state.n; i++)
        (void)card_layout_add_standing(card, i, 0, ret);
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
    int start = card_ci_start(card, i, c);
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

unsigned card_standing_count(const struct gpu_card *card)
{
    return card->mode == GPU_MIG ? card->state.n : 0;
}

static void steps_down(const struct gpu_card *card, const struct card_layout *layout,
                       struct card_steps *ret)
{
    for (unsigned i = 0; i < card_standing_count(card); i++) {
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
    for (unsigned i = 0; i < card_standing_count(card); i++)
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

bool card_concerns_vfs(const struct gpu_card *card, enum gpu_mode mode)
{
    return card->mode == GPU_VGPU || mode == GPU_VGPU;
}

void card_steps_to(const struct gpu_card *card, const struct card_layout *layout,
                   struct card_steps *ret)
{
    ret->n = 0;
    ret->blocking = 0;
    ret->card_blocking = false;
    if (card_concerns_vfs(card, layout->mode))
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
    if (card_concerns_vfs(card, layout->mode))
        return card->mode == layout->mode;
    card_steps_to(card, layout, &steps);
    return steps.n == 0;
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
