/* SPDX-License-Identifier: Apache-2.0 */
#include "nodeagent/slots/share_bind.h"

#include <assert.h>
#include <string.h>

#include "base/log.h"
#include "base/xalloc.h"

#include "api/device.h"
#include "nodeagent/container/slot_pool.h"
#include "nodeagent/slots/cgroup_limits.h"
#include "nodeagent/slots/limiter_files.h"
#include "nodeagent/slots/share_outfit.h"

static bool is_of_container(const struct slot_record *r, const struct slot_binding *b)
{
    return r->uid && strcmp(r->uid, b->uid) == 0 && strcmp(r->container, b->container) == 0;
}

static bool says_the_same(const struct slot_record *r, const struct slot_binding *b,
                          const struct bound_slot *g)
{
    return is_of_container(r, b) && strcmp(r->card, g->card) == 0 &&
           r->quota.memory_mib == g->quota.memory_mib &&
           r->quota.compute_percent == g->quota.compute_percent &&
           r->memory_level == g->memory_level && r->compute_level == g->compute_level &&
           r->is_capped == g->is_capped && r->is_low == g->is_low;
}

/* A container that runs stays limited while its limit is set anew. */
static bool keeps_limit(const struct slot_record *r, const struct slot_binding *b,
                        const struct bound_slot *g)
{
    return is_of_container(r, b) && strcmp(r->card, g->card) == 0 &&
           g->memory_level == API_LEVEL_DRIVER;
}

/* The file of what the record said before goes first: no container may be given a share that no
 * record has. Then the folder of another container goes, and the driver's limit, while the record still
 * says whose they are. */
static int write_record(const struct slot_deps *d, const struct slot_binding *b,
                        const struct bound_slot *g, struct err *e)
{
    auto_slot_record struct slot_record was = {0};
    char name[SLOT_WORD_BYTES];
    TRY(slot_record_take(d->state_dir, g->slot, &was, e));
    if (says_the_same(&was, b, g))
        return 0;
    if (d->cdi)
        TRY(cdi_slots_remove(d->cdi, slot_name(g->slot, name), e));
    if (!is_of_container(&was, b))
        TRY(share_outfit_drop(d, g->slot, e));
    if (!keeps_limit(&was, b, g))
        TRY(cgroup_limits_drop(d, &was, e));
    auto_slot_record struct slot_record r = slot_binding_record(b, g);
    return slot_record_write(d->state_dir, &r, e);
}

/* A container without its limit is not started again: the files of an earlier binding go. */
static int put_limits(const struct slot_deps *d, const struct slot_binding *b, struct err *e)
{
    auto_err struct err why = {0};
    char name[SLOT_WORD_BYTES];
    if (cgroup_limits_put(d, b, &why) == 0)
        return 0;
    for (size_t i = 0; d->cdi && i < b->n; i++)
        TRY(cdi_slots_remove(d->cdi, slot_name(b->bound[i].slot, name), e));
    return err_move(e, &why);
}

int share_bind(const struct slot_deps *d, const struct slot_binding *b, struct err *e)
{
    assert(b->n > 0 && b->uid && b->container && b->entries && !b->unplaced.kind);
    auto_free const struct entry_device **list = xcalloc(b->n, sizeof(*list));
    auto_share_outfit struct share_outfit outfit = {0};
    if (d->cdi && !d->nodes)
        return err_set(e, ERR_UNAVAILABLE, "the driver's device files are not known yet");
    TRY(share_outfit_check(d, b, e));
    for (size_t i = 0; i < b->n; i++) {
        TRY(write_record(d, b, &b->bound[i], e));
        list[i] = &b->entries[i];
    }
    TRY(put_limits(d, b, e));
    TRY(share_outfit_make(d, b, &outfit, e));
    for (size_t i = 0; d->cdi && i < b->n; i++)
        TRY(cdi_slots_write(d->cdi, d->nodes, &outfit.cdi, list[i], list, b->n, e));
    return 0;
}

int share_release(const struct slot_deps *d, unsigned slot, struct err *e)
{
    auto_slot_record struct slot_record r = {0};
    char name[SLOT_WORD_BYTES];
    assert(slot_is_share(slot));
    /* The record first: where another version wrote it, nothing of the slot may be touched. */
    TRY(slot_record_take(d->state_dir, slot, &r, e));
    if (d->cdi)
        TRY(cdi_slots_remove(d->cdi, slot_name(slot, name), e));
    TRY(share_outfit_drop(d, slot, e));
    TRY(cgroup_limits_drop(d, &r, e));
    TRY(slot_record_remove(d->state_dir, slot, e));
    if (d->limiter && d->cdi)
        limiter_files_sweep(d->limiter, d->cdi);
    return 0;
}

static void add_share(const struct slot_record *r, struct shares *ret)
{
    struct share s = {.slot = r->slot,
                      .memory_mib = r->quota.memory_mib,
                      .percent = r->quota.compute_percent,
                      .memory_level = r->memory_level,
                      .compute_level = r->compute_level,
                      .is_capped = r->is_capped,
                      .is_low = r->is_low,
                      .uid = r->uid,
                      .container = r->container};
    memcpy(s.card, r->card, sizeof(s.card));
    shares_put(ret, &s);
}

/* Without a record there is a CDI file alone, which the release removes. */
static int read_one(const char *state_dir, unsigned slot, struct shares *ret, struct err *e)
{
    auto_slot_record struct slot_record r = {0};
    auto_err struct err why = {0};
    char name[SLOT_WORD_BYTES];
    int rc = slot_record_read(state_dir, slot, &r, &why);
    if (rc == 0 && r.quota.memory_mib)
        add_share(&r, ret);
    if ((rc == 0 && r.quota.memory_mib) || rc == -ERR_NOT_FOUND)
        return 0;
    if (rc == -ERR_SYSTEM)
        return err_move(e, &why);
    log_error("Could not read which card a share is on: nothing new is placed until its pod ends",
              kv("slot", slot_name(slot, name)), kv_err(&why));
    device_slots_put(&ret->unknown, slot);
    return 0;
}

int share_records_read(const char *state_dir, const unsigned *slots, size_t n, struct shares *ret,
                       struct err *e)
{
    for (size_t i = 0; i < n; i++)
        if (slot_is_share(slots[i]))
            TRY(read_one(state_dir, slots[i], ret, e));
    return 0;
}
