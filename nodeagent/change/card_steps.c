/* SPDX-License-Identifier: Apache-2.0 */
#include "nodeagent/change/card_steps.h"

#include <assert.h>

#include "base/xalloc.h"

#include "nodeagent/mode/card_mode.h"

void card_layout_of(const struct gpu_card *card, struct card_layout *ret)
{
    const struct card_mode *m = card_mode_of(card->mode);
    *ret = (struct card_layout){.mode = card->mode};
    if (m->layout_of)
        m->layout_of(card, ret);
}

/* --- steps --- */

/* A pending mode that is the wanted one needs only its reset. Another one is withdrawn by setting
 * the current mode again. */
static void steps_mode(const struct gpu_card *card, enum gpu_mode mode, struct card_steps *ret)
{
    bool changes = card->mode != mode;
    if (card->pending_mode != mode || (changes && !card->mode_needs_reset)) {
        struct card_step *s = card_steps_add(ret, CARD_MODE_SET);
        s->from = card->pending_mode != mode ? card->pending_mode : card->mode;
        s->mode = mode;
    }
    if (changes && card->mode_needs_reset)
        card_steps_add(ret, CARD_RESET)->mode = mode;
    if (changes && card_is_used_as_a_whole(card))
        ret->card_blocking = true;
}

const struct card_fixed *card_fixed_of(const struct gpu_card *card, enum gpu_mode mode)
{
    const struct card_fixed *now = card_mode_of(card->mode)->fixed;
    return now ? now : card_mode_of(mode)->fixed;
}

void card_steps_to(const struct gpu_card *card, const struct card_layout *layout,
                   struct card_steps *ret)
{
    const struct card_mode *from = card_mode_of(card->mode);
    const struct card_mode *to = card_mode_of(layout->mode);
    ret->n = 0;
    ret->blocking = 0;
    ret->card_blocking = false;
    if (card_fixed_of(card, layout->mode))
        return;
    if (from->steps_down)
        from->steps_down(card, layout, ret);
    steps_mode(card, layout->mode, ret);
    if (to->steps_up)
        to->steps_up(card, layout, ret);
    assert(ret->n <= CARD_MAX_STEPS);
}

bool card_layout_matches(const struct gpu_card *card, const struct card_layout *layout)
{
    struct card_steps steps;
    if (card_fixed_of(card, layout->mode))
        return card->mode == layout->mode;
    card_steps_to(card, layout, &steps);
    return steps.n == 0;
}

/* --- texts --- */

static const char *profile_name(const struct mig_table *t, unsigned profile_id)
{
    assert(!t || t->n_profiles <= MIG_MAX_PROFILES);
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

static char *mode_text(const struct card_step *s)
{
    bool off = s->mode == GPU_NATIVE;
    return xasprintf("switch %s %s", card_mode_of(off ? s->from : s->mode)->word,
                     off ? "off" : "on");
}

char *card_step_text(const struct card_step *s, const struct mig_table *t)
{
    switch (s->kind) {
    case CARD_CI_DESTROY:
        return xasprintf("destroy compute instance %u (%uc) at %u", s->ci_id, s->slices, s->start);
    case CARD_GI_DESTROY:
        return instance_text("destroy", s, t);
    case CARD_MODE_SET:
        return mode_text(s);
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
