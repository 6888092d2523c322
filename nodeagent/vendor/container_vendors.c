/* SPDX-License-Identifier: Apache-2.0 */
#include "nodeagent/vendor/container_vendors.h"

#include <assert.h>
#include <stdlib.h>

#include "base/xalloc.h"

#include "nodeagent/vendor/vendors.h"

const struct container_vendor *container_vendor_find(const char *name)
{
    const struct vendor_backend *b = vendor_backend_find(name);
    return b ? b->container : NULL;
}

static void read_dri(const struct driver_where *w, const struct gpu_card *cards, size_t n,
                     struct dri_nodes *ret)
{
    const struct dri_where where = {w->sys_root, w->dev_root};
    auto_free const char **bus_ids = NULL;
    size_t n_ids = 0;
    for (size_t i = 0; i < n; i++) {
        const struct container_vendor *v = container_vendor_find(cards[i].vendor);
        if (!v || !v->uses_dri)
            continue;
        *XPUSH(bus_ids, n_ids) = cards[i].pci_bus_id;
        for (unsigned k = 0; k < cards[i].n_vfs; k++)
            *XPUSH(bus_ids, n_ids) = cards[i].vfs[k].pci_bus_id;
    }
    dri_nodes_read(&where, w->plain_dev_root, bus_ids, n_ids, ret);
}

/* Keeps the first failure. */
static void note(struct err *first, struct err *now)
{
    if (now->kind && !first->kind)
        (void)err_move(first, now);
    err_clear(now);
}

int device_nodes_read(const struct driver_where *w, const struct gpu_card *cards, size_t n_cards,
                      struct device_nodes *ret, struct err *e)
{
    auto_err struct err first = {0};
    size_t n = 0;
    *ret = (struct device_nodes){0};
    read_dri(w, cards, n_cards, &ret->dri);
    for (size_t i = 0; vendor_backends[i]; i++) {
        const struct container_vendor *v = vendor_backends[i]->container;
        struct err now = {0};
        if (!v->own)
            continue;
        assert(n < GPU_MAX_VENDORS);
        ret->own[n].vendor = v;
        ret->own[n++].files = v->own->read(w, &now);
        note(&first, &now);
    }
    return first.kind ? err_move(e, &first) : 0;
}

bool device_nodes_are_current(const struct driver_where *w, const struct gpu_card *cards,
                              size_t n_cards, const struct device_nodes *n)
{
    auto_dri_nodes struct dri_nodes dri = {0};
    for (size_t i = 0; i < GPU_MAX_VENDORS && n->own[i].vendor; i++) {
        const struct container_own_files *own = n->own[i].vendor->own;
        if (own->is_current && !own->is_current(w, n->own[i].files))
            return false;
    }
    read_dri(w, cards, n_cards, &dri);
    return dri_nodes_equal(&dri, &n->dri);
}

int device_nodes_make(const struct driver_where *w, const struct gpu_card *cards, size_t n_cards,
                      struct device_nodes *n, struct err *e)
{
    auto_err struct err first = {0};
    for (size_t i = 0; i < GPU_MAX_VENDORS && n->own[i].vendor; i++) {
        const struct container_own_files *own = n->own[i].vendor->own;
        struct err now = {0};
        if (own->make && own->make(w, n->own[i].files, cards, n_cards, &now) < 0)
            note(&first, &now);
    }
    return first.kind ? err_move(e, &first) : 0;
}

int device_nodes_make_card(const struct driver_where *w, const struct gpu_card *card,
                           const struct device_nodes *n, struct err *e)
{
    const struct container_vendor *v = container_vendor_find(card->vendor);
    const void *files = v ? device_nodes_own(n, v) : NULL;
    return files && v->own->make_card ? v->own->make_card(w, files, card, e) : 0;
}
