/* SPDX-License-Identifier: Apache-2.0 */
#include "kubectl/card_parts_plan.h"

#include <string.h>

#include "base/xalloc.h"

#include "kubectl/text.h"

/* --- Parts by name --- */

static void add_part(struct plan_parts *l, char *text_take)
{
    *XPUSH(l->items, l->n) = text_take;
}

static void add_mig_part(struct plan_parts *l, const struct mig_profile *p, unsigned ci_slices,
                         unsigned start)
{
    char name[MIG_NAME_BYTES] = "unknown";
    if (p && ci_slices)
        (void)mig_partition_name(p, ci_slices, name);
    else if (p)
        (void)mig_partition_name(p, p->slices, name);
    add_part(l, xasprintf("%s@%u%s", name, start, ci_slices ? "" : " (bare)"));
}

static void mig_parts_now(const struct gpu_card *card, struct plan_parts *ret)
{
    for (unsigned i = 0; i < card->state.n; i++) {
        const struct mig_instance *in = &card->state.items[i];
        const struct mig_profile *p =
            in->profile < card->mig.n_profiles ? &card->mig.profiles[in->profile] : NULL;
        for (unsigned k = 0; k < in->n_cis; k++)
            add_mig_part(ret, p, in->cis[k].slices, in->start);
        if (in->n_cis == 0)
            add_mig_part(ret, p, 0, in->start);
    }
}

static const struct mig_profile *profile_of_id(const struct mig_table *t, unsigned id)
{
    for (unsigned i = 0; i < t->n_profiles; i++)
        if (t->profiles[i].id == id)
            return &t->profiles[i];
    return NULL;
}

static void mig_parts_then(const struct gpu_card *card, const struct card_layout *l,
                           struct plan_parts *ret)
{
    for (unsigned i = 0; i < l->n; i++) {
        const struct card_instance *in = &l->items[i];
        const struct mig_profile *p = profile_of_id(&card->mig, in->profile_id);
        for (unsigned k = 0; k < in->n_cis; k++)
            add_mig_part(ret, p, in->ci_slices[k], in->start);
        if (in->n_cis == 0)
            add_mig_part(ret, p, 0, in->start);
    }
}

/* Slices have no place, and those that were made for pods are in no layout: the steps say what
 * becomes of each. */
static bool slice_goes(const struct card_steps *steps, unsigned id)
{
    for (unsigned i = 0; i < steps->n; i++)
        if (steps->items[i].kind == CARD_SLICE_DESTROY && steps->items[i].slice_id == id)
            return true;
    return false;
}

static void slices_now(const struct gpu_card *card, const struct card_steps *steps, bool going,
                       struct plan_parts *ret)
{
    for (unsigned i = 0; i < card->sgpu.n; i++)
        if (slice_goes(steps, card->sgpu.items[i].id) == going)
            add_part(ret, xstrdup(card->sgpu.items[i].alias));
}

static void slices_made(const struct card_steps *steps, struct plan_parts *ret)
{
    for (unsigned i = 0; i < steps->n; i++) {
        const struct sgpu_want *w = &steps->items[i].slice;
        if (steps->items[i].kind == CARD_SLICE_CREATE)
            add_part(ret, xasprintf("%s (%u MiB, %u %%)", w->alias, w->quota.memory_mib,
                                    w->quota.compute_percent));
    }
}

/* --- Before and after --- */

static bool take(struct plan_parts *l, const char *name)
{
    for (size_t i = 0; i < l->n; i++) {
        if (strcmp(l->items[i], name) != 0)
            continue;
        free(l->items[i]);
        l->items[i] = l->items[--l->n];
        return true;
    }
    return false;
}

static int by_text(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static void compare(struct plan_parts *now, struct plan_parts *then, struct card_plan_view *ret)
{
    for (size_t i = 0; i < now->n; i++) {
        struct plan_parts *to = take(then, now->items[i]) ? &ret->stays : &ret->goes;
        add_part(to, now->items[i]);
    }
    free(now->items);
    if (then->n)
        qsort(then->items, then->n, sizeof(*then->items), by_text);
    ret->comes = *then;
}

void card_parts_compare(const struct gpu_card *card, const struct card_plan *plan,
                        struct card_plan_view *ret)
{
    struct plan_parts now = {0};
    struct plan_parts then = {0};
    if (card->mode == GPU_SGPU && plan->target.mode == GPU_SGPU) {
        slices_now(card, &plan->steps, /* going= */ false, &ret->stays);
        slices_now(card, &plan->steps, /* going= */ true, &ret->goes);
        slices_made(&plan->steps, &ret->comes);
        return;
    }
    if (card->mode == GPU_MIG)
        mig_parts_now(card, &now);
    if (plan->target.mode == GPU_MIG)
        mig_parts_then(card, &plan->target, &then);
    if (card->mode == GPU_SGPU)
        slices_now(card, &plan->steps, /* going= */ true, &now);
    if (plan->target.mode == GPU_SGPU)
        slices_made(&plan->steps, &then);
    if (card->mode == GPU_NATIVE)
        add_part(&now, xstrdup("the whole card"));
    if (plan->target.mode == GPU_NATIVE)
        add_part(&then, xstrdup("the whole card"));
    compare(&now, &then, ret);
}

/* --- Users --- */

static bool is_known(const struct card_plan_view *ret, const struct device_consumer *c)
{
    for (size_t i = 0; i < ret->n_users; i++) {
        const struct plan_user *u = &ret->users[i];
        if (text_equal(u->ns, c->namespace) && text_equal(u->name, c->name) &&
            text_equal(u->uid, c->uid) && (c->name || u->pid == c->pid))
            return true;
    }
    return false;
}

static void add_users(const struct device_consumer *list, size_t n, struct card_plan_view *ret)
{
    for (size_t i = 0; i < n; i++) {
        const struct device_consumer *c = &list[i];
        if (is_known(ret, c))
            continue;
        *XPUSH(ret->users, ret->n_users) = (struct plan_user){.ns = xstrdup(c->namespace),
                                                              .name = xstrdup(c->name),
                                                              .uid = xstrdup(c->uid),
                                                              .process = xstrdup(c->process),
                                                              .pid = c->pid};
    }
}

/* The bits of steps.blocking are indices of the card's instances, or of its slices. */
static bool blocks(const struct gpu_card *card, const struct card_plan *plan,
                   const struct device_partition *p)
{
    if (plan->steps.card_blocking)
        return true;
    for (unsigned i = 0; i < card->state.n && card->mode == GPU_MIG; i++)
        if (plan->steps.blocking & (1U << i) && p->has_gi_id &&
            card->state.items[i].gi_id == (unsigned)p->gi_id)
            return true;
    for (unsigned i = 0; i < card->sgpu.n && card->mode == GPU_SGPU; i++)
        if (plan->steps.blocking & (1U << i) && p->has_slice &&
            card->sgpu.items[i].id == (unsigned)p->slice.id)
            return true;
    return false;
}

void card_parts_users(const struct gpu_card *card, const struct device_card *st,
                      const struct card_plan *plan, struct card_plan_view *ret)
{
    if (plan->steps.card_blocking)
        add_users(st->in_use_by, st->n_in_use_by, ret);
    for (size_t i = 0; i < st->n_partitions; i++)
        if (blocks(card, plan, &st->partitions[i]))
            add_users(st->partitions[i].in_use_by, st->partitions[i].n_in_use_by, ret);
}
