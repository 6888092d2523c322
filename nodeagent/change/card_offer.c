/* SPDX-License-Identifier: Apache-2.0 */
#include "nodeagent/change/card_offer.h"

#include <string.h>

void card_offer_of(const struct gpu_card *card, struct card_offer *ret)
{
    *ret = (struct card_offer){.whole = card->mode == GPU_NATIVE,
                               .slots = card->mode == GPU_SGPU,
                               .vfs = card->mode == GPU_VGPU};
    for (unsigned i = 0; i < card->n_partitions; i++)
        ret->items[ret->n++] =
            (struct card_offer_item){card->partitions[i].gi_id, card->partitions[i].ci_id};
    for (unsigned i = 0; card->mode == GPU_SGPU && i < card->sgpu.n; i++)
        if (!card->sgpu.items[i].foreign)
            ret->slices[ret->n_slices++] = card->sgpu.items[i].id;
}

static bool takes_card(const struct card_step *s)
{
    return s->kind == CARD_MODE_SET || s->kind == CARD_RESET;
}

static bool takes_item(const struct card_step *s, const struct card_offer_item *item)
{
    return s->kind == CARD_CI_DESTROY && s->gi_id == item->gi_id && s->ci_id == item->ci_id;
}

static bool takes_slice(const struct card_step *s, unsigned id)
{
    return s->kind == CARD_SLICE_DESTROY && s->gi_id == id;
}

/* No slice can be made for a pod while the card's sharing policy changes. */
static bool takes_slots(const struct card_step *s)
{
    return takes_card(s) || s->kind == CARD_QOS_SET || s->kind == CARD_TIMESLICE_SET;
}

static void withdraw_slices(struct card_offer *o, const struct card_step *s)
{
    unsigned n = 0;
    o->slots &= !takes_slots(s);
    for (unsigned k = 0; k < o->n_slices; k++)
        if (!takes_card(s) && !takes_slice(s, o->slices[k]))
            o->slices[n++] = o->slices[k];
    o->n_slices = n;
}

void card_offer_withdraw(struct card_offer *o, const struct card_steps *steps)
{
    for (unsigned i = 0; i < steps->n; i++) {
        const struct card_step *s = &steps->items[i];
        unsigned n = 0;
        for (unsigned k = 0; k < o->n; k++)
            if (!takes_card(s) && !takes_item(s, &o->items[k]))
                o->items[n++] = o->items[k];
        o->n = n;
        o->whole &= !takes_card(s);
        o->vfs &= !takes_card(s);
        withdraw_slices(o, s);
    }
}

static void name_of(const struct gpu_card *card, const struct gpu_partition *p, char *buf)
{
    const struct mig_instance *inst = &card->state.items[p->instance];
    if (inst->profile == MIG_NO_PROFILE)
        *buf = '\0';
    else
        mig_partition_name(&card->mig.profiles[inst->profile], inst->cis[p->ci].slices, buf);
}

static int64_t wanted_of(const struct device_want *want, const char *name)
{
    for (size_t i = 0; i < want->mig.n_profiles; i++)
        if (strcmp(want->mig.profiles[i].profile, name) == 0)
            return want->mig.profiles[i].count;
    return 0;
}

static bool has_slice(const struct card_offer *o, unsigned id)
{
    for (unsigned i = 0; i < o->n_slices; i++)
        if (o->slices[i] == id)
            return true;
    return false;
}

static bool keeps_slices(const struct card_offer *left, const struct gpu_card *card,
                         const struct device_want *want)
{
    struct sgpu_wants wants;
    struct sgpu_plan p;
    if (want->mode != API_MODE_SGPU || sgpu_wants_of(&want->sgpu, &wants, NULL) < 0)
        return false;
    sgpu_plan(&card->sgpu, &wants, &p);
    for (unsigned i = 0; i < card->sgpu.n; i++)
        if (p.keep & (1U << i) && !card->sgpu.items[i].foreign &&
            !has_slice(left, card->sgpu.items[i].id))
            return false;
    return true;
}

bool card_offer_keeps(const struct card_offer *left, const struct gpu_card *card,
                      const struct device_want *want)
{
    if (card->mode == GPU_SGPU)
        return keeps_slices(left, card, want);
    for (unsigned i = 0; i < card->n_partitions; i++) {
        char name[MIG_NAME_BYTES];
        int64_t stands = 0;
        int64_t stays = 0;
        name_of(card, &card->partitions[i], name);
        for (unsigned k = 0; k < card->n_partitions; k++) {
            char other[MIG_NAME_BYTES];
            name_of(card, &card->partitions[k], other);
            stands += strcmp(name, other) == 0;
            const struct card_part part = {.mig = &card->partitions[k]};
            stays += strcmp(name, other) == 0 && card_offer_has(left, &part);
        }
        int64_t wanted = wanted_of(want, name);
        if (stays < (wanted < stands ? wanted : stands))
            return false;
    }
    return true;
}

bool card_offer_allows(const struct card_offer *o, const struct card_steps *steps)
{
    struct card_offer left = *o;
    card_offer_withdraw(&left, steps);
    return left.whole == o->whole && left.slots == o->slots && left.vfs == o->vfs &&
           left.n == o->n && left.n_slices == o->n_slices;
}

bool card_offer_equal(const struct card_offer *a, const struct card_offer *b)
{
    return a->whole == b->whole && a->slots == b->slots && a->vfs == b->vfs && a->n == b->n &&
           memcmp(a->items, b->items, a->n * sizeof(a->items[0])) == 0 &&
           a->n_slices == b->n_slices &&
           memcmp(a->slices, b->slices, a->n_slices * sizeof(a->slices[0])) == 0;
}

bool card_offer_has(const struct card_offer *o, const struct card_part *p)
{
    if (p->vf)
        return o->vfs;
    if (p->slice)
        return has_slice(o, p->slice->id);
    for (unsigned i = 0; i < o->n; i++)
        if (o->items[i].gi_id == p->mig->gi_id && o->items[i].ci_id == p->mig->ci_id)
            return true;
    return false;
}
