/* SPDX-License-Identifier: Apache-2.0 */
#include "partition/resource_names.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "base/xalloc.h"

#include "partition/vendor.h"

struct offer {
    struct device_resource **list;
    size_t *n;
    enum api_publisher publisher;
};

static void offer(const struct offer *o, const char *name, int64_t count)
{
    assert(count >= 0);
    struct device_resource *r = NULL;
    for (size_t i = 0; i < *o->n && !r; i++)
        if (strcmp((*o->list)[i].name, name) == 0)
            r = &(*o->list)[i];
    if (!r) {
        r = XPUSH(*o->list, *o->n);
        r->name = xstrdup(name);
        r->publisher = o->publisher;
    }
    r->count += count;
}

static bool has_name(const struct profile_count *p)
{
    struct mig_name parsed;
    return mig_name_parse(p->profile, &parsed, NULL) == 0;
}

/* True for a card in MIG mode that is wanted without partitions; false while it is being
 * partitioned anew. */
static bool stays_empty(const struct resolve_card *card, const struct device_want *want)
{
    bool to_be_cut = want && want->mode == API_MODE_MIG && want->mig.n_profiles;
    return card->n_partitions == 0 && !card->none_offered && !to_be_cut;
}

/* A card that is given out in shares has the name of whole cards for them, ill or not. */
static bool has_fractional(const struct device_spec *spec)
{
    for (size_t i = 0; spec && i < spec->n_devices; i++)
        if (spec->devices[i].has_sharing && spec->devices[i].sharing.has_fractional)
            return true;
    return false;
}

/* single renames partitions to nvidia.com/gpu. NVIDIA's plugin does that only while every card of
 * the node is partitioned, none of them is empty, and all have one kind of partition
 * (assertAllMigDevicesAreValid); where no card is partitioned, single equals none. Three kinds of
 * cards do not count, so that the offer of the others keeps its name: unhealthy ones, those that
 * are empty while they are partitioned anew, and another vendor's. */
static bool single_holds(const struct resolve_card *cards, size_t n, const struct device_spec *spec)
{
    const char *kind = NULL;
    bool whole = has_fractional(spec);
    bool cut = false;
    for (size_t i = 0; i < n; i++) {
        const struct vendor *v = vendor_find(cards[i].vendor);
        if (!cards[i].healthy || !v || !v->part)
            continue;
        cut |= cards[i].mode == API_MODE_MIG;
        whole |= cards[i].mode != API_MODE_MIG;
        if (cut && (whole || stays_empty(&cards[i], device_spec_want(spec, cards[i].uuid))))
            return false;
        for (size_t k = 0; k < cards[i].n_partitions; k++) {
            const struct profile_count *p = &cards[i].partitions[k];
            if (!has_name(p) || (kind && strcmp(kind, p->profile) != 0))
                return false;
            kind = p->profile;
        }
    }
    return true;
}

int resource_strategy(const struct resolve_card *cards, size_t n_cards,
                      const struct device_spec *spec, int asked)
{
    bool ambiguous = asked == API_STRATEGY_SINGLE && !single_holds(cards, n_cards, spec);
    return ambiguous ? API_STRATEGY_MIXED : asked;
}

bool resource_name(const char *vendor, int strategy, bool renamed, const char *profile, char *buf)
{
    const struct vendor *v = vendor_find(vendor);
    struct mig_name parsed;
    char label[MIG_NAME_BYTES];
    const char *shared = renamed ? ".shared" : "";
    int len;
    if (!v || (profile && !v->part))
        return false;
    if (!profile || strategy == API_STRATEGY_SINGLE)
        len = snprintf(buf, RESOURCE_NAME_BYTES, "%s%s", v->card, shared);
    else if (mig_name_parse(profile, &parsed, NULL) == 0)
        len = snprintf(buf, RESOURCE_NAME_BYTES, "%s%s%s", v->part,
                       mig_name_format_label(&parsed, label), shared);
    else
        return false;
    return len > 0 && len < RESOURCE_NAME_BYTES && (!profile || strategy != API_STRATEGY_NONE);
}

bool resource_slice_name(const char *vendor, const char *alias, char *buf)
{
    const struct vendor *v = vendor_find(vendor);
    if (!v || !v->slice)
        return false;
    int len = snprintf(buf, RESOURCE_NAME_BYTES, "%s%s%s", v->slice, alias ? "-" : "",
                       alias ? alias : "");
    return len > 0 && len < RESOURCE_NAME_BYTES;
}

const char *resource_function_name(const char *vendor)
{
    const struct vendor *v = vendor_find(vendor);
    return v ? v->function : NULL;
}

/* A card with virtual functions offers nothing else. */
static void offer_functions(const struct offer *o, const struct resolve_card *card)
{
    const char *name = resource_function_name(card->vendor);
    for (size_t k = 0; name && k < card->n_partitions; k++)
        offer(o, name, card->partitions[k].count);
}

/* Where slices are made for pods, the count is the most at a time; the pod says how large its slice
 * is. */
static void offer_slices(const struct offer *o, const struct resolve_card *card,
                         const struct device_want *want)
{
    char name[RESOURCE_NAME_BYTES];
    if (want && want->sgpu.n_slices == 0 && resource_slice_name(card->vendor, NULL, name))
        offer(o, name, SGPU_MAX_SLICES);
    for (size_t k = 0; want && k < card->n_partitions; k++)
        if (resource_slice_name(card->vendor, card->partitions[k].profile, name))
            offer(o, name, card->partitions[k].count);
}

/* A card that is given out in shares counts as one whole card: its shares are offered by an agent
 * that serves the kubelet, and by nobody else. */
static void offer_card(const struct offer *o, const struct resolve_card *card,
                       const struct device_want *want, int strategy)
{
    const struct device_sharing *sharing = want && want->has_sharing ? &want->sharing : NULL;
    const struct device_replicas *terms = sharing ? device_sharing_terms(sharing) : NULL;
    int64_t replicas = terms ? terms->replicas : 1;
    bool renamed = terms && terms->rename_by_default;
    char name[RESOURCE_NAME_BYTES];
    if (card->mode == API_MODE_SGPU) {
        offer_slices(o, card, want);
        return;
    }
    if (card->mode == API_MODE_VGPU) {
        offer_functions(o, card);
        return;
    }
    if (card->mode != API_MODE_MIG || strategy == API_STRATEGY_NONE) {
        if (resource_name(card->vendor, strategy, renamed, /* profile= */ NULL, name))
            offer(o, name, replicas);
        return;
    }
    for (size_t k = 0; k < card->n_partitions; k++)
        if (resource_name(card->vendor, strategy, renamed, card->partitions[k].profile, name))
            offer(o, name, card->partitions[k].count * replicas);
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const struct device_resource *)a)->name,
                  ((const struct device_resource *)b)->name);
}

void resolve_resources(const struct resolve_card *cards, size_t n_cards,
                       const struct device_spec *spec, enum api_publisher publisher,
                       struct device_resource **list, size_t *n)
{
    *list = NULL;
    *n = 0;
    const struct offer o = {list, n, publisher};
    int asked = spec ? spec->mig_strategy : API_STRATEGY_MIXED;
    int strategy = resource_strategy(cards, n_cards, spec, asked);
    for (size_t i = 0; i < n_cards; i++) {
        const struct device_want *want = device_spec_want(spec, cards[i].uuid);
        if (cards[i].healthy && (!want || want->mode == cards[i].mode))
            offer_card(&o, &cards[i], want, strategy);
    }
    if (*n)
        qsort(*list, *n, sizeof(**list), by_name);
}
