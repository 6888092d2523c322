/* SPDX-License-Identifier: Apache-2.0 */
#include "nodeagent/offer/shares.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/xalloc.h"

enum { WHOLE_PERCENT = 100 };

static struct share copy(const struct share *from)
{
    struct share to = *from;
    to.uid = xstrdup(from->uid);
    to.container = xstrdup(from->container);
    return to;
}

static struct share *find(const struct shares *s, unsigned slot)
{
    for (size_t i = 0; i < s->n; i++)
        if (s->items[i].slot == slot)
            return &s->items[i];
    return NULL;
}

void shares_put(struct shares *s, const struct share *share)
{
    assert(slot_is_share(share->slot) && *share->card && share->memory_mib);
    assert(share->uid && share->container);
    struct share now = copy(share); /* it may be the slot's own */
    struct share *place = find(s, share->slot);
    if (place)
        share_done(place);
    else
        place = XPUSH(s->items, s->n);
    *place = now;
    device_slots_drop(&s->unknown, share->slot);
    assert(s->n <= SLOT_SHARES_END - SLOT_SHARES_FIRST);
}

void shares_drop(struct shares *s, unsigned slot)
{
    struct share *place = find(s, slot);
    device_slots_drop(&s->unknown, slot);
    if (!place)
        return;
    share_done(place);
    *place = s->items[--s->n];
}

bool shares_have_unknown(const struct shares *s, unsigned *ret_slot)
{
    for (unsigned slot = SLOT_SHARES_FIRST; slot < SLOT_SHARES_END; slot++) {
        if (!device_slots_has(&s->unknown, slot))
            continue;
        if (ret_slot)
            *ret_slot = slot;
        return true;
    }
    return false;
}

bool shares_are_in_doubt(const struct shares *s)
{
    return s->is_adopting || shares_have_unknown(s, /* ret_slot= */ NULL);
}

const struct share *shares_find(const struct shares *s, unsigned slot)
{
    return find(s, slot);
}

bool share_is_of(const struct share *s, const char *uid, const char *container)
{
    return strcmp(s->uid, uid) == 0 && strcmp(s->container, container) == 0;
}

bool share_is_whole(const struct share *s, uint64_t card_mib)
{
    return s->memory_mib >= card_mib && s->percent >= WHOLE_PERCENT;
}

struct fraction_size shares_on(const struct shares *s, const char *card)
{
    struct fraction_size sum = {0};
    for (size_t i = 0; i < s->n; i++) {
        if (strcmp(s->items[i].card, card) != 0)
            continue;
        sum = fraction_add(sum,
                           (struct fraction_size){s->items[i].memory_mib, s->items[i].percent, 1});
    }
    for (size_t i = 0; i < s->n_adopted; i++)
        if (strcmp(s->adopted[i].card, card) == 0)
            sum = fraction_add(sum, (struct fraction_size){s->adopted[i].memory_mib,
                                                           s->adopted[i].percent, 1});
    return sum;
}

static void forget_adopted(struct shares *s)
{
    for (size_t i = 0; i < s->n_adopted; i++) {
        free(s->adopted[i].ns);
        free(s->adopted[i].pod);
    }
    free(TAKE(s->adopted));
    s->n_adopted = 0;
}

void shares_adopt(struct shares *s, const struct adopted_share *list, size_t n, bool is_adopting)
{
    forget_adopted(s);
    s->adopted = n ? xcalloc(n, sizeof(*s->adopted)) : NULL;
    for (; s->n_adopted < n; s->n_adopted++) {
        struct adopted_share *to = &s->adopted[s->n_adopted];
        *to = list[s->n_adopted];
        to->ns = xstrdup(to->ns);
        to->pod = xstrdup(to->pod);
    }
    s->is_adopting = is_adopting;
}

struct shares shares_copy(const struct shares *s)
{
    struct shares to = {.items = xcalloc(s->n, sizeof(*to.items)),
                        .n = s->n,
                        .unknown = s->unknown};
    for (size_t i = 0; i < s->n; i++)
        to.items[i] = copy(&s->items[i]);
    shares_adopt(&to, s->adopted, s->n_adopted, s->is_adopting);
    return to;
}

void share_done(struct share *s)
{
    free(s->uid);
    free(s->container);
    *s = (struct share){0};
}

void shares_done(struct shares *s)
{
    for (size_t i = 0; i < s->n; i++)
        share_done(&s->items[i]);
    free(s->items);
    forget_adopted(s);
    *s = (struct shares){0};
}
