/* SPDX-License-Identifier: Apache-2.0 */
#include "nodeagent/card_offer.h"

#include <string.h>

void card_offer_of(const struct gpu_card *card, struct card_offer *ret)
{
    *ret = (struct card_offer){.whole = card->mode == GPU_NATIVE};
    for (unsigned i = 0; i < card->n_partitions; i++)
        ret->items[ret->n++] =
            (struct card_offer_item){card->partitions[i].gi_id, card->partitions[i].ci_id};
}

static bool takes_card(const struct card_step *s)
{
    return s->kind == CARD_MODE_SET || s->kind == CARD_RESET;
}

static bool takes_item(const struct card_step *s, const struct card_offer_item *item)
{
    return s->kind == CARD_CI_DESTROY && s->gi_id == item->gi_id && s->ci_id == item->ci_id;
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

bool card_offer_keeps(const struct card_offer *left, const struct gpu_card *card,
                      const struct device_want *want)
{
    for (unsigned i = 0; i < card->n_partitions; i++) {
        char name[MIG_NAME_BYTES];
        int64_t stands = 0;
        int64_t stays = 0;
        name_of(card, &card->partitions[i], name);
        for (unsigned k = 0; k < card->n_partitions; k++) {
            char other[MIG_NAME_BYTES];
            name_of(card, &card->partitions[k], other);
            stands += strcmp(name, other) == 0;
            stays += strcmp(name, other) == 0 && card_offer_has(left, &card->partitions[k]);
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
    return left.whole == o->whole && left.n == o->n;
}

bool card_offer_has(const struct card_offer *o, const struct gpu_partition *p)
{
    for (unsigned i = 0; i < o->n; i++)
        if (o->items[i].gi_id == p->gi_id && o->items[i].ci_id == p->ci_id)
            return true;
    return false;
}
