/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/xalloc.h"

#include "nodeagent/gpu/sound.h"
#include "nodeagent/gpu/vitals.h"
#include "nodeagent/vendor/metax/mxsml_find.h"
#include "nodeagent/vendor/metax/mxsml_vfs.h"

/* Bound on the slice numbers that are tried: at most sixteen slices exist, but the driver may give
 * them larger numbers. */
#define MAX_SLICE_ID 256
/* Room for processes in the first and in the largest question, each 3.6 KB. Fewer are listed
 * (GPU_MAX_PROCESSES). */
#define FEW_PROCESSES  16
#define MOST_PROCESSES 2048
/* Entries of the list kept for users of parts without a listed user: a card has no more parts. */
#define KEPT_PLACES (SGPU_MAX_SLICES + GPU_MAX_VFS + 1)

static_assert(KEPT_PLACES < GPU_MAX_PROCESSES, "some users are listed");
static_assert(MXSML_ALIAS_BYTES <= SGPU_ALIAS_BYTES &&
                  MXSML_ALIAS_BYTES <= sizeof(((struct gpu_slice *)0)->alias),
              "no alias is cut: a cut one would be another slice's");
static_assert(sizeof(((struct mxsml_info *)0)->uuid) <= GPU_UUID_BYTES &&
                  sizeof(((struct mxsml_info *)0)->bdf) <= GPU_BUS_ID_BYTES,
              "no name is cut");

/* --- slices --- */

/* The alias of a slice whose alias cannot be read. It must not be empty, because an empty alias
 * marks a slice that Cleave made and has not named yet. */
#define NOT_TOLD "?"

/* Reads the driver's alias and derives the name in plans. A slice without Cleave's prefix, or with
 * a foreign name, is foreign. */
static int read_alias(struct mxsml *m, unsigned dev, struct sgpu_slice *s, struct gpu_slice *more,
                      struct err *e)
{
    char alias[MXSML_ALIAS_BYTES] = "";
    unsigned size = sizeof(alias);
    mxsml_ret rc = MXSML_CALL(m, alias, dev, s->id, alias, &size);
    if (rc == MXSML_NOT_SUPPORTED || rc == MXSML_NO_FUNCTION)
        (void)snprintf(alias, sizeof(alias), NOT_TOLD);
    else
        TRY(mxsml_check(m, mxsml_names.alias, rc, errno, e));
    sound_text(alias, sizeof(alias));
    bool ours = strncmp(alias, MXSML_OURS, strlen(MXSML_OURS)) == 0 &&
                sgpu_is_alias(alias + strlen(MXSML_OURS));
    (void)snprintf(s->alias, sizeof(s->alias), "%s", alias + (ours ? strlen(MXSML_OURS) : 0));
    (void)snprintf(more->alias, sizeof(more->alias), "%s", alias);
    s->foreign = !ours;
    return 0;
}

static int add_slice(struct mxsml *m, unsigned dev, const struct mxsml_slice *from,
                     struct gpu_card *c, struct err *e)
{
    assert(c->sgpu.n < SGPU_MAX_SLICES);
    struct gpu_slice *more = &c->slices[c->sgpu.n];
    struct sgpu_slice *s = &c->sgpu.items[c->sgpu.n++];
    int state = 1;
    mxsml_ret told = MXSML_CALL(m, slice_state, dev, from->id, &state);
    *s = (struct sgpu_slice){.id = from->id, .quota = {from->vram_mb, from->compute_percent}};
    *more = (struct gpu_slice){.minor = from->minor, .healthy = told != MXSML_SUCCESS || state};
    (void)snprintf(more->uuid, sizeof(more->uuid), "%s", from->uuid);
    return read_alias(m, dev, s, more, e);
}

/* The library returns 0 slices on any error, too: that counts only where no slice shows. */
static int read_slices(struct mxsml *m, unsigned dev, struct gpu_card *c, struct err *e)
{
    gpu_call_begin(mxsml_names.slice_count);
    unsigned count = m->lib.slice_count ? m->lib.slice_count(dev) : 0;
    gpu_call_end();
    unsigned ids = count ? MAX_SLICE_ID : SGPU_MAX_SLICES;
    for (unsigned id = 0; (!count || c->sgpu.n < count) && id < ids; id++) {
        struct mxsml_slice s = {0};
        mxsml_ret rc = MXSML_CALL(m, slice_info, dev, id, &s);
        if (rc == MXSML_NOT_SUPPORTED || rc == MXSML_INVALID_INPUT)
            continue; /* no slice has this number */
        TRY(mxsml_check(m, mxsml_names.slice_info, rc, errno, e));
        if (c->sgpu.n == SGPU_MAX_SLICES)
            break;
        TRY(mxsml_sound_slice(c, id, &s, e));
        TRY(add_slice(m, dev, &s, c, e));
    }
    if (c->sgpu.n == count || !m->lib.slice_count)
        return 0;
    return err_set(e, ERR_UNAVAILABLE, "the library counts %u slices and shows %u", count,
                   c->sgpu.n);
}

/* The smaller; where one is not reported, the other. */
static unsigned least(unsigned a, unsigned b)
{
    return (a < b && a) || !b ? a : b;
}

/* Checks the answer for a setting of a card. A driver without the setting only lacks a feature: the
 * value is 0 then (best effort, no time slice). */
static int check_setting(struct mxsml *m, const char *call, mxsml_ret rc, unsigned *value,
                         struct err *e)
{
    if (rc != MXSML_NOT_SUPPORTED && rc != MXSML_NO_FUNCTION)
        return mxsml_check(m, call, rc, errno, e);
    *value = 0;
    return 0;
}

#define READ_SETTING(m, dev, fn, value, e)                                                         \
    check_setting(m, mxsml_names.fn, MXSML_CALL(m, fn, dev, value), value, e)

/* Reads the card's own settings, also while sGPU is off, since they persist. */
static int read_sharing(struct mxsml *m, unsigned dev, unsigned toggle, struct gpu_card *c,
                        struct err *e)
{
    unsigned sched = 0;
    struct mxsml_quota quota = {0};
    TRY(READ_SETTING(m, dev, sched_class, &sched, e));
    TRY(READ_SETTING(m, dev, timeslice, &c->sgpu.timeslice_ms, e));
    TRY(mxsml_sound_sharing(toggle, sched, c->sgpu.timeslice_ms, e));
    c->sgpu.qos = sched <= API_BURST_SHARE ? (int)sched : API_BEST_EFFORT;
    c->sgpu.memory_mib = (unsigned)c->memory_mib;
    if (c->mode == GPU_SGPU && MXSML_CALL(m, quota, dev, &quota) == MXSML_SUCCESS)
        c->sgpu.memory_mib = least(mxsml_sound_memory(quota.vram_total_mb), c->sgpu.memory_mib);
    return 0;
}

/* Functions, and cards of other series, answer that they have no sGPU. */
static int read_sgpu(struct mxsml *m, const struct mxsml_info *info, struct gpu_card *c,
                     struct err *e)
{
    unsigned on = 0;
    mxsml_ret rc = MXSML_CALL(m, toggle, info->device_id, &on);
    c->mode = c->pending_mode = GPU_NATIVE;
    if (rc == MXSML_NOT_SUPPORTED || rc == MXSML_NO_FUNCTION || info->mode != MXSML_MODE_BARE)
        return 0;
    TRY(mxsml_check(m, mxsml_names.toggle, rc, errno, e));
    c->sgpu_capable = true;
    c->mode = c->pending_mode = on ? GPU_SGPU : GPU_NATIVE;
    TRY(read_sharing(m, info->device_id, on, c, e));
    return on ? read_slices(m, info->device_id, c, e) : 0;
}

static int read_cut(struct mxsml *m, const struct mxsml_info *info, struct gpu_card *c,
                    struct err *e)
{
    if (info->mode == MXSML_MODE_PF)
        return mxsml_read_vfs(m, info->device_id, c, e);
    return read_sgpu(m, info, c, e);
}

/* --- processes --- */

static bool has_user(const struct gpu_card *c, int part)
{
    for (unsigned i = 0; i < c->n_users; i++)
        if (c->users[i].part == part)
            return true;
    return false;
}

/* Adds a process. The list shows what is in use, so when it is full, processes that are not the
 * only user of a part are left out. */
static void add_process(const struct mxsml_process *p, const struct mxsml_process_gpu *on, int part,
                        struct gpu_card *c)
{
    if (c->n_users >= GPU_MAX_PROCESSES - KEPT_PLACES && has_user(c, part))
        return;
    if (!p->pid) {
        c->users_unknown = true; /* an unknown user, since there is no pid */
        return;
    }
    assert(c->n_users < GPU_MAX_PROCESSES);
    struct gpu_user *to = &c->users[c->n_users++];
    *to =
        (struct gpu_user){.pid = p->pid, .memory_bytes = on->memory_bytes, .part = part, .ci = -1};
    (void)snprintf(to->name, sizeof(to->name), "%.*s", (int)sizeof(p->name) - 1, p->name);
}

/* The device that is asked for its processes: a card, or one of its virtual functions. */
struct asked {
    unsigned dev;
    const char *bus_id;
    const struct gpu_vf *vf; /* NULL: the card */
};

static bool is_address(const struct mxsml_process_gpu *on, const char *bus_id)
{
    return strncasecmp(on->bdf, bus_id, sizeof(on->bdf)) == 0;
}

/* True for a process of a virtual function, which the function's own list has. */
static bool is_told_elsewhere(const struct asked *of, const struct mxsml_process_gpu *on,
                              const struct gpu_card *c)
{
    for (unsigned i = 0; i < c->n_vfs && !of->vf; i++)
        if (is_address(on, c->vfs[i].pci_bus_id))
            return true;
    return false;
}

static int part_of(const struct asked *of, const struct mxsml_process_gpu *on,
                   const struct gpu_card *c)
{
    return of->vf ? (int)of->vf->number : mxsml_sound_slice_of(c, on->slice_id);
}

/* A process is listed for the card; one without a slice uses the whole card. */
static void add_of(const struct asked *of, const struct mxsml_process *p, struct gpu_card *c)
{
    static const struct mxsml_process_gpu all = {.slice_id = -1};
    unsigned n = p->n_gpus < ARRAY_LEN(p->gpus) ? p->n_gpus : ARRAY_LEN(p->gpus);
    bool said = false;
    for (unsigned i = 0; i < n; i++) {
        const struct mxsml_process_gpu *on = &p->gpus[i];
        bool is_of = is_address(on, of->bus_id);
        said |= is_of || is_told_elsewhere(of, on, c);
        if (is_of)
            add_process(p, on, part_of(of, on, c), c);
    }
    if (!said)
        add_process(p, &all, part_of(of, &all, c), c);
}

mxsml_ret mxsml_ask_processes(struct mxsml *m, unsigned dev, struct mxsml_process_list *ret)
{
    unsigned n = FEW_PROCESSES;
    *ret = (struct mxsml_process_list){xcalloc(n, sizeof(*ret->items)), n, n};
    mxsml_ret rc = MXSML_CALL(m, processes, dev, &ret->n, ret->items);
    n = ret->n;
    if (rc != MXSML_INSUFFICIENT_SIZE || n <= FEW_PROCESSES || n > MOST_PROCESSES)
        return rc;
    n *= 2; /* more processes may appear meanwhile */
    free(ret->items);
    *ret = (struct mxsml_process_list){xcalloc(n, sizeof(*ret->items)), n, n};
    return MXSML_CALL(m, processes, dev, &ret->n, ret->items);
}

static int read_users(struct mxsml *m, const struct asked *of, struct gpu_card *c, struct err *e)
{
    struct mxsml_process_list list;
    mxsml_ret rc = mxsml_ask_processes(m, of->dev, &list);
    auto_free struct mxsml_process *items = list.items;
    bool no_list = rc == MXSML_NOT_SUPPORTED || rc == MXSML_NO_FUNCTION;
    c->users_unknown |= no_list;
    if (no_list)
        return 0;
    TRY(mxsml_check(m, mxsml_names.processes, rc, errno, e));
    if (list.n > list.room)
        return err_set(e, ERR_PROTOCOL, "the library reports %u processes where %u have room",
                       list.n, list.room);
    for (unsigned i = 0; i < list.n; i++)
        add_of(of, &items[i], c);
    return 0;
}

/* When the users cannot be read, nothing on the card counts as free. */
static int read_processes(struct mxsml *m, unsigned dev, struct gpu_card *c, struct err *e)
{
    const struct asked card = {.dev = dev, .bus_id = c->pci_bus_id};
    c->users = xcalloc(GPU_MAX_PROCESSES, sizeof(*c->users));
    TRY(read_users(m, &card, c, e));
    for (unsigned i = 0; i < c->n_vfs; i++) {
        const struct gpu_vf *vf = &c->vfs[i];
        const struct asked function = {.dev = vf->dev, .bus_id = vf->pci_bus_id, .vf = vf};
        TRY(read_users(m, &function, c, e));
    }
    gpu_card_set_holders(c, /* holders= */ NULL, 0); /* marks what is in use */
    return 0;
}

/* --- health --- */

static void judge_state(struct mxsml *m, unsigned dev, struct gpu_card *c)
{
    int state = 1;
    struct mxsml_unavailable why = {0};
    if (MXSML_CALL(m, state, dev, &state) != MXSML_SUCCESS || state)
        return;
    char text[128] = "the driver says that the card is not available";
    if (MXSML_CALL(m, unavailable, dev, &why) == MXSML_SUCCESS && why.reason[0])
        (void)snprintf(text, sizeof(text), "the card is not available: %.*s (%d)",
                       (int)sizeof(why.reason) - 1, why.reason, why.code);
    gpu_card_mark_ill(c, "NotAvailable", text);
}

/* Counters return to 0 with a reset; then the card is healthy again. */
static void judge_ecc(struct mxsml *m, unsigned dev, struct gpu_card *c)
{
    struct mxsml_ecc ecc = {0};
    if (MXSML_CALL(m, ecc_errors, dev, &ecc) != MXSML_SUCCESS)
        return;
    c->vitals.ecc_known = true;
    c->vitals.ecc_uncorrected = (unsigned long long)ecc.sram_uncorrected + ecc.dram_uncorrected;
    if (c->vitals.ecc_uncorrected && c->healthy)
        gpu_card_mark_ill(c, "UncorrectableECC",
                          "memory errors that ECC could not correct since the last reset: end the "
                          "work on the card, then mx-smi -r");
}

static struct gpu_card identity_of(struct mxsml *m, const struct mxsml_known *known)
{
    HOLD(&m->holds.mu);
    return known->card;
}

/* The functions of a card that no longer answers stay known, because pods may hold them. */
static void keep_vfs(struct mxsml *m, const struct gpu_card *from, struct mxsml_known *known)
{
    HOLD(&m->holds.mu);
    known->card.n_vfs = from->n_vfs;
    memcpy(known->card.vfs, from->vfs, sizeof(known->card.vfs));
}

/* The card is in hand, and has reported info. */
static int read_card(struct mxsml *m, struct mxsml_known *known, const struct mxsml_info *info,
                     struct gpu_card *ret, struct err *e)
{
    auto_gpu_card struct gpu_card card = identity_of(m, known);
    unsigned dev = info->device_id;
    card.n_vfs = 0;
    TRY(read_cut(m, info, &card, e));
    TRY(read_processes(m, dev, &card, e));
    judge_state(m, dev, &card);
    judge_ecc(m, dev, &card);
    keep_vfs(m, &card, known);
    *ret = card;
    card.users = NULL; /* handed over */
    return 0;
}

/* --- the node --- */

/* A card about which nothing is known. */
static struct gpu_card nobody(unsigned index)
{
    return (struct gpu_card){.vendor = "metax",
                             .index = index,
                             .minor = UINT_MAX,
                             .numa_node = -1,
                             .no_events = true,
                             .unread = true};
}

/* Takes the card of a place that was found free; another thread may have it by now. */
static bool take(struct mxsml *m, struct mxsml_place *at)
{
    if (at->known && !at->busy) {
        HOLD(&m->holds.mu);
        at->busy = !lib_hold_try(&at->known->hold);
    }
    return !at->busy;
}

static void give(struct mxsml *m, struct mxsml_known *known)
{
    if (!known)
        return;
    HOLD(&m->holds.mu);
    lib_hold_give(&m->holds, &known->hold);
}

/* Another thread works on the card: nothing but its identity is known now. */
static void show_busy(struct mxsml *m, const struct mxsml_known *known, unsigned index,
                      struct gpu_card *ret)
{
    *ret = known ? identity_of(m, known) : nobody(index);
    ret->index = index;
    ret->healthy = ret->unread = ret->busy = true;
}

static void show_ill(struct mxsml *m, const struct mxsml_place *at, unsigned index,
                     const struct err *why, struct gpu_card *ret)
{
    const struct mxsml_known *last = mxsml_last_at(m, at->dev);
    *ret = last ? identity_of(m, last) : nobody(index);
    ret->index = index;
    ret->unread = true;
    bool told = why->reason && strcmp(why->reason, "MXSMLError") != 0;
    gpu_card_mark_ill(ret, told ? why->reason : "ReadFailed", err_msg(why));
}

/* Reads one card of an inventory; a failure is reported in the card. */
static void read_slot(struct mxsml *m, struct mxsml_place *at, unsigned index, struct gpu_card *ret)
{
    auto_err struct err why = {0};
    if (!take(m, at)) {
        show_busy(m, at->known, index, ret);
        return;
    }
    if (!at->known)
        (void)err_move(&why, &at->why);
    else if (read_card(m, at->known, &at->info, ret, &why) == 0)
        ret->index = index;
    if (why.kind)
        show_ill(m, at, index, &why, ret);
    give(m, at->known);
}

/* Two cards with the same uuid cannot be distinguished: the second one loses it. */
static void refuse_twin(struct gpu_inventory *inv, unsigned index)
{
    struct gpu_card *c = &inv->cards[index];
    for (unsigned i = 0; *c->uuid && i < index; i++) {
        if (strcmp(inv->cards[i].uuid, c->uuid) != 0)
            continue;
        auto_free char *why = xasprintf("the library gives card %u the UUID of card %u", index, i);
        gpu_card_done(c);
        *c = nobody(index);
        gpu_card_mark_ill(c, "ReadFailed", why);
    }
}

static uint8_t level_of(unsigned topology)
{
    static const uint8_t levels[] = {
        [MXSML_TOPO_INTERNAL] = GPU_LEVEL_BOARD,
        [MXSML_TOPO_SWITCH] = GPU_LEVEL_SWITCH,
        [MXSML_TOPO_SWITCHES] = GPU_LEVEL_SWITCHES,
        [MXSML_TOPO_HOST_BRIDGE] = GPU_LEVEL_HOST_BRIDGE,
        [MXSML_TOPO_NODE] = GPU_LEVEL_NODE,
        [MXSML_TOPO_SYSTEM] = GPU_LEVEL_SYSTEM,
    };
    return topology < ARRAY_LEN(levels) ? levels[topology] : GPU_LEVEL_UNKNOWN;
}

/* The library reports MetaXLink instead of the PCIe path. What it does not report stays unknown and
 * is never an error. */
static struct gpu_topology ask_topology(struct mxsml *m, const struct mxsml_places *at)
{
    struct gpu_topology ret;
    gpu_topology_init(&ret, at->n);
    for (unsigned a = 0; a < at->n; a++)
        for (unsigned b = a + 1; b < at->n; b++) {
            unsigned level = UINT_MAX;
            if (MXSML_CALL(m, topology, at->items[a].dev, at->items[b].dev, &level) !=
                MXSML_SUCCESS)
                continue;
            struct gpu_pair *p = gpu_topology_at(&ret, a, b);
            p->links = level == MXSML_TOPO_METAXLINK;
            p->level = level_of(level);
        }
    return ret;
}

static bool has_busy(const struct gpu_inventory *inv)
{
    for (size_t i = 0; i < inv->n_cards; i++)
        if (inv->cards[i].busy)
            return true;
    return false;
}

/* A card that another thread works on is not asked: the last answers are shown meanwhile. */
static void read_topology(struct mxsml *m, const struct mxsml_places *at, struct gpu_inventory *inv)
{
    bool asked = !has_busy(inv);
    assert(!asked || at->n == inv->n_cards);
    struct gpu_topology now = {0};
    if (asked)
        now = ask_topology(m, at);
    HOLD(&m->holds.mu);
    if (asked) {
        gpu_topology_done(&m->topology);
        m->topology = now;
    }
    if (m->topology.n_cards == inv->n_cards)
        inv->topology = gpu_topology_copy(&m->topology);
    else
        gpu_topology_init(&inv->topology, inv->n_cards);
}

static void remember(struct mxsml *m, const struct mxsml_places *places)
{
    HOLD(&m->holds.mu);
    assert(places->n <= GPU_MAX_CARDS);
    m->n_shown = places->n;
    for (unsigned i = 0; i < places->n; i++)
        m->shown[i] = places->items[i].known;
}

static unsigned remembered_count(struct mxsml *m)
{
    HOLD(&m->holds.mu);
    return m->n_shown;
}

static const struct mxsml_known *remembered(struct mxsml *m, unsigned index)
{
    HOLD(&m->holds.mu);
    assert(index < GPU_MAX_CARDS);
    return m->shown[index];
}

static void describe_driver(struct mxsml *m, struct gpu_driver *d)
{
    HOLD(&m->holds.mu);
    (void)snprintf(d->version, sizeof(d->version), "%s", m->driver);
}

/* The cards of a reading, all of them unread. */
static void begin_inventory(struct mxsml *m, unsigned n_cards, struct gpu_inventory *ret)
{
    *ret = (struct gpu_inventory){.n_drivers = 1,
                                  .drivers = {{.vendor = "metax"}},
                                  .n_cards = n_cards};
    ret->cards = xcalloc(n_cards, sizeof(*ret->cards));
    describe_driver(m, &ret->drivers[0]);
    gpu_inventory_read_boot(ret, m->proc_root);
}

/* While cards are reset the library is not asked: each card is shown as it was last known. */
static void recall_cards(struct mxsml *m, unsigned count, struct gpu_inventory *ret)
{
    static const struct mxsml_places nowhere;
    assert(count > 0 && count <= GPU_MAX_CARDS); /* else it would wait for the resets */
    begin_inventory(m, count, ret);
    for (unsigned i = 0; i < count; i++)
        show_busy(m, remembered(m, i), i, &ret->cards[i]);
    read_topology(m, &nowhere, ret);
}

int mxsml_op_read(struct gpu *g, struct gpu_inventory *ret, struct err *e)
{
    struct mxsml *m = (struct mxsml *)g;
    auto_mxsml_places struct mxsml_places places = {0};
    auto_lib_pass struct lib_pass pass = {0};
    unsigned count = remembered_count(m);
    bool closed = false;
    if (mxsml_vfs_have_changed(m))
        atomic_store(&m->stale, true);
    TRY(mxsml_enter(m, &pass, count ? &closed : NULL, e));
    if (closed) {
        recall_cards(m, count, ret);
        return 0;
    }
    TRY(mxsml_find(m, &pass, /* mine= */ NULL, &places, e));
    begin_inventory(m, places.n, ret);
    for (unsigned i = 0; i < places.n; i++) {
        read_slot(m, &places.items[i], i, &ret->cards[i]);
        refuse_twin(ret, i);
    }
    remember(m, &places);
    read_topology(m, &places, ret);
    return 0;
}

int mxsml_op_read_card(struct gpu *g, const char *uuid, struct gpu_card *ret, struct err *e)
{
    struct mxsml *m = (struct mxsml *)g;
    auto_mxsml_turn struct mxsml_turn t = {.m = m};
    TRY(mxsml_turn_begin(&t, m, uuid, e));
    return read_card(m, t.known, &t.info, ret, e);
}
