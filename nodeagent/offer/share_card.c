/* SPDX-License-Identifier: Apache-2.0 */
#include "nodeagent/offer/share_card.h"

#include <assert.h>

#include "partition/enforcement.h"
#include "partition/vendor.h"

enum { WHOLE_PERCENT = 100 };

static bool is_fractional(const struct device_want *want)
{
    return want && want->mode == API_MODE_NATIVE && enforcement_gives_shares(want);
}

bool share_pool_exists(const struct device_spec *spec, enum api_publisher publisher)
{
    for (size_t i = 0; spec && publisher == API_PUBLISHER_KUBELET && i < spec->n_devices; i++)
        if (is_fractional(&spec->devices[i]))
            return true;
    return false;
}

static unsigned scaled(uint64_t amount, int64_t percent)
{
    assert(percent >= 0);
    uint64_t much = amount * (uint64_t)percent / WHOLE_PERCENT;
    return much < INT32_MAX ? (unsigned)much : INT32_MAX;
}

static struct fraction_size total_of(const struct gpu_card *card, const struct device_want *want)
{
    if (!is_fractional(want))
        return (struct fraction_size){scaled(card->memory_mib, WHOLE_PERCENT), WHOLE_PERCENT, 1};
    const struct device_fractional *f = &want->sharing.fractional;
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
                               .total = total_of(card, want),
                               .used = shares_on(f->shares, card->uuid),
                               .only_whole = !is_fractional(want)};
    if (f->shares->is_adopting || (f->holders && holders_has_card(f->holders, card->uuid)))
        ret->used = ret->total;
    return true;
}

unsigned share_card_room(const struct share_card *c)
{
    const struct fraction_card card = {.total = c->total, .used = c->used};
    const struct fraction_size room = fraction_room(&card);
    if (c->only_whole && c->used.shares)
        return 0;
    return room.memory_mib && room.percent ? room.shares : 0;
}
