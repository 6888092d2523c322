/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/num.h"
#include "base/xalloc.h"

#include "nodeagent/gpu/pci_sysfs.h"
#include "nodeagent/gpu/sound.h"
#include "nodeagent/vendor/nvidia/nvml_session.h"

/* The NVML architectures whose names matter to users or to Cleave. */
static const struct {
    unsigned value;
    const char *name;
} architectures[] = {
    {5, "volta"},  {6, "turing"},     {7, "ampere"}, {8, "ada"},
    {9, "hopper"}, {10, "blackwell"}, {13, "rubin"},
};
#define ARCH_AMPERE 7

static const char *architecture_name(unsigned value)
{
    for (size_t i = 0; i < ARRAY_LEN(architectures); i++)
        if (architectures[i].value == value)
            return architectures[i].name;
    return "unknown";
}

/* Checks the answer for a fact that not every card or driver has. A temporary failure is an error,
 * because facts are not asked for again. */
static int optional(struct nvml *n, const char *call, nvml_ret rc, struct err *e)
{
    return nvml_is_told(rc) ? 0 : nvml_check(n, call, rc, e);
}

#define OPTIONAL(n, e, fn, ...) optional(n, nvml_names.fn, NVML_CALL(n, fn, __VA_ARGS__), e)

static int read_architecture(struct nvml *n, struct nvml_facts *f, struct err *e)
{
    unsigned arch = 0;
    TRY(OPTIONAL(n, e, architecture, f->device, &arch));
    (void)snprintf(f->card.architecture, sizeof(f->card.architecture), "%s",
                   architecture_name(arch));
    f->card.mode_needs_reset = arch == ARCH_AMPERE;
    return 0;
}

/* sysfs knows the card's NUMA node. NVML's call is for cards that are a node themselves, and is
 * used where sysfs has nothing. A temporary failure is asked again. */
static void read_numa_node(struct nvml *n, struct nvml_facts *f)
{
    auto_free char *text = pci_sysfs_line(n->sys_root, f->card.pci_bus_id, "numa_node");
    int64_t node = -1;
    f->numa_told = true;
    f->card.numa_node = -1;
    if (text && num_parse(text, -1, INT_MAX, &node, NULL) == 0) {
        f->card.numa_node = (int)node;
        return;
    }
    unsigned from_nvml = NVML_NUMA_NONE;
    nvml_ret rc = NVML_CALL(n, numa_node, f->device, &from_nvml);
    f->numa_told = nvml_is_told(rc);
    if (rc == NVML_SUCCESS && from_nvml <= INT_MAX)
        f->card.numa_node = (int)from_nvml;
}

/* 0x030200: a 3D controller; 0x030000: one with a display. */
static int read_class(struct nvml *n, struct nvml_facts *f, struct err *e)
{
    f->card.pci_class = pci_sysfs_hex(n->sys_root, f->card.pci_bus_id, "class") & 0xffffff;
    if (f->card.pci_class)
        return 0;
    struct nvml_pci_info_ext ext = {.version = NVML_STRUCT_VERSION(struct nvml_pci_info_ext, 1)};
    nvml_ret rc = NVML_CALL(n, pci_ext, f->device, &ext);
    if (rc == NVML_ARGUMENT_VERSION_MISMATCH || rc == NVML_INVALID_ARGUMENT)
        return 0;
    TRY(optional(n, nvml_names.pci_ext, rc, e));
    f->card.pci_class = (ext.baseClass & 0xff) << 16 | (ext.subClass & 0xff) << 8;
    return 0;
}

static int read_pci(struct nvml *n, struct nvml_facts *f, struct err *e)
{
    struct nvml_pci_info pci = {0};
    TRY(NVML_DO(n, e, pci, f->device, &pci));
    SOUND_END(pci.busId);
    TRY(nvml_sound_bus_id(pci.busId, e)); /* it is used in paths */
    (void)snprintf(f->card.pci_bus_id, sizeof(f->card.pci_bus_id), "%s", pci.busId);
    f->card.pci_device_id = pci.pciDeviceId;
    f->card.pci_subsystem_id = pci.pciSubSystemId;
    pci_sysfs_root(n->sys_root, f->card.pci_bus_id, f->card.pcie_root, sizeof(f->card.pcie_root));
    read_numa_node(n, f);
    return read_class(n, f, e);
}

static int read_capability(struct nvml *n, struct nvml_facts *f, struct err *e)
{
    int major = 0;
    int minor = 0;
    TRY(OPTIONAL(n, e, compute, f->device, &major, &minor));
    bool sound = major >= 0 && minor >= 0;
    f->card.compute_major = sound ? major : 0;
    f->card.compute_minor = sound ? minor : 0;
    return 0;
}

/* A card that fails half-way is shown with the facts learned so far, all of them checked. */
static int learn(struct nvml *n, struct nvml_facts *f, struct err *e)
{
    struct nvml_memory memory = {0};
    f->card.vendor = "nvidia";
    int named = OPTIONAL(n, e, name, f->device, f->card.model, sizeof(f->card.model));
    sound_text(f->card.model, sizeof(f->card.model));
    TRY(named);
    TRY(OPTIONAL(n, e, memory, f->device, &memory));
    TRY(nvml_sound_memory(memory.total >> 20, e));
    f->card.memory_mib = memory.total >> 20;
    TRY(read_capability(n, f, e));
    TRY(read_architecture(n, f, e));
    TRY(read_pci(n, f, e));
    f->learned = n->session;
    return 0;
}

/* --- the table of cards; holds.mu is held --- */

static struct nvml_facts *facts_of(const struct nvml *n, const char *uuid)
{
    for (size_t i = 0; i < n->n_facts; i++)
        if (strcmp(n->facts[i]->uuid, uuid) == 0)
            return n->facts[i];
    return NULL;
}

static struct nvml_facts *facts_at(const struct nvml *n, unsigned index)
{
    for (size_t i = 0; i < n->n_facts; i++)
        if (n->facts[i]->index == index)
            return n->facts[i];
    return NULL;
}

/* A card that is gone, and that no thread uses. */
static bool is_replaceable(const struct nvml *n, const struct nvml_facts *f)
{
    return f->learned != n->session && !f->hold.waiting;
}

static struct nvml_facts *add_entry(struct nvml *n)
{
    struct nvml_facts *f = xcalloc(1, sizeof(*f));
    bool mine = lib_hold_try(&f->hold);
    assert(mine);
    (void)mine;
    assert(n->n_facts < GPU_MAX_CARDS);
    n->facts[n->n_facts++] = f;
    return f;
}

/* An entry for a new card, in hand; replaces one of a card that is gone. NULL: none is free. */
static struct nvml_facts *place(struct nvml *n, const char *uuid)
{
    assert(*uuid && !facts_of(n, uuid)); /* each card once */
    struct nvml_facts *f = n->n_facts < GPU_MAX_CARDS ? add_entry(n) : NULL;
    for (size_t i = 0; i < n->n_facts && !f; i++) {
        struct nvml_facts *old = n->facts[i];
        if (!lib_hold_try(&old->hold))
            continue;
        if (is_replaceable(n, old))
            f = old;
        else
            lib_hold_give(&n->holds, &old->hold);
    }
    if (!f)
        return NULL;
    *f = (struct nvml_facts){.hold = f->hold, .index = UINT_MAX};
    (void)snprintf(f->uuid, sizeof(f->uuid), "%s", uuid);
    struct gpu_card card = {.vendor = "nvidia", .minor = UINT_MAX, .numa_node = -1};
    memcpy(card.uuid, f->uuid, sizeof(f->uuid));
    f->shown.card = gpu_card_known(&card);
    return f;
}

/* Gives the card this index. A card that had it before has moved, or is gone. */
static void settle_at(const struct nvml *n, struct nvml_facts *f, unsigned index)
{
    assert(index < GPU_MAX_CARDS);
    struct nvml_facts *before = facts_at(n, index);
    if (before)
        before->index = UINT_MAX;
    f->index = index;
    f->index_session = n->session;
}

/* The card that was seen at the index in this session; NULL: none. */
static struct nvml_facts *settled_at(const struct nvml *n, unsigned index)
{
    struct nvml_facts *f = facts_at(n, index);
    return f && f->index_session == n->session ? f : NULL;
}

static void give(struct nvml *n, struct nvml_facts *f)
{
    assert(f->learned <= n->session);
    f->shown = (struct nvml_shown){.session = f->learned,
                                   .device = f->device,
                                   .card = gpu_card_known(&f->card)};
    lib_hold_give(&n->holds, &f->hold);
}

/* --- cards in hand --- */

void nvml_facts_give(struct nvml *n, struct nvml_facts *f)
{
    if (!f)
        return;
    HOLD(&n->holds.mu);
    give(n, f);
}

void nvml_facts_unsettle(struct nvml *n, struct nvml_facts *f, unsigned index)
{
    HOLD(&n->holds.mu);
    assert(f->hold.by == gpu_activity_mine() && index < GPU_MAX_CARDS);
    f->learned = 0;
    f->index = index;
}

nvml_device nvml_facts_device(struct nvml *n, const char *uuid)
{
    HOLD(&n->holds.mu);
    const struct nvml_facts *f = facts_of(n, uuid);
    return f && f->shown.session == n->session ? f->shown.device : NULL;
}

bool nvml_facts_knows(struct nvml *n, const char *uuid)
{
    HOLD(&n->holds.mu);
    return facts_of(n, uuid) != NULL;
}

bool nvml_facts_last_at(struct nvml *n, unsigned index, struct gpu_card *ret)
{
    HOLD(&n->holds.mu);
    const struct nvml_facts *f = facts_at(n, index);
    if (f)
        *ret = gpu_known_card(&f->shown.card);
    return f != NULL;
}

static int identify(struct nvml *n, unsigned index, nvml_device *ret, char uuid[NVML_UUID_BYTES],
                    struct err *e)
{
    TRY(NVML_DO(n, e, by_index, index, ret));
    TRY(NVML_DO(n, e, uuid, *ret, uuid, NVML_UUID_BYTES));
    return nvml_sound_uuid(index, uuid, e);
}

/* Brings the facts of a card in hand up to date. */
static int refresh(struct nvml *n, struct nvml_facts *f, nvml_device device, unsigned index,
                   struct err *e)
{
    assert(f->hold.by == gpu_activity_mine()); /* in hand */
    bool is_new = f->learned != n->session;
    if (is_new) {
        f->learned = 0;
        f->numa_told = f->no_fabric = false;
        f->card = (struct gpu_card){0};
        memset(f->cis, 0, sizeof(f->cis));
    }
    f->device = device;
    f->card.index = index;
    memcpy(f->card.uuid, f->uuid, sizeof(f->uuid));
    if (is_new)
        return learn(n, f, e);
    if (!f->numa_told)
        read_numa_node(n, f);
    return 0;
}

/* Takes the card that was seen at an index, before anything is asked of it. False: another thread
 * has it, and *ret_card is its identity. */
static bool take_settled(struct nvml *n, unsigned index, struct nvml_facts **ret,
                         struct gpu_card *ret_card)
{
    HOLD(&n->holds.mu);
    *ret = settled_at(n, index);
    if (!*ret || lib_hold_try(&(*ret)->hold))
        return true;
    *ret_card = gpu_known_card(&(*ret)->shown.card);
    *ret = NULL;
    return false;
}

/* Replaces the card in hand (NULL: none) by the one that reported this UUID at the index.
 * *ret_busy: another thread has that. */
static int take_reported(struct nvml *n, unsigned index, const char *uuid, struct nvml_facts **f,
                         bool *ret_busy, struct gpu_card *ret_card, struct err *e)
{
    HOLD(&n->holds.mu);
    if (*f && strcmp((*f)->uuid, uuid) != 0) {
        give(n, *f);
        *f = NULL;
    }
    if (!*f) {
        struct nvml_facts *known = facts_of(n, uuid);
        *ret_busy = known && !lib_hold_try(&known->hold);
        *f = known ? known : place(n, uuid);
    }
    if (!*f)
        return err_set(e, ERR_TOO_LARGE, "more than %d cards", GPU_MAX_CARDS);
    settle_at(n, *f, index);
    if (!*ret_busy)
        return 0;
    *ret_card = gpu_known_card(&(*f)->shown.card);
    *f = NULL;
    return 0;
}

int nvml_facts_at(struct nvml *n, unsigned index, struct nvml_facts **ret, bool *ret_busy,
                  struct gpu_card *ret_card, struct err *e)
{
    nvml_device device = NULL;
    char uuid[NVML_UUID_BYTES] = "";
    struct nvml_facts *f = NULL;
    *ret_busy = !take_settled(n, index, &f, ret_card);
    if (*ret_busy)
        return 0;
    int rc = identify(n, index, &device, uuid, e);
    if (rc == 0)
        rc = take_reported(n, index, uuid, &f, ret_busy, ret_card, e);
    if (rc == 0 && f)
        rc = refresh(n, f, device, index, e);
    if (rc < 0)
        nvml_facts_give(n, TAKE(f));
    assert(!f || !*ret_busy);
    *ret = f;
    return rc;
}

/* --- the card of a verb --- */

int nvml_facts_take(struct nvml *n, const char *uuid, struct nvml_facts **ret, struct err *e)
{
    HOLD(&n->holds.mu);
    assert(!*ret);
    struct nvml_facts *f = facts_of(n, uuid);
    if (!f)
        return 0;
    TRY(lib_hold_take(&n->holds, &f->hold, uuid, /* limit_ms= */ 0, e));
    f->card.index = f->index;
    *ret = f;
    return 0;
}

/* Notes the card that reported this UUID at the index. It is in hand when it is the wanted one. */
static int note_reported(struct nvml *n, unsigned index, const char *uuid, const char *wanted,
                         struct nvml_facts **f, struct err *e)
{
    HOLD(&n->holds.mu);
    struct nvml_facts *known = facts_of(n, uuid);
    bool is_new = !known;
    if (is_new)
        known = place(n, uuid);
    if (!known)
        return err_set(e, ERR_TOO_LARGE, "more than %d cards", GPU_MAX_CARDS);
    settle_at(n, known, index);
    if (strcmp(uuid, wanted) != 0) {
        if (is_new)
            lib_hold_give(&n->holds, &known->hold);
        return 0;
    }
    if (!is_new && known != *f)
        TRY(lib_hold_take(&n->holds, &known->hold, uuid, /* limit_ms= */ 0, e));
    *f = known;
    return 0;
}

/* True for an index whose card another thread has in hand: it is another one than the wanted. */
static bool is_of_others(struct nvml *n, unsigned index, const struct nvml_facts *mine)
{
    HOLD(&n->holds.mu);
    const struct nvml_facts *f = settled_at(n, index);
    return f && f != mine && f->hold.by;
}

/* Finds the card, which is in hand when it was known before. *ret_found: it is at this index. */
static int look_at(struct nvml *n, unsigned index, const char *uuid, struct nvml_facts **f,
                   bool *ret_found, struct err *e)
{
    nvml_device device = NULL;
    char reported[NVML_UUID_BYTES] = "";
    *ret_found = false;
    if (is_of_others(n, index, *f))
        return 0;
    TRY(identify(n, index, &device, reported, e));
    TRY(note_reported(n, index, reported, uuid, f, e));
    if (strcmp(reported, uuid) != 0)
        return 0;
    assert(*f);
    TRY(refresh(n, *f, device, index, e));
    *ret_found = true;
    return 0;
}

/* A card that cannot be read does not hide the others. */
static int enumerate(struct nvml *n, const char *uuid, struct nvml_facts **f, struct err *e)
{
    unsigned count = 0;
    bool found = false;
    auto_err struct err first = {0};
    TRY(NVML_DO(n, e, count, &count));
    for (unsigned i = 0; i < count && i < GPU_MAX_CARDS && !found; i++)
        (void)look_at(n, i, uuid, f, &found, first.kind ? NULL : &first);
    if (found)
        return 0;
    if (first.kind)
        return err_move(e, &first);
    return err_set(e, ERR_NOT_FOUND, "no card %s on this machine", uuid);
}

int nvml_facts_get(struct nvml *n, const char *uuid, struct nvml_facts **ret, struct err *e)
{
    struct nvml_facts *f = NULL;
    TRY(nvml_facts_take(n, uuid, &f, e));
    int rc = f && f->learned == n->session ? 0 : enumerate(n, uuid, &f, e);
    if (rc < 0)
        nvml_facts_give(n, TAKE(f));
    *ret = f;
    return rc;
}
