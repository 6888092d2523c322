/* SPDX-License-Identifier: Apache-2.0 */
#include "nodeagent/change/card_view.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "base/sb.h"
#include "base/xalloc.h"

#include "nodeagent/mode/card_mode.h"
#include "partition/vendor.h"

enum { TEXT_BYTES = 1000 };

void card_view_done(struct card_view *v)
{
    gpu_card_done(&v->card);
    free(v->pods);
    *v = (struct card_view){0};
}

/* Without a want: slices are made for pods, unless the card shows declared ones. */
bool card_makes_slices(const struct gpu_card *card, const struct device_want *want)
{
    assert(card->mode == GPU_SGPU);
    if (want)
        return want->mode == API_MODE_SGPU && want->sgpu.n_slices == 0;
    for (unsigned i = 0; i < card_parts(card); i++)
        if (card_part_at(card, i).declared)
            return false;
    return true;
}

/* --- The resolver's view --- */

/* XPUSH writes the count. NOLINTNEXTLINE(readability-non-const-parameter) */
static void count_part(const char *name, struct profile_count **counts, size_t *n)
{
    for (size_t i = 0; i < *n; i++) {
        if (strcmp((*counts)[i].profile, name) == 0) {
            (*counts)[i].count++;
            return;
        }
    }
    *XPUSH(*counts, *n) = (struct profile_count){.profile = xstrdup(name), .count = 1};
}

static bool is_offered(const struct card_part *p, const struct card_offer *offer)
{
    return !p->mig || (card_part_is_good(p) && card_offer_has(offer, p));
}

/* offer NULL: all parts count. */
static void view_of(const struct gpu_card *card, const struct card_offer *offer,
                    struct resolve_card *ret, struct profile_count **counts)
{
    size_t n = 0;
    *counts = NULL;
    for (unsigned i = 0; i < card_parts(card); i++) {
        char name[MIG_NAME_BYTES];
        const struct card_part part = card_part_at(card, i);
        card_part_name(card, &part, name);
        if ((!offer || is_offered(&part, offer)) && part.declared)
            count_part(name, counts, &n);
    }
    *ret = (struct resolve_card){
        .uuid = card->uuid,
        .vendor = card->vendor,
        .model = card->model,
        .pci_bus_id = card->pci_bus_id,
        .pci_device_id = card->pci_device_id,
        .pci_subsystem_id = card->pci_subsystem_id,
        .index = card->index,
        .mig_capable = card->mig_capable,
        .healthy = card->healthy,
        .mode = (int)card->mode,
        .table = card->mig.n_profiles ? &card->mig : NULL,
        .sgpu = card->sgpu_capable ? &card->sgpu : NULL,
        .partitions = *counts,
        .n_partitions = n,
    };
}

void card_resolve_view(const struct gpu_card *card, struct resolve_card *ret,
                       struct profile_count **counts)
{
    view_of(card, /* offer= */ NULL, ret, counts);
}

static bool has_offered_partition(const struct gpu_card *card, const struct card_offer *offer)
{
    for (unsigned i = 0; i < card_parts(card); i++) {
        const struct card_part part = card_part_at(card, i);
        if (is_offered(&part, offer))
            return true;
    }
    return false;
}

void card_resolve_offered(const struct gpu_card *card, const struct card_offer *offer,
                          struct resolve_card *ret, struct profile_count **counts)
{
    view_of(card, offer, ret, counts);
    ret->healthy &= card->mode != GPU_NATIVE || offer->whole;
    ret->none_offered = card->n_partitions && !has_offered_partition(card, offer);
}

void card_resolve_counts_free(struct profile_count *counts, size_t n)
{
    for (size_t i = 0; i < n; i++)
        free(counts[i].profile);
    free(counts);
}

char *card_layout_words(const struct gpu_card *card)
{
    struct resolve_card view;
    struct profile_count *counts;
    card_resolve_view(card, &view, &counts);
    auto_sb struct sb text = SB_INIT(TEXT_BYTES);
    for (size_t i = 0; i < view.n_partitions; i++)
        sb_addf(&text, "%s%lldx%s", i ? " " : "", (long long)counts[i].count, counts[i].profile);
    card_resolve_counts_free(counts, view.n_partitions);
    if (text.len)
        return sb_take(&text);
    return xstrdup(card_mode_of(card->mode)->bare);
}

int card_wish_of(const struct gpu_card *card, const struct device_want *want, struct card_wish *ret,
                 struct err *e)
{
    const struct card_mode *m = card_mode_of((enum gpu_mode)want->mode);
    struct card_wish wish = {.mode = (enum gpu_mode)want->mode};
    const struct vendor *v = vendor_find(card->vendor);
    if (want->has_sharing && want->sharing.has_mps && !(v && v->has_mps))
        return err_set(e, ERR_INVALID, "MPS is a service of NVIDIA's driver; share by timeSlicing");
    if (want->has_sharing && want->sharing.has_fractional && !(v && v->has_shares))
        return err_set(e, ERR_INVALID,
                       "only NVIDIA's cards are given out in shares; share by timeSlicing");
    if (m->wish_of)
        TRY(m->wish_of(card, want, &wish, e));
    *ret = wish;
    return 0;
}
