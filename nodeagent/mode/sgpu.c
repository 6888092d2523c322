/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "base/xalloc.h"

#include "nodeagent/mode/card_mode.h"
#include "partition/resource_names.h"

/* Slices with quotas of memory and compute, in no place (MetaX sGPU). */

static_assert(sizeof(((struct entry_slice *)0)->alias) >= sizeof(((struct gpu_slice *)0)->alias),
              "the alias that a container is told is not cut");

/* --- Parts --- */

static bool is_possible(const struct gpu_card *card)
{
    return card->sgpu_capable;
}

static unsigned count(const struct gpu_card *card)
{
    return card->sgpu.n;
}

static struct card_part part_at(const struct gpu_card *card, unsigned i)
{
    const struct sgpu_slice *s = &card->sgpu.items[i];
    return (struct card_part){.slice = s,
                              .device = &card->slices[i],
                              .number = (int)s->id,
                              .ci = -1,
                              .memory_mib = s->quota.memory_mib,
                              .healthy = card->slices[i].healthy,
                              .foreign = s->foreign,
                              .declared = !s->foreign && *s->alias && sgpu_slot_of(s->alias) < 0,
                              .in_use = s->in_use};
}

static bool kind(const struct gpu_card *card, const struct card_part *p, char *buf)
{
    (void)card;
    sgpu_kind_of(p->slice->alias, buf);
    return p->declared;
}

/* For a slot the slice's card is not part of its name: slot_id. */
static bool place(const struct gpu_card *card, const struct card_part *p, char *buf)
{
    (void)card;
    (void)snprintf(buf, CARD_PLACE_BYTES, "%s", p->slice->alias);
    return true;
}

static bool resource(const char *vendor, int strategy, bool renamed, const char *of, char *buf)
{
    (void)strategy;
    (void)renamed;
    return resource_slice_name(vendor, of, buf);
}

static void set_entry(const struct gpu_card *card, const struct card_part *p,
                      struct entry_device *d)
{
    d->cdi_name = entry_cdi_slice_name(card->uuid, p->slice->alias);
    if (*p->device->uuid)
        xstr_set(&d->uuid, p->device->uuid);
    d->has_slice = true;
    d->slice = (struct entry_slice){.id = p->slice->id,
                                    .minor = p->device->minor,
                                    .memory_mib = p->slice->quota.memory_mib,
                                    .compute_percent = p->slice->quota.compute_percent};
    (void)snprintf(d->slice.alias, sizeof(d->slice.alias), "%s", p->device->alias);
}

static void show(const struct gpu_card *card, const struct card_part *p,
                 struct device_partition *to)
{
    const struct sgpu_slice *s = p->slice;
    to->uuid = *p->device->uuid ? xstrdup(p->device->uuid) : xasprintf("%s/%u", card->uuid, s->id);
    to->has_slice = true;
    to->slice = (struct device_slice){
        .id = s->id,
        .alias = *s->alias ? xstrdup(s->alias) : NULL,
        .memory_mib = s->quota.memory_mib,
        .compute_percent = s->quota.compute_percent,
        .foreign = s->foreign,
    };
}

static void describe(const struct gpu_card *card, const struct card_part *p, struct sb *b)
{
    const struct sgpu_slice *s = p->slice;
    (void)card;
    sb_addf(b, "%-14s slice %-2u  %5u MiB  %3u %%  %s%s", *s->alias ? s->alias : "?", s->id,
            s->quota.memory_mib, s->quota.compute_percent, p->device->uuid,
            s->foreign ? "  (not made by Cleave)" : "");
}

/* --- Layouts --- */

static void layout_of(const struct gpu_card *card, struct card_layout *ret)
{
    ret->sgpu.qos = card->sgpu.qos;
    ret->sgpu.timeslice_ms = card->sgpu.timeslice_ms;
    for (unsigned i = 0; i < card->sgpu.n; i++) {
        const struct sgpu_slice *s = &card->sgpu.items[i];
        if (s->foreign)
            continue;
        assert(ret->sgpu.n < SGPU_MAX_SLICES);
        struct sgpu_want *w = &ret->sgpu.items[ret->sgpu.n++];
        memcpy(w->alias, s->alias, sizeof(w->alias));
        w->quota = s->quota;
    }
}

static void add_destroy(const struct sgpu_slice *slice, struct card_steps *ret)
{
    struct card_step *s = card_steps_add(ret, CARD_SLICE_DESTROY);
    s->slice_id = slice->id;
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

static void steps_down(const struct gpu_card *card, const struct card_layout *layout,
                       struct card_steps *ret)
{
    struct sgpu_plan p;
    assert(card->mode == GPU_SGPU);
    if (layout->mode != GPU_SGPU) {
        destroy_all(card, ret);
        return;
    }
    sgpu_plan_layout(&card->sgpu, &layout->sgpu, &p);
    for (unsigned i = 0; i < card->sgpu.n; i++)
        if (p.destroy & (1U << i))
            add_destroy(&card->sgpu.items[i], ret);
}

/* A layout that does not fit beside the foreign slices blocks as a whole. */
static void steps_up(const struct gpu_card *card, const struct card_layout *layout,
                     struct card_steps *ret)
{
    const struct sgpu_wants *wants = &layout->sgpu;
    struct sgpu_state now = standing(card);
    struct sgpu_plan p;
    assert(layout->mode == GPU_SGPU && wants->n <= SGPU_MAX_SLICES);
    sgpu_plan_layout(&now, wants, &p);
    if (p.set_qos || p.verdict == SGPU_PLAN_INFEASIBLE)
        card_steps_add(ret, CARD_QOS_SET)->qos = wants->qos;
    if (p.set_timeslice)
        card_steps_add(ret, CARD_TIMESLICE_SET)->timeslice_ms = wants->timeslice_ms;
    for (unsigned i = 0; i < wants->n; i++)
        if (p.create & (1U << i))
            card_steps_add(ret, CARD_SLICE_CREATE)->slice = wants->items[i];
    ret->blocking |= p.blocking;
    ret->card_blocking |=
        p.verdict == SGPU_PLAN_INFEASIBLE || (p.set_qos && card_is_used_as_a_whole(card));
}

static int wish_of(const struct gpu_card *card, const struct device_want *want,
                   struct card_wish *ret, struct err *e)
{
    (void)card;
    return sgpu_wants_of(&want->sgpu, &ret->sgpu, e);
}

static bool target_of(const struct gpu_card *card, const struct card_wish *wish,
                      struct card_layout *ret, struct card_unfit *why)
{
    struct sgpu_state now = standing(card);
    struct sgpu_plan p;
    assert(wish->mode == GPU_SGPU && ret->n == 0);
    ret->sgpu = wish->sgpu;
    if (wish->sgpu.qos < 0)
        ret->sgpu.qos = card->sgpu.qos;
    sgpu_plan(&now, &wish->sgpu, &p);
    if (p.verdict != SGPU_PLAN_INFEASIBLE)
        return true;
    why->reason = "Infeasible";
    (void)snprintf(why->message, sizeof(why->message), "%s", p.reason);
    return false;
}

static int blocking_item(const struct gpu_card *card, unsigned i, struct sb *b)
{
    assert(i < card->sgpu.n);
    const struct sgpu_slice *s = &card->sgpu.items[i];
    sb_addf(b, "slice %u (%s)", s->id, s->alias);
    return (int)s->id;
}

/* Also where only the sharing policy changes. */
static bool must_be_free(const struct card_steps *steps, const struct card_part *p, unsigned i)
{
    (void)p;
    return steps->blocking & (1U << i);
}

/* Unlike partitions each slice is wanted by its name. */
static bool keeps(const struct gpu_card *card, const struct device_want *want, const bool *stays)
{
    struct sgpu_wants wants;
    struct sgpu_plan p;
    if (want->mode != (int)card->mode || sgpu_wants_of(&want->sgpu, &wants, NULL) < 0)
        return false;
    sgpu_plan(&card->sgpu, &wants, &p);
    for (unsigned i = 0; i < card->sgpu.n; i++)
        if (p.keep & (1U << i) && !card->sgpu.items[i].foreign && !stays[i])
            return false;
    return true;
}

extern const struct card_mode card_mode_sgpu;
const struct card_mode card_mode_sgpu = {
    .word = "sGPU",
    .bare = "slices made for pods",
    .summary = "onDemand",
    .unsupported = "SGPUUnsupported",
    .is_possible = is_possible,
    .count = count,
    .part_at = part_at,
    .kind = kind,
    .place = place,
    .resource = resource,
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
