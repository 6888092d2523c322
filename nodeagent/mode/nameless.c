/* SPDX-License-Identifier: Apache-2.0 */
#include "nodeagent/mode/nameless.h"

#include <assert.h>

static bool is_nameless(const struct gpu_card *card, unsigned i)
{
    return card->mode == GPU_SGPU && card->sgpu.items[i].foreign && !card->slices[i].alias[0];
}

void card_slices_nameless(const struct gpu_card *card, uint32_t without, struct card_nameless *ret)
{
    *ret = (struct card_nameless){0};
    assert(card->sgpu.n <= SGPU_MAX_SLICES);
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
    assert(before->n <= SGPU_MAX_SLICES && made->n <= SGPU_MAX_SLICES);
    for (unsigned i = 0; i < card->sgpu.n; i++) {
        const struct sgpu_slice *s = &card->sgpu.items[i];
        if (is_nameless(card, i) && !s->in_use && !stood_before(before, s->id) &&
            has_quota(made, &s->quota))
            found |= 1U << i;
    }
    return found;
}
