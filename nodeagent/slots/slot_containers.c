/* SPDX-License-Identifier: Apache-2.0 */
#include "nodeagent/slots/slot_containers.h"

#include <stdlib.h>
#include <string.h>

#include "base/xalloc.h"

#include "nodeagent/offer/device_id.h"

void slot_container_done(struct slot_container *c)
{
    free(c->ns);
    free(c->pod);
    free(c->name);
    free(c->slots);
    *c = (struct slot_container){0};
}

int slot_container_order(const void *a, const void *b)
{
    const struct slot_container *x = a;
    const struct slot_container *y = b;
    int order = strcmp(x->pod, y->pod);
    if (order == 0)
        order = strcmp(x->ns, y->ns);
    if (order == 0)
        order = strcmp(x->name, y->name);
    return order ? order : (int)x->pool - (int)y->pool;
}

bool slot_container_same(const struct slot_container *a, const struct slot_container *b)
{
    return slot_container_order(a, b) == 0 && a->n_slots == b->n_slots &&
           memcmp(a->slots, b->slots, a->n_slots * sizeof(*a->slots)) == 0;
}

/* One slot that the list shows; `of` borrows its names. */
struct listed_slot {
    struct slot_container of;
    unsigned slot;
};

static int by_container_and_number(const void *a, const void *b)
{
    const struct listed_slot *x = a;
    const struct listed_slot *y = b;
    int order = slot_container_order(&x->of, &y->of);
    return order ? order : x->slot < y->slot ? -1 : x->slot > y->slot;
}

/* Caller frees the array. */
static struct listed_slot *list_slots(const struct holders *h, size_t *ret_n)
{
    struct listed_slot *list = NULL;
    *ret_n = 0;
    for (size_t i = 0; i < h->n_listed; i++) {
        const struct holder *holder = &h->listed[i];
        int slot = slot_of_id(holder->id);
        if (slot < 0 || !holder->pod || !holder->ns || !holder->container)
            continue;
        *XPUSH(list, *ret_n) = (struct listed_slot){{.ns = holder->ns,
                                                     .pod = holder->pod,
                                                     .name = holder->container,
                                                     .pool = slot_pool_of((unsigned)slot)},
                                                    (unsigned)slot};
    }
    if (*ret_n)
        qsort(list, *ret_n, sizeof(*list), by_container_and_number);
    return list;
}

static bool is_granted(const struct holders *h, unsigned slot)
{
    for (size_t i = 0; i < h->n_grants; i++)
        if (slot_of_id(h->grants[i].id) == (int)slot)
            return true;
    return false;
}

struct slot_container *slot_containers_of(const struct holders *h, size_t *ret_n)
{
    size_t n;
    struct slot_container *found = NULL;
    struct slot_container *last = NULL;
    auto_free struct listed_slot *list = list_slots(h, &n);
    *ret_n = 0;
    for (size_t i = 0; i < n; i++) {
        const struct slot_container *of = &list[i].of;
        if (!last || slot_container_order(last, of) != 0) {
            last = XPUSH(found, *ret_n);
            *last = (struct slot_container){.ns = xstrdup(of->ns),
                                            .pod = xstrdup(of->pod),
                                            .name = xstrdup(of->name),
                                            .pool = of->pool};
        }
        *XPUSH(last->slots, last->n_slots) = list[i].slot;
        last->is_granted_anew |= is_granted(h, list[i].slot);
    }
    return found;
}
