/* SPDX-License-Identifier: Apache-2.0 */
#include "nodeagent/commands/host.h"

#include "base/xalloc.h"

#include "nodeagent/change/card_view.h"

static void drop_reading(struct host *h)
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
    drop_reading(h);
    h->inventory = fresh;
    h->cards = xcalloc(fresh.n_cards, sizeof(*h->cards));
    h->counts = xcalloc(fresh.n_cards, sizeof(struct profile_count *));
    for (size_t i = 0; i < fresh.n_cards; i++)
        card_resolve_view(&h->inventory.cards[i], &h->cards[i], &h->counts[i]);
    return 0;
}

/* --- One of each vendor: a new one is a function and a line --- */

static int open_nvml(const struct host_flags *f, struct gpu_watch *watch, struct gpu **ret,
                     struct err *e)
{
    const struct nvml_options o = {.library = f->library,
                                   .nvidia_smi = f->smi,
                                   .proc_root = f->proc_root,
                                   .sys_root = f->sys_root,
                                   .watch = watch};
    return gpu_nvml_open(&o, ret, e);
}

static int open_mxsml(const struct host_flags *f, struct gpu_watch *watch, struct gpu **ret,
                      struct err *e)
{
    const struct mxsml_options o = {.library = f->mxsml,
                                    .proc_root = f->proc_root,
                                    .sys_root = f->sys_root};
    (void)watch;
    return gpu_mxsml_open(&o, ret, e);
}

typedef int open_fn(const struct host_flags *f, struct gpu_watch *watch, struct gpu **ret,
                    struct err *e);
static open_fn *const back_ends[] = {
    open_nvml,
    open_mxsml,
};
_Static_assert(ARRAY_LEN(back_ends) <= GPU_MAX_VENDORS, "what an inventory holds");

static void free_all(struct gpu *const *gpus, size_t n)
{
    for (size_t i = 0; i < n; i++)
        (void)gpu_free(gpus[i]);
}

int host_gpus(const struct host_flags *f, struct gpu_watch *watch, struct gpu **ret, struct err *e)
{
    struct gpu *gpus[ARRAY_LEN(back_ends)] = {0};
    for (size_t i = 0; i < ARRAY_LEN(back_ends); i++) {
        int rc = back_ends[i](f, watch, &gpus[i], e);
        if (rc < 0) {
            free_all(gpus, i);
            return rc;
        }
    }
    *ret = gpu_all_new(gpus, ARRAY_LEN(gpus));
    return 0;
}

int host_open(const struct host_flags *f, struct host *ret, struct err *e)
{
    auto_host struct host h = {0};
    TRY(host_gpus(f, /* watch= */ NULL, &h.gpu, e));
    int rc = host_read(&h, e);
    if (rc == -(int)ERR_NOT_FOUND && e)
        return err_set(e, ERR_NOT_FOUND,
                       "%s; a library elsewhere is named by --nvml-library or --mxsml-library",
                       err_msg(e));
    if (rc < 0)
        return rc;
    *ret = h;
    h = (struct host){0};
    return 0;
}

void host_done(struct host *h)
{
    drop_reading(h);
    h->gpu = gpu_free(h->gpu);
}
