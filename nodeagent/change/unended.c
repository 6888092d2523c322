/* SPDX-License-Identifier: Apache-2.0 */
#include "nodeagent/change/unended.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/xalloc.h"

static_assert(sizeof(((struct unended_card *)0)->why) == sizeof(((struct txn_result *)0)->message),
              "the message is copied whole");

void unended_note(struct unended *u, const char *uuid, const struct txn_result *r)
{
    assert(r->outcome == TXN_FAILED);
    struct unended_card *c = unended_find(u, uuid);
    if (!c) {
        c = XPUSH(u->items, u->n);
        (void)snprintf(c->uuid, sizeof(c->uuid), "%s", uuid);
    }
    c->waits = r->other_version;
    memcpy(c->why, r->message, sizeof(c->why));
}

struct unended_card *unended_find(const struct unended *u, const char *uuid)
{
    for (size_t i = 0; u && i < u->n; i++)
        if (strcmp(u->items[i].uuid, uuid) == 0)
            return &u->items[i];
    return NULL;
}

void unended_drop(struct unended *u, const char *uuid)
{
    struct unended_card *c = unended_find(u, uuid);
    if (c)
        *c = u->items[--u->n];
}

const char *unended_reason(const struct unended_card *u)
{
    return u->waits ? "OtherVersion" : "Progressing";
}

void unended_done(struct unended *u)
{
    free(u->items);
    *u = (struct unended){0};
}
