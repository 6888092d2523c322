/* SPDX-License-Identifier: Apache-2.0 */
#include "nodeagent/slots/slot_bind.h"

#include <assert.h>
#include <string.h>

#include "base/log.h"
#include "base/xalloc.h"

#include "nodeagent/mode/card_mode.h"
#include "nodeagent/offer/device_entry.h"
#include "partition/vendor.h"

/* --- The present slice --- */

static int slice_at(const struct gpu_card *card, unsigned slot)
{
    for (unsigned i = 0; i < card->sgpu.n; i++)
        if (!card->sgpu.items[i].foreign && sgpu_slot_of(card->sgpu.items[i].alias) == (int)slot)
            return (int)i;
    return -1;
}

static int read_card(const struct slot_deps *d, const char *uuid, struct gpu_card *ret,
                     struct err *e)
{
    gpu_card_done(ret);
    *ret = (struct gpu_card){0};
    TRY(d->gpu->ops->read_card(d->gpu, uuid, ret, e));
    if (ret->mode != GPU_SGPU)
        return err_set(e, ERR_UNAVAILABLE, "%s GPU %u has no slices", vendor_title(ret->vendor),
                       ret->index);
    return 0;
}

/* Finds the slot's slice on this card; *ret_at -1: it has none. A slice disappears with its card
 * and with the card's mode, but a lost card (with a reason) may come back. */
static int find_slice(const struct slot_deps *d, const char *uuid, unsigned slot,
                      struct gpu_card *ret_card, int *ret_at, struct err *e)
{
    auto_err struct err why = {0};
    int rc = d->gpu->ops->read_card(d->gpu, uuid, ret_card, &why);
    if (rc < 0 && (why.kind != ERR_NOT_FOUND || why.reason))
        return err_move(e, &why);
    *ret_at = rc == 0 && ret_card->mode == GPU_SGPU ? slice_at(ret_card, slot) : -1;
    return 0;
}

static bool same_quota(const struct sgpu_quota *a, const struct sgpu_quota *b)
{
    return a->memory_mib == b->memory_mib && a->compute_percent == b->compute_percent;
}

static int destroy_slice(const struct slot_deps *d, const struct gpu_card *card,
                         const struct sgpu_slice *s, struct err *e)
{
    if (s->in_use)
        return err_set(e, ERR_UNAVAILABLE, "slice %u on %s GPU %u is still in use", s->id,
                       vendor_title(card->vendor), card->index);
    auto_err struct err why = {0};
    int rc = d->gpu->ops->slice_destroy(d->gpu, card->uuid, s->id, &why);
    return rc == 0 || why.kind == ERR_NOT_FOUND ? 0 : err_move(e, &why);
}

/* Destroys a slice that was made and not named before the agent was killed. */
static int destroy_unnamed(const struct slot_deps *d, const struct gpu_card *card,
                           const struct slot_record *r, struct err *e)
{
    const struct sgpu_wants made = {.n = 1, .items = {{.quota = r->quota}}};
    uint32_t ours =
        strcmp(card->uuid, r->card) == 0 ? card_slices_unnamed(card, &r->nameless, &made) : 0;
    for (unsigned i = 0; i < card->sgpu.n; i++)
        if (ours & (1U << i))
            TRY(destroy_slice(d, card, &card->sgpu.items[i], e));
    return 0;
}

/* Removes what an earlier attempt left. A nameless slice is the slot's only if no slice has the
 * slot's name; else it is foreign. */
static int clear_way(const struct slot_deps *d, const struct gpu_card *card, int at,
                     const struct slot_record *r, struct err *e)
{
    if (at >= 0)
        return destroy_slice(d, card, &card->sgpu.items[at], e);
    return r->uid ? destroy_unnamed(d, card, r, e) : 0;
}

/* --- Making --- */

static bool is_record_of(const struct slot_record *r, const struct slot_binding *b)
{
    assert(r->uid && r->container); /* of a record that was read */
    return strcmp(r->uid, b->uid) == 0 && strcmp(r->container, b->container) == 0;
}

/* An existing slice may stay if it is the pod's own, or if its record is lost and it is as the pod
 * asks. */
static bool may_stay(const struct gpu_card *card, int at, const struct slot_record *r,
                     const struct bound_slot *g)
{
    return at >= 0 && (r->uid || same_quota(&card->sgpu.items[at].quota, &g->quota));
}

static int write_record(const struct slot_deps *d, const struct gpu_card *card,
                        const struct slot_binding *b, const struct bound_slot *g, struct err *e)
{
    auto_slot_record struct slot_record r = slot_binding_record(b, g);
    card_slices_nameless(card, /* without= */ 0, &r.nameless);
    return slot_record_write(d->state_dir, &r, e);
}

static int create_slice(const struct slot_deps *d, const struct gpu_card *card,
                        const struct bound_slot *g, struct err *e)
{
    assert(card->mode == GPU_SGPU && strcmp(card->uuid, g->card) == 0);
    struct sgpu_want want = {.quota = g->quota};
    unsigned id = 0;
    sgpu_slot_alias(g->slot, want.alias);
    if (g->qos >= 0 && card->sgpu.qos != g->qos)
        TRY(d->gpu->ops->qos_set(d->gpu, g->card, g->qos, e));
    return d->gpu->ops->slice_create(d->gpu, g->card, &want, &id, e);
}

/* The container's earlier slice may have been on another card than the chosen one. */
static int leave_other_card(const struct slot_deps *d, const struct slot_record *r,
                            const struct bound_slot *g, struct err *e)
{
    if (!r->uid || strcmp(r->card, g->card) == 0)
        return 0;
    return slot_release(d, g->slot, r->card, e);
}

/* The slot was granted anew before it was released: removes the earlier pod's slice. */
static int leave_earlier_pod(const struct slot_deps *d, const struct slot_binding *b,
                             const struct bound_slot *g, struct err *e)
{
    auto_slot_record struct slot_record r = {0};
    TRY(slot_record_take(d->state_dir, g->slot, &r, e));
    return r.uid && !is_record_of(&r, b) ? slot_release(d, g->slot, g->card, e) : 0;
}

/* Makes the slice. Returns its index on *ret_card, which shows it. */
static int make(const struct slot_deps *d, const struct slot_binding *b, const struct bound_slot *g,
                struct gpu_card *ret_card, struct err *e)
{
    auto_slot_record struct slot_record r = {0};
    TRY(slot_record_take(d->state_dir, g->slot, &r, e));
    if (b->unplaced.kind && !r.uid)
        return err_set(e, b->unplaced.kind, "%s", err_msg(&b->unplaced));
    int at = -1;
    TRY(find_slice(d, r.uid ? r.card : g->card, g->slot, ret_card, &at, e));
    if (may_stay(ret_card, at, &r, g))
        return r.uid ? at : (write_record(d, ret_card, b, g, e) < 0 ? -(int)ERR_SYSTEM : at);
    if (b->unplaced.kind)
        return err_set(e, b->unplaced.kind, "%s", err_msg(&b->unplaced));
    TRY(clear_way(d, ret_card, at, &r, e));
    TRY(leave_other_card(d, &r, g, e));
    TRY(read_card(d, g->card, ret_card, e));
    TRY(write_record(d, ret_card, b, g, e));
    TRY(create_slice(d, ret_card, g, e));
    TRY(read_card(d, g->card, ret_card, e));
    at = slice_at(ret_card, g->slot);
    if (at < 0 || !same_quota(&ret_card->sgpu.items[at].quota, &g->quota))
        return err_set(e, ERR_CONFLICT, "%s GPU %u does not show the slice that was made on it",
                       vendor_title(ret_card->vendor), ret_card->index);
    return at;
}

/* --- Binding --- */

struct made {
    struct entry_device *entries; /* of the bound slots */
    const struct entry_device **list;
    size_t n;
};

static void made_done(struct made *m)
{
    for (size_t i = 0; i < m->n; i++)
        entry_device_done(&m->entries[i]);
    free(m->entries);
    free(m->list);
}
AUTO_DEFINE(made, struct made, made_done)

static int make_one(const struct slot_deps *d, const struct slot_binding *b,
                    const struct bound_slot *g, struct made *m, struct err *e)
{
    auto_gpu_card struct gpu_card card = {0};
    char name[SLOT_WORD_BYTES];
    int at = make(d, b, g, &card, e);
    TRY(at);
    const struct card_part part = card_part_at(&card, (unsigned)at);
    assert(m->n < b->n && part.slice && !part.foreign);
    device_slice_entry(&card, &part, xstrdup(slot_name(g->slot, name)), &m->entries[m->n]);
    m->list[m->n] = &m->entries[m->n];
    m->n++;
    return 0;
}

int slot_bind(const struct slot_deps *d, const struct slot_binding *b, struct err *e)
{
    assert(b->n > 0 && b->uid && b->container);
    AUTO(made)
    struct made m = {.entries = xcalloc(b->n, sizeof(*m.entries)),
                     .list = xcalloc(b->n, sizeof(struct entry_device *))};
    if (d->cdi && !d->nodes)
        return err_set(e, ERR_UNAVAILABLE, "the driver's device files are not known yet");
    for (size_t i = 0; i < b->n; i++)
        TRY(leave_earlier_pod(d, b, &b->bound[i], e));
    for (size_t i = 0; i < b->n; i++)
        TRY(make_one(d, b, &b->bound[i], &m, e));
    assert(m.n == b->n);
    for (size_t i = 0; d->cdi && i < m.n; i++)
        TRY(cdi_slots_write(d->cdi, d->nodes, /* outfit= */ NULL, m.list[i], m.list, m.n, e));
    return 0;
}

/* --- Releasing --- */

static int release_slice(const struct slot_deps *d, unsigned slot, const char *uuid,
                         const struct slot_record *r, struct err *e)
{
    auto_gpu_card struct gpu_card card = {0};
    auto_err struct err why = {0};
    if (d->gpu->ops->read_card(d->gpu, uuid, &card, &why) < 0)
        return why.kind == ERR_NOT_FOUND ? 0 : err_move(e, &why);
    return card.mode == GPU_SGPU ? clear_way(d, &card, slice_at(&card, slot), r, e) : 0;
}

int slot_release(const struct slot_deps *d, unsigned slot, const char *card, struct err *e)
{
    auto_slot_record struct slot_record r = {0};
    char name[SLOT_WORD_BYTES];
    /* The record first: where another version wrote it, nothing of the slot may be touched. */
    TRY(slot_record_take(d->state_dir, slot, &r, e));
    if (d->cdi)
        TRY(cdi_slots_remove(d->cdi, slot_name(slot, name), e));
    if (*card)
        TRY(release_slice(d, slot, card, &r, e));
    if (r.uid && strcmp(r.card, card) != 0)
        TRY(release_slice(d, slot, r.card, &r, e));
    return slot_record_remove(d->state_dir, slot, e);
}

struct slot_record slot_binding_record(const struct slot_binding *b, const struct bound_slot *g)
{
    struct slot_record r = {.slot = g->slot,
                            .ns = xstrdup(b->ns),
                            .pod = xstrdup(b->pod),
                            .uid = xstrdup(b->uid),
                            .container = xstrdup(b->container),
                            .quota = g->quota,
                            .memory_level = g->memory_level,
                            .compute_level = g->compute_level,
                            .is_capped = g->is_capped,
                            .is_low = g->is_low};
    memcpy(r.card, g->card, sizeof(r.card));
    return r;
}

void slot_binding_done(struct slot_binding *b)
{
    free(b->ns);
    free(b->pod);
    free(b->uid);
    free(b->container);
    for (size_t i = 0; b->entries && i < b->n; i++)
        entry_device_done(&b->entries[i]);
    free(b->entries);
    entry_done(&b->mps);
    free(b->bound);
    err_clear(&b->unplaced);
    *b = (struct slot_binding){0};
}
