/* SPDX-License-Identifier: Apache-2.0 */
#include "nodeagent/loop/seals.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/xalloc.h"

static void seal_done(struct seal *s)
{
    for (size_t i = 0; i < s->n_ids; i++)
        free(s->ids[i]);
    free(s->ids);
    free(s->owner);
}

const struct seal *seals_find(const struct seals *s, const char *owner)
{
    for (size_t i = 0; i < s->n; i++)
        if (strcmp(s->items[i].owner, owner) == 0)
            return &s->items[i];
    return NULL;
}

bool seals_have(const struct seals *s, const char *id)
{
    for (size_t i = 0; i < s->n; i++)
        for (size_t k = 0; k < s->items[i].n_ids; k++)
            if (strcmp(s->items[i].ids[k], id) == 0)
                return true;
    return false;
}

bool seals_drop(struct seals *s, const char *owner)
{
    const struct seal *found = seals_find(s, owner);
    if (!found)
        return false;
    struct seal *at = &s->items[found - s->items];
    seal_done(at);
    *at = s->items[--s->n];
    return true;
}

void seals_put(struct seals *s, const char *owner, const char *const *ids, size_t n)
{
    assert(owner && (ids || n == 0));
    struct seal next = {.owner = xstrdup(owner)};
    for (size_t i = 0; i < n; i++)
        *XPUSH(next.ids, next.n_ids) = xstrdup(ids[i]);
    (void)seals_drop(s, owner);
    *XPUSH(s->items, s->n) = next;
    assert(seals_find(s, owner) == &s->items[s->n - 1]); /* the only one of the owner */
}

void seals_done(struct seals *s)
{
    for (size_t i = 0; i < s->n; i++)
        seal_done(&s->items[i]);
    free(s->items);
}
