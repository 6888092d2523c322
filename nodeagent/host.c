/* SPDX-License-Identifier: Apache-2.0 */
#include "nodeagent/host.h"

#include "base/xalloc.h"

#include "nodeagent/status.h"

static void forget(struct host *h)
{
    for (size_t i = 0; i < h->inventory.n_cards; i++)
        card_resolve_counts_free(h->counts[i], h->cards[i].n_partitions);
    free(TAKE(h->counts));
    free(TAKE(h->cards));
    gpu_inventory_done(&h->inventory);
}

int host_read(struct host *h, struct err *e)
{
    struct gpu_inventory fresh = {0};
    TRY(h->gpu->ops->read(h->gpu, &fresh, e));
    forget(h);
    h->inventory = fresh;
    h->cards = xcalloc(fresh.n_cards, sizeof(*h->cards));
    h->counts = xcalloc(fresh.n_cards, sizeof(struct profile_count *));
    for (size_t i = 0; i < fresh.n_cards; i++)
        card_resolve_view(&h->inventory.cards[i], &h->cards[i], &h->counts[i]);
    return 0;
}

int host_open(const struct host_flags *f, struct host *ret, struct err *e)
{
    auto_host struct host h = {0};
    const struct nvml_options o = {.library = f->library,
                                   .nvidia_smi = f->smi,
                                   .proc_root = f->proc_root};
    TRY(gpu_nvml_open(&o, &h.gpu, e));
    TRY(host_read(&h, e));
    *ret = h;
    h = (struct host){0};
    return 0;
}

void host_done(struct host *h)
{
    forget(h);
    h->gpu = gpu_free(h->gpu);
}
