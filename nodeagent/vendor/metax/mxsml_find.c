/* SPDX-License-Identifier: Apache-2.0 */
#include "nodeagent/vendor/metax/mxsml_find.h"

#include <assert.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/num.h"
#include "base/xalloc.h"

#include "nodeagent/gpu/pci_sysfs.h"

/* --- identity --- */

struct mxsml_known *mxsml_known_of(const struct mxsml *m, const char *uuid)
{
    for (size_t i = 0; i < m->n_known; i++)
        if (strcmp(m->known[i]->card.uuid, uuid) == 0)
            return m->known[i];
    return NULL;
}

/* holds.mu is held. */
static struct mxsml_known *find_at(const struct mxsml *m, unsigned dev)
{
    for (size_t i = 0; i < m->n_known; i++)
        if (m->known[i]->dev == dev)
            return m->known[i];
    return NULL;
}

const struct mxsml_known *mxsml_last_at(struct mxsml *m, unsigned dev)
{
    HOLD(&m->holds.mu);
    return find_at(m, dev);
}

/* 0: not reported. */
static uint64_t memory_mib_of(struct mxsml *m, unsigned dev)
{
    struct mxsml_memory memory = {0};
    bool told = MXSML_CALL(m, memory, dev, &memory) == MXSML_SUCCESS && memory.vram_total > 0;
    return told ? mxsml_sound_memory((uint64_t)memory.vram_total >> 10) : 0;
}

/* 0 also where the kernel does not report it. */
static unsigned kernels_vfs_of(const struct mxsml *m, const struct gpu_card *c)
{
    int64_t n = 0;
    auto_free char *text = pci_sysfs_line(m->sys_root, c->pci_bus_id, "sriov_numvfs");
    return text && num_parse(text, 0, UINT16_MAX, &n, NULL) == 0 ? (unsigned)n : 0;
}

static struct mxsml_known *learn(const struct mxsml *m, const struct mxsml_info *info)
{
    struct mxsml_known *known = xcalloc(1, sizeof(*known));
    struct gpu_card *c = &known->card;
    *c = (struct gpu_card){.vendor = "metax",
                           .minor = UINT_MAX,
                           .healthy = true,
                           .no_events = true}; /* of no card of this vendor */
    known->dev = UINT_MAX;
    (void)snprintf(c->uuid, sizeof(c->uuid), "%s", info->uuid);
    (void)snprintf(c->model, sizeof(c->model), "%s", info->name);
    (void)snprintf(c->pci_bus_id, sizeof(c->pci_bus_id), "%s", info->bdf);
    pci_sysfs_card(m->sys_root, c);
    known->kernels_vfs = kernels_vfs_of(m, c);
    return known;
}

/* The card keeps this number; another card known there loses it. holds.mu is held. */
static void move_to(const struct mxsml *m, struct mxsml_known *known, const struct mxsml_place *p)
{
    for (size_t i = 0; i < m->n_known; i++)
        if (m->known[i]->dev == p->dev)
            m->known[i]->dev = UINT_MAX;
    assert(p->dev != UINT_MAX); /* that is no number */
    known->dev = p->dev;
    known->epoch = m->epoch;
    known->info = p->info;
}

static bool is_known(struct mxsml *m, const char *uuid)
{
    HOLD(&m->holds.mu);
    return mxsml_known_of(m, uuid) != NULL;
}

/* The kernel's files of a card are read without the lock, so another thread may have learned of the
 * card meanwhile. */
static int add_known(struct mxsml *m, const struct mxsml_info *info, struct err *e)
{
    assert(*info->uuid); /* mxsml_sound_info refused the others */
    auto_free struct mxsml_known *new_one = learn(m, info);
    HOLD(&m->holds.mu);
    if (mxsml_known_of(m, info->uuid))
        return 0;
    if (m->n_known == ARRAY_LEN(m->known))
        return err_set(e, ERR_TOO_LARGE, "more than %d cards were seen", GPU_MAX_CARDS);
    m->known[m->n_known++] = TAKE(new_one);
    return 0;
}

/* Finds the known card of a device by its uuid, or adds it. */
static int identify(struct mxsml *m, struct mxsml_place *p, struct err *e)
{
    TRY(mxsml_sound_info(p->dev, &p->info, e));
    if (!is_known(m, p->info.uuid))
        TRY(add_known(m, &p->info, e));
    HOLD(&m->holds.mu);
    p->known = mxsml_known_of(m, p->info.uuid);
    assert(p->known); /* a card that was seen is never forgotten */
    move_to(m, p->known, p);
    return 0;
}

/* --- virtual functions --- */

/* The virtual functions of all cards, as a set of numbers. */
struct vf_set {
    bool among; /* some card has functions */
    int last;   /* the highest number; -1: none */
    uint64_t bits[(MXSML_FIRST_PF + 63) / 64];
};

static bool is_again(const struct mxsml_ids *ids, int at)
{
    for (int i = 0; i < at; i++)
        if (ids->ids[i] == ids->ids[at])
            return true;
    return false;
}

int mxsml_list_vfs(struct mxsml *m, unsigned dev, struct mxsml_ids *ret, struct err *e)
{
    *ret = (struct mxsml_ids){0};
    TRY(MXSML_DO(m, e, virtual_devices, dev, ret));
    if (ret->n < 0 || ret->n > GPU_MAX_VFS)
        return err_set(e, ERR_PROTOCOL,
                       "the library reports %d virtual functions of a card; a card has %d at most",
                       ret->n, GPU_MAX_VFS);
    for (int i = 0; i < ret->n; i++)
        if (ret->ids[i] < 0 || ret->ids[i] >= MXSML_FIRST_PF || is_again(ret, i))
            return err_set(e, ERR_PROTOCOL, "the library gives a virtual function the number %d",
                           ret->ids[i]);
    return 0;
}

/* A failure here is reported when the card is read; functions also identify themselves as such. */
static void note_vfs(struct mxsml *m, unsigned dev, struct vf_set *set)
{
    struct mxsml_ids ids;
    set->among = true;
    if (mxsml_list_vfs(m, dev, &ids, NULL) < 0)
        return;
    for (int i = 0; i < ids.n; i++)
        set->bits[ids.ids[i] / 64] |= UINT64_C(1) << (ids.ids[i] % 64);
    for (int i = 0; i < ids.n; i++)
        set->last = ids.ids[i] > set->last ? ids.ids[i] : set->last;
}

static bool is_vf(const struct vf_set *set, unsigned dev)
{
    assert(dev < MXSML_FIRST_PF);
    return set->among && set->bits[dev / 64] >> (dev % 64) & 1;
}

static size_t list_known(struct mxsml *m, struct mxsml_known **ret)
{
    HOLD(&m->holds.mu);
    assert(m->n_known <= ARRAY_LEN(m->known));
    memcpy(ret, m->known, m->n_known * sizeof(*ret));
    return m->n_known;
}

/* Compares card by card: the total can stay the same while functions move between cards. */
bool mxsml_vfs_have_changed(struct mxsml *m)
{
    struct mxsml_known *known[ARRAY_LEN(m->known)];
    size_t n = list_known(m, known);
    bool changed = false;
    for (size_t i = 0; i < n; i++) {
        unsigned now = kernels_vfs_of(m, &known[i]->card);
        HOLD(&m->holds.mu);
        changed |= now != known[i]->kernels_vfs;
        known[i]->kernels_vfs = now;
    }
    return changed;
}

/* --- all cards --- */

static unsigned count_by(const char *call, unsigned (*count)(void))
{
    gpu_call_begin(call);
    unsigned n = count ? count() : 0;
    gpu_call_end();
    return n;
}

static int count_devices(struct mxsml *m, unsigned *ret, unsigned *ret_pfs, struct err *e)
{
    *ret = count_by(mxsml_names.count, m->lib.count);
    *ret_pfs = count_by(mxsml_names.pf_count, m->lib.pf_count);
    if (*ret > (*ret_pfs ? MXSML_FIRST_PF : GPU_MAX_CARDS))
        return err_set(e, ERR_TOO_LARGE, "%u cards%s; at most %d are managed", *ret,
                       *ret_pfs ? " and functions" : "", GPU_MAX_CARDS);
    if (*ret_pfs > GPU_MAX_CARDS)
        return err_set(e, ERR_TOO_LARGE, "%u cards with virtual functions; at most %d are managed",
                       *ret_pfs, GPU_MAX_CARDS);
    return 0;
}

/* Takes the card that is known at a number while it is asked who it is. *ret_busy: another thread
 * has it, and p is as last reported. NULL: no card is known there, or it is `mine`. */
static struct lib_hold *take_at(struct mxsml *m, const struct mxsml_known *mine,
                                struct mxsml_place *p)
{
    HOLD(&m->holds.mu);
    struct mxsml_known *known = find_at(m, p->dev);
    if (!known || known->epoch != m->epoch || known == mine)
        return NULL;
    if (lib_hold_try(&known->hold))
        return &known->hold;
    p->busy = true;
    p->known = known;
    p->info = known->info;
    return NULL;
}

static void give(struct mxsml *m, struct lib_hold *h)
{
    if (!h)
        return;
    HOLD(&m->holds.mu);
    lib_hold_give(&m->holds, h);
}

/* Asks a device who it is. True: it is a function, and no card. */
static bool ask_device(struct mxsml *m, const struct mxsml_known *mine, const struct vf_set *vfs,
                       struct mxsml_place *p)
{
    struct lib_hold *held = take_at(m, mine, p);
    if (p->busy)
        return false;
    int rc = MXSML_DO(m, &p->why, info, p->dev, &p->info);
    bool is_function = rc == 0 && vfs->among && p->info.mode == MXSML_MODE_VF;
    if (!is_function && (rc < 0 || identify(m, p, &p->why) < 0))
        p->known = NULL;
    give(m, held);
    return is_function;
}

/* Adds a device; a function that is no card is skipped. */
static int add_found(struct mxsml *m, unsigned dev, const struct mxsml_known *mine,
                     const struct vf_set *vfs, struct mxsml_places *ret, struct err *e)
{
    if (ret->n == ARRAY_LEN(ret->items))
        return err_set(e, ERR_TOO_LARGE, "more than %d cards", GPU_MAX_CARDS);
    struct mxsml_place *p = &ret->items[ret->n];
    *p = (struct mxsml_place){.dev = dev};
    if (!ask_device(m, mine, vfs, p))
        ret->n++;
    return 0;
}

/* A card that does not identify itself is assumed to be the one last seen at its number. */
static const struct mxsml_known *face_of(struct mxsml *m, const struct mxsml_place *p)
{
    return p->known ? p->known : mxsml_last_at(m, p->dev);
}

static bool comes_before(struct mxsml *m, const struct mxsml_place *a, const struct mxsml_place *b)
{
    const struct mxsml_known *x = face_of(m, a);
    const struct mxsml_known *y = face_of(m, b);
    int order = x && y ? strcasecmp(x->card.pci_bus_id, y->card.pci_bus_id) : !x - !y;
    return order ? order < 0 : a->dev < b->dev;
}

static void sort(struct mxsml *m, struct mxsml_places *p)
{
    for (unsigned i = 1; i < p->n; i++)
        for (unsigned k = i; k > 0 && comes_before(m, &p->items[k], &p->items[k - 1]); k--) {
            const struct mxsml_place moved = p->items[k];
            p->items[k] = p->items[k - 1];
            p->items[k - 1] = moved;
        }
}

/* True when a card was whole at the initialisation and has functions now, or the reverse. */
static bool has_turned(const struct mxsml_place *p)
{
    return p->known && !p->busy && (p->dev >= MXSML_FIRST_PF) != (p->info.mode == MXSML_MODE_PF);
}

/* The library returns 0 on any error. Functions without a card are those of a virtual machine,
 * unless a card with functions shows. */
static int check_counts(struct mxsml *m, unsigned count, const struct vf_set *vfs,
                        const struct mxsml_places *p, struct err *e)
{
    struct mxsml_info info;
    bool alone = false;
    if (vfs->last >= (int)count)
        return err_set(e, ERR_UNAVAILABLE, "the library counts %u cards and functions and shows %d",
                       count, vfs->last + 1);
    for (unsigned i = 0; i < p->n && !vfs->among; i++)
        alone |= p->items[i].info.mode == MXSML_MODE_VF;
    if (alone && MXSML_CALL(m, info, MXSML_FIRST_PF, &info) == MXSML_SUCCESS)
        return err_set(e, ERR_UNAVAILABLE,
                       "the library counts no card with virtual functions and shows one");
    return 0;
}

/* Without cards the library reports that when it is initialised. */
static int check_any(struct mxsml *m, const struct mxsml_places *p, struct err *e)
{
    if (p->n)
        return 0;
    atomic_store(&m->stale, true);
    return err_set(e, ERR_UNAVAILABLE, "the library counts no cards");
}

/* The size of its memory is asked until the library reports it. */
static void settle(struct mxsml *m, const struct mxsml_place *p, unsigned index)
{
    {
        HOLD(&m->holds.mu);
        p->known->card.index = index;
        if (p->known->card.memory_mib || p->busy)
            return;
    }
    uint64_t memory_mib = memory_mib_of(m, p->dev);
    HOLD(&m->holds.mu);
    p->known->card.memory_mib = memory_mib;
}

static int find_once(struct mxsml *m, const struct mxsml_known *mine, struct mxsml_places *ret,
                     struct err *e)
{
    unsigned count = 0;
    unsigned pfs = 0;
    struct vf_set vfs = {.last = -1};
    ret->n = 0;
    TRY(count_devices(m, &count, &pfs, e));
    for (unsigned i = 0; i < pfs; i++)
        note_vfs(m, MXSML_FIRST_PF + i, &vfs);
    for (unsigned dev = 0; dev < count; dev++)
        if (!is_vf(&vfs, dev))
            TRY(add_found(m, dev, mine, &vfs, ret, e));
    for (unsigned i = 0; i < pfs; i++)
        TRY(add_found(m, MXSML_FIRST_PF + i, mine, &vfs, ret, e));
    TRY(check_counts(m, count, &vfs, ret, e));
    TRY(check_any(m, ret, e));
    if (pfs)
        sort(m, ret);
    for (unsigned i = 0; i < ret->n; i++)
        if (ret->items[i].known)
            settle(m, &ret->items[i], i);
    return 0;
}

int mxsml_find(struct mxsml *m, struct lib_pass *p, const struct mxsml_known *mine,
               struct mxsml_places *ret, struct err *e)
{
    TRY(find_once(m, mine, ret, e));
    bool turned = false;
    for (unsigned i = 0; i < ret->n; i++)
        turned |= has_turned(&ret->items[i]);
    if (!turned || !m->lib.init_again)
        return 0;
    mxsml_places_done(ret);
    atomic_store(&m->stale, true);
    lib_gate_leave(p);
    TRY(mxsml_enter(m, p, /* ret_closed= */ NULL, e));
    return find_once(m, mine, ret, e);
}

/* --- the card of a verb --- */

/* The error for a missing card. ERR_NOT_FOUND means to the caller that everything on the card is
 * gone, so it is used only when every card identified itself. */
static int missing(struct mxsml *m, const struct mxsml_places *p, const char *uuid, struct err *e)
{
    const struct mxsml_place *silent = NULL;
    for (unsigned i = 0; i < p->n && !silent; i++)
        silent = p->items[i].known ? NULL : &p->items[i];
    if (!silent)
        return err_set(e, ERR_NOT_FOUND, "no card %s", uuid);
    atomic_store(&m->stale, true);
    return err_set(e, ERR_UNAVAILABLE, "card %s does not show: %s", uuid, err_msg(&silent->why));
}

/* A driver that is gone for now does not mean that its cards are. */
static int not_gone(bool was_open, struct err *why, struct err *e)
{
    if (was_open && why->kind == ERR_NOT_FOUND)
        why->kind = ERR_UNAVAILABLE;
    return err_move(e, why);
}

/* The card at its number in this epoch, in hand from now on when it is known at all. False: it must
 * be looked for. */
static int take_known(struct mxsml_turn *t, const char *uuid, bool *ret_settled, struct err *e)
{
    struct mxsml *m = t->m;
    assert(!t->known);
    HOLD(&m->holds.mu);
    struct mxsml_known *known = mxsml_known_of(m, uuid);
    if (!known)
        return 0;
    TRY(lib_hold_take(&m->holds, &known->hold, uuid, /* limit_ms= */ 0, e));
    t->known = known;
    t->dev = known->dev;
    t->epoch = m->epoch;
    *ret_settled = known->dev != UINT_MAX && known->epoch == m->epoch;
    return 0;
}

/* Asks the card at its number who it is. *ret_same: still the wanted one. */
static int ask_known(struct mxsml_turn *t, const char *uuid, bool *ret_same, struct err *e)
{
    struct mxsml *m = t->m;
    struct mxsml_place p = {.dev = t->dev, .known = t->known};
    assert(t->known && t->dev != UINT_MAX);
    auto_err struct err why = {0};
    int rc = MXSML_DO(m, &why, info, t->dev, &p.info);
    if (rc == 0)
        rc = mxsml_sound_info(t->dev, &p.info, &why);
    if (rc < 0) {
        atomic_store(&m->stale, true);
        return err_set(e, ERR_UNAVAILABLE, "card %s does not show: %s", uuid, err_msg(&why));
    }
    *ret_same = strcmp(p.info.uuid, uuid) == 0 && !has_turned(&p);
    t->info = p.info;
    return 0;
}

/* Takes the card that was found, unless it is in hand. */
static int take_found(struct mxsml_turn *t, const struct mxsml_place *at, struct err *e)
{
    struct mxsml *m = t->m;
    HOLD(&m->holds.mu);
    assert(at->known && (!t->known || t->known == at->known)); /* a uuid is one card */
    if (!t->known)
        TRY(lib_hold_take(&m->holds, &at->known->hold, at->known->card.uuid, /* limit_ms= */ 0, e));
    t->known = at->known;
    t->dev = at->dev;
    t->epoch = m->epoch;
    t->info = at->info;
    return 0;
}

static int look_for(struct mxsml_turn *t, const char *uuid, struct err *e)
{
    auto_mxsml_places struct mxsml_places places = {0};
    auto_err struct err why = {0};
    if (mxsml_find(t->m, &t->pass, t->known, &places, &why) < 0)
        return not_gone(/* was_open= */ true, &why, e);
    for (unsigned i = 0; i < places.n; i++) {
        const struct mxsml_place *at = &places.items[i];
        if (at->known && strcmp(at->known->card.uuid, uuid) == 0)
            return take_found(t, at, e);
    }
    return missing(t->m, &places, uuid, e);
}

int mxsml_turn_begin(struct mxsml_turn *t, struct mxsml *m, const char *uuid, struct err *e)
{
    auto_err struct err why = {0};
    bool was_open = atomic_load(&m->open);
    bool settled = false;
    bool same = false;
    t->m = m;
    if (mxsml_enter(m, &t->pass, /* ret_closed= */ NULL, &why) < 0)
        return not_gone(was_open, &why, e);
    TRY(take_known(t, uuid, &settled, e));
    if (settled)
        TRY(ask_known(t, uuid, &same, e));
    return same ? 0 : look_for(t, uuid, e);
}

int mxsml_turn_begin_reset(struct mxsml_turn *t, struct mxsml *m, const char *uuid, struct err *e)
{
    bool settled = false;
    t->m = m;
    TRY(take_known(t, uuid, &settled, e));
    if (settled && !atomic_load(&m->stale))
        return 0;
    mxsml_turn_end(t);
    TRY(mxsml_turn_begin(t, m, uuid, e));
    lib_gate_leave(&t->pass);
    return 0;
}

void mxsml_places_done(struct mxsml_places *p)
{
    for (unsigned i = 0; i < p->n; i++)
        err_clear(&p->items[i].why);
    p->n = 0;
}
