/* SPDX-License-Identifier: Apache-2.0 */
#include "nodeagent/offer/share_card.h"

#include <assert.h>
#include <string.h>

#include "partition/vendor.h"

enum { WHOLE_PERCENT = 100 };

static bool is_fractional(const struct device_want *want, const struct sharing_means *means)
{
    return want && want->mode == API_MODE_NATIVE &&
           enforcement_gives_shares(want, &means->enforcement);
}

bool share_pool_exists(const struct device_spec *spec, const struct sharing_means *means)
{
    bool serves = means->publisher == API_PUBLISHER_KUBELET;
    for (size_t i = 0; spec && serves && i < spec->n_devices; i++)
        if (is_fractional(&spec->devices[i], means))
            return true;
    return false;
}

static unsigned scaled(uint64_t amount, int64_t percent)
{
    assert(percent >= 0);
    uint64_t much = amount * (uint64_t)percent / WHOLE_PERCENT;
    return much < INT32_MAX ? (unsigned)much : INT32_MAX;
}

static struct fraction_size whole_of(const struct gpu_card *card)
{
    return (struct fraction_size){scaled(card->memory_mib, WHOLE_PERCENT), WHOLE_PERCENT, 1};
}

static struct fraction_size total_of(const struct gpu_card *card, const struct device_fractional *f)
{
    return (struct fraction_size){scaled(card->memory_mib, f->memory_percent),
                                  scaled(WHOLE_PERCENT, f->compute_percent),
                                  (unsigned)f->max_shares};
}

bool share_card_of(const struct share_facts *f, const struct gpu_card *card,
                   const struct device_want *want, struct share_card *ret)
{
    const struct vendor *v = vendor_find(card->vendor);
    enum sharing_kind kind = sharing_of(f->rules, card->vendor, want, /* profile= */ NULL).kind;
    if (!v || !v->has_shares || card->mode != GPU_NATIVE || kind == SHARING_TIME_SLICING ||
        kind == SHARING_MPS)
        return false;
    *ret = (struct share_card){.card = card,
                               .total = whole_of(card),
                               .used = shares_on(f->shares, card->uuid),
                               .only_whole = !is_fractional(want, &f->rules->means)};
    if (!ret->only_whole) {
        ret->total = total_of(card, &want->sharing.fractional);
        ret->may_disable = want->sharing.fractional.allow_disable;
        ret->memory_level =
            enforcement_of_memory(&want->sharing.fractional, &f->rules->means.enforcement);
        ret->compute_level =
            enforcement_of_compute(&want->sharing.fractional, &f->rules->means.enforcement);
        ret->is_capped = want->sharing.fractional.has_qos_policy &&
                         want->sharing.fractional.qos_policy == API_FIXED_SHARE;
    }
    if (f->shares->is_adopting || (f->holders && holders_has_card(f->holders, card->uuid)))
        ret->used = ret->total;
    return true;
}

/* True for a share that has to be held. */
static bool counts(const struct share *s, const struct gpu_card *card)
{
    return strcmp(s->card, card->uuid) == 0 && !share_is_whole(s, card->memory_mib);
}

static bool has_adopted(const struct share_card *c, const struct shares *shares)
{
    for (size_t i = 0; i < shares->n_adopted; i++)
        if (strcmp(shares->adopted[i].card, c->card->uuid) == 0)
            return true;
    return false;
}

static int weaker(int a, int b)
{
    return a < b ? a : b;
}

enum api_level share_card_memory_level(const struct share_card *c, const struct shares *shares)
{
    int level = has_adopted(c, shares) ? API_LEVEL_NONE : (int)c->memory_level;
    for (size_t i = 0; i < shares->n; i++)
        if (counts(&shares->items[i], c->card))
            level = weaker(level, shares->items[i].memory_level);
    return (enum api_level)level;
}

enum api_level share_card_compute_level(const struct share_card *c, const struct shares *shares)
{
    int level = has_adopted(c, shares) ? API_LEVEL_NONE : (int)c->compute_level;
    for (size_t i = 0; i < shares->n; i++)
        if (counts(&shares->items[i], c->card))
            level = weaker(level, shares->items[i].compute_level);
    return (enum api_level)level;
}

unsigned share_card_room(const struct share_card *c)
{
    const struct fraction_card card = {.total = c->total, .used = c->used};
    const struct fraction_size room = fraction_room(&card);
    if (c->only_whole && c->used.shares)
        return 0;
    return room.memory_mib && room.percent ? room.shares : 0;
}
