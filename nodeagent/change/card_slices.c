/* SPDX-License-Identifier: Apache-2.0 */
#include "nodeagent/change/card_slices.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

bool card_slices_concern(const struct gpu_card *card, const struct card_layout *layout)
{
    return card->mode == GPU_SGPU || layout->mode == GPU_SGPU;
}

void card_slices_layout_of(const struct gpu_card *card, struct card_layout *ret)
{
    ret->sgpu.qos = card->sgpu.qos;
    ret->sgpu.timeslice_ms = card->sgpu.timeslice_ms;
    for (unsigned i = 0; i < card->sgpu.n; i++) {
        const struct sgpu_slice *s = &card->sgpu.items[i];
        if (s->foreign)
            continue;
        struct sgpu_want *w = &ret->sgpu.items[ret->sgpu.n++];
        memcpy(w->alias, s->alias, sizeof(w->alias));
        w->quota = s->quota;
    }
}

static struct card_step *add_step(struct card_steps *s, enum card_step_kind kind)
{
    assert(s->n < CARD_MAX_STEPS);
    struct card_step *step = &s->items[s->n++];
    *step = (struct card_step){.kind = kind, .ci_start = -1};
    return step;
}

static void add_destroy(const struct sgpu_slice *slice, struct card_steps *ret)
{
    struct card_step *s = add_step(ret, CARD_SLICE_DESTROY);
    s->gi_id = slice->id;
    memcpy(s->slice.alias, slice->alias, sizeof(s->slice.alias));
    s->slice.quota = slice->quota;
}

/* The card's slices; none unless the card is in their mode. */
static struct sgpu_state standing(const struct gpu_card *card)
{
    struct sgpu_state now = card->sgpu;
    if (card->mode != GPU_SGPU)
        now.n = 0;
    return now;
}

static bool is_used_as_a_whole(const struct gpu_card *card)
{
    for (unsigned i = 0; i < card->n_processes; i++)
        if (card->mode == GPU_NATIVE || card->processes[i].gi_id < 0)
            return true;
    return false;
}

static void set_mode(const struct gpu_card *card, enum gpu_mode mode, struct card_steps *ret)
{
    if (card->mode == mode)
        return;
    struct card_step *s = add_step(ret, CARD_MODE_SET);
    s->from = card->mode;
    s->mode = mode;
    ret->card_blocking |= is_used_as_a_whole(card);
}

static void destroy_all(const struct gpu_card *card, struct card_steps *ret)
{
    for (unsigned i = 0; i < card->sgpu.n; i++) {
        const struct sgpu_slice *s = &card->sgpu.items[i];
        if (!s->foreign)
            add_destroy(s, ret);
        if (s->foreign || s->in_use)
            ret->blocking |= 1U << i;
    }
}

/* A layout that does not fit beside the foreign slices blocks as a whole. */
static void steps_by_plan(const struct gpu_card *card, const struct sgpu_wants *wants,
                          struct card_steps *ret)
{
    struct sgpu_state now = standing(card);
    struct sgpu_plan p;
    sgpu_plan_layout(&now, wants, &p);
    for (unsigned i = 0; i < now.n; i++)
        if (p.destroy & (1U << i))
            add_destroy(&now.items[i], ret);
    set_mode(card, GPU_SGPU, ret);
    if (p.set_qos || p.verdict == SGPU_PLAN_INFEASIBLE)
        add_step(ret, CARD_QOS_SET)->qos = wants->qos;
    if (p.set_timeslice)
        add_step(ret, CARD_TIMESLICE_SET)->timeslice_ms = wants->timeslice_ms;
    for (unsigned i = 0; i < wants->n; i++)
        if (p.create & (1U << i))
            add_step(ret, CARD_SLICE_CREATE)->slice = wants->items[i];
    ret->blocking |= p.blocking;
    ret->card_blocking |=
        p.verdict == SGPU_PLAN_INFEASIBLE || (p.set_qos && is_used_as_a_whole(card));
}

void card_slices_steps_to(const struct gpu_card *card, const struct card_layout *layout,
                          struct card_steps *ret)
{
    if (layout->mode == GPU_SGPU) {
        steps_by_plan(card, &layout->sgpu, ret);
        return;
    }
    destroy_all(card, ret);
    set_mode(card, layout->mode, ret);
}

static bool is_nameless(const struct gpu_card *card, unsigned i)
{
    return card->mode == GPU_SGPU && card->sgpu.items[i].foreign && !card->slices[i].alias[0];
}

void card_slices_nameless(const struct gpu_card *card, uint32_t without, struct card_nameless *ret)
{
    *ret = (struct card_nameless){0};
    for (unsigned i = 0; i < card->sgpu.n; i++)
        if (is_nameless(card, i) && !(without & (1U << i)))
            ret->ids[ret->n++] = card->sgpu.items[i].id;
}

static bool stood_before(const struct card_nameless *before, unsigned id)
{
    for (unsigned i = 0; i < before->n; i++)
        if (before->ids[i] == id)
            return true;
    return false;
}

static bool has_quota(const struct sgpu_wants *made, const struct sgpu_quota *q)
{
    for (unsigned i = 0; i < made->n; i++)
        if (made->items[i].quota.memory_mib == q->memory_mib &&
            made->items[i].quota.compute_percent == q->compute_percent)
            return true;
    return false;
}

uint32_t card_slices_unnamed(const struct gpu_card *card, const struct card_nameless *before,
                             const struct sgpu_wants *made)
{
    uint32_t found = 0;
    for (unsigned i = 0; i < card->sgpu.n; i++) {
        const struct sgpu_slice *s = &card->sgpu.items[i];
        if (is_nameless(card, i) && !s->in_use && !stood_before(before, s->id) &&
            has_quota(made, &s->quota))
            found |= 1U << i;
    }
    return found;
}

bool card_slices_feasible(const struct gpu_card *card, const struct card_wish *wish, char *ret_why,
                          size_t size)
{
    if (wish->mode == GPU_SGPU) {
        struct sgpu_state now = standing(card);
        struct sgpu_plan p;
        sgpu_plan(&now, &wish->sgpu, &p);
        (void)snprintf(ret_why, size, "%s", p.reason);
        return p.verdict != SGPU_PLAN_INFEASIBLE;
    }
    for (unsigned i = 0; card->mode == GPU_SGPU && i < card->sgpu.n; i++)
        if (card->sgpu.items[i].foreign) {
            (void)snprintf(ret_why, size,
                           "slice %u was not made by Cleave; sGPU stays on until it is gone",
                           card->sgpu.items[i].id);
            return false;
        }
    return true;
}
