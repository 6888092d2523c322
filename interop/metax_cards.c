/* SPDX-License-Identifier: Apache-2.0 */
#include "interop/metax_cards.h"

#include <jansson.h>

#include "base/auto.h"
#include "base/jx.h"

enum { WHOLE = 100 };

/* The amounts that slices take of a card. */
struct taken {
    int64_t n, memory_mib, compute;
};

static struct taken taken_of(const struct metax_card *c, bool by_others_only)
{
    struct taken t = {0};
    for (unsigned i = 0; c->slices && i < c->slices->n; i++) {
        const struct sgpu_slice *s = &c->slices->items[i];
        if (by_others_only && !s->foreign)
            continue;
        t.n++;
        t.memory_mib += s->quota.memory_mib;
        t.compute += s->quota.compute_percent;
    }
    return t;
}

/* Never negative: under best effort, quotas of compute are not enforced, and may exceed the
 * whole. */
static int64_t left_of(int64_t all, int64_t taken)
{
    return taken < all ? all - taken : 0;
}

static int64_t memory_of(const struct metax_card *c)
{
    return c->slices && c->slices->memory_mib ? c->slices->memory_mib : c->memory_mib;
}

static const char *policy_of(const struct metax_card *c)
{
    return c->slices && c->slices->qos >= 0 ? api_qos_policy_names[c->slices->qos] : "";
}

static json_t *card_of(const struct metax_card *c, int zone)
{
    const struct taken others = taken_of(c, /* by_others_only= */ true);
    const struct taken all = taken_of(c, /* by_others_only= */ false);
    const int64_t memory = memory_of(c);
    return json_pack("{s:s, s:s, s:s, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:b, s:s, s:i}", "uuid",
                     c->uuid, "bdf", c->pci_bus_id ? c->pci_bus_id : "", "model",
                     c->model ? c->model : "", "totalDevCount",
                     (json_int_t)left_of(SGPU_MAX_SLICES, others.n), "totalCompute",
                     (json_int_t)left_of(WHOLE, others.compute), "totalVRam",
                     (json_int_t)left_of(memory, others.memory_mib), "availableDevCount",
                     (json_int_t)left_of(SGPU_MAX_SLICES, all.n), "availableCompute",
                     (json_int_t)left_of(WHOLE, all.compute), "availableVRam",
                     (json_int_t)left_of(memory, all.memory_mib), "numa",
                     (json_int_t)(c->numa_node > 0 ? c->numa_node : 0), "healthy", c->healthy,
                     "qosPolicy", policy_of(c), "linkZone", zone);
}

/* --- Zones --- */

static uint64_t bit(unsigned index)
{
    return index < METAX_CARDS_MAX ? UINT64_C(1) << index : 0;
}

/* All cards that links join to c, directly or over others, and c itself. */
static uint64_t joined(const struct metax_card *cards, size_t n, const struct metax_card *c)
{
    uint64_t more = bit(c->index);
    uint64_t seen = 0;
    while (more != seen) {
        seen = more;
        for (size_t i = 0; i < n; i++)
            if ((bit(cards[i].index) | cards[i].linked) & seen)
                more |= bit(cards[i].index) | cards[i].linked;
    }
    return seen;
}

/* A zone has the number of its first card, from 1; a card without links has zone 0. */
static int zone_of(const struct metax_card *cards, size_t n, const struct metax_card *c)
{
    const uint64_t zone = joined(cards, n, c);
    return zone == bit(c->index) ? 0 : __builtin_ctzll(zone) + 1;
}

char *metax_cards_text(const struct metax_card *cards, size_t n)
{
    auto_json json_t *list = json_array();
    for (size_t i = 0; i < n && json_array_size(list) < METAX_CARDS_MAX; i++)
        if (cards[i].shown && cards[i].uuid && *cards[i].uuid)
            (void)json_array_append_new(list, card_of(&cards[i], zone_of(cards, n, &cards[i])));
    return json_array_size(list) ? jx_dump(list) : NULL;
}
