/* SPDX-License-Identifier: Apache-2.0 */
#include "nodeagent/loop/mps_link.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/xalloc.h"

struct mps_link {
    struct mps_link_options o;
    struct mps *mps;
    struct mps_cards cards;
    bool setting; /* ignore callbacks: this module sets the units itself */
    bool waits;   /* start no daemon yet */
    bool frozen;
    char *trouble; /* NULL: all wanted daemons run, or are starting */
};

/* Keeps the first daemon that does not run, for the condition. */
static void note(struct mps_link *l, const struct mps_units *u, const char *refused)
{
    auto_free char *text = refused ? xstrdup(refused) : NULL;
    for (size_t i = 0; i < u->n && !text; i++) {
        const char *problem = mps_problem(l->mps, u->items[i].name);
        if (*problem && !mps_is_ready(l->mps, u->items[i].name))
            text = xasprintf("%s cannot be shared by MPS: %s", u->items[i].name, problem);
    }
    if (text && (!l->trouble || strcmp(l->trouble, text) != 0))
        log_warn("Could not share by MPS", kv("error", text));
    xstr_set(&l->trouble, text);
}

static void changed(void *arg)
{
    struct mps_link *l = arg;
    if (l->setting || l->frozen)
        return;
    auto_mps_units struct mps_units u = mps_units_of(l->o.table, &l->cards, l->o.seals);
    note(l, &u, /* refused= */ NULL);
    l->o.on_change(l->o.arg);
}

struct mps_link *mps_link_new(const struct mps_link_options *o)
{
    struct mps_link *l = xmalloc(sizeof(*l));
    l->o = *o;
    l->mps = mps_new(o->reactor, o->mps, changed, l);
    return l;
}

void mps_link_update(struct mps_link *l)
{
    auto_err struct err e = {0};
    if (!l || l->waits || l->frozen)
        return;
    auto_mps_units struct mps_units u = mps_units_of(l->o.table, &l->cards, l->o.seals);
    assert(!l->setting);
    l->setting = true;
    int rc = mps_set(l->mps, u.items, u.n, &e);
    l->setting = false;
    note(l, &u, rc < 0 ? err_msg(&e) : NULL);
}

void mps_link_set_cards(struct mps_link *l, const struct mps_cards *cards)
{
    if (!l || l->frozen || mps_cards_equal(&l->cards, cards))
        return;
    l->cards = *cards;
    mps_link_update(l);
}

void mps_link_wait(struct mps_link *l, bool waits)
{
    if (!l)
        return;
    l->waits = waits;
    mps_link_update(l);
}

void mps_link_freeze(struct mps_link *l)
{
    if (l)
        l->frozen = true;
}

bool mps_link_has_daemon(const struct mps_link *l, const struct table_device *d)
{
    return !d->mps || (l && mps_is_ready(l->mps, mps_units_name(d)));
}

bool mps_link_has_ended(const struct mps_link *l, const char *owner)
{
    const struct seal *s = l ? seals_find(l->o.seals, owner) : NULL;
    if (!s)
        return true;
    for (size_t i = 0; i < s->n_ids; i++) {
        const struct table_device *d = device_table_device(l->o.table, s->ids[i]);
        if (d && !mps_is_gone(l->mps, mps_units_name(d)))
            return false;
    }
    return mps_is_gone(l->mps, owner);
}

/* A container can be a client of one daemon only. */
int mps_link_enter(const struct mps_link *l, const struct table_resource *r, const char *const *ids,
                   size_t n, struct entry *ret, struct err *e)
{
    const char *unit = NULL;
    for (size_t i = 0; i < n; i++) {
        const struct table_device *d = table_resource_device(r, ids[i]);
        if (!d->mps)
            continue;
        if (unit && strcmp(unit, mps_units_name(d)) != 0)
            return err_set(e, ERR_INVALID,
                           "%s: a container can have replicas of one device shared by MPS, not of "
                           "several",
                           r->name);
        unit = mps_units_name(d);
    }
    if (unit && !l)
        return err_set(e, ERR_UNAVAILABLE, "%s: this agent runs no MPS daemons", r->name);
    return unit ? mps_entry(l->mps, unit, ret, e) : 0;
}

int mps_link_enter_daemon(const struct mps_link *l, const char *name, struct entry *ret,
                          struct err *e)
{
    if (!l)
        return err_set(e, ERR_UNAVAILABLE, "this agent runs no MPS daemons");
    return mps_entry(l->mps, name, ret, e);
}

const char *mps_link_trouble(const struct mps_link *l)
{
    return l ? l->trouble : NULL;
}

struct mps_link *mps_link_free(struct mps_link *l)
{
    if (!l)
        return NULL;
    l->mps = mps_free(l->mps);
    free(l->trouble);
    free(l);
    return NULL;
}
