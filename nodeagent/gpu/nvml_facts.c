/* SPDX-License-Identifier: Apache-2.0 */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/num.h"
#include "base/xalloc.h"

#include "nodeagent/gpu/nvml_session.h"
#include "nodeagent/gpu/pci_sysfs.h"
#include "nodeagent/gpu/sound.h"

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
    f->current = true;
    return 0;
}

static struct nvml_facts *facts_of(const struct nvml *n, const char *uuid)
{
    for (size_t i = 0; i < n->n_facts; i++)
        if (strcmp(n->facts[i]->card.uuid, uuid) == 0)
            return n->facts[i];
    return NULL;
}

const struct nvml_facts *nvml_facts_known(const struct nvml *n, const char *uuid)
{
    return facts_of(n, uuid);
}

/* An entry for a new card; replaces one of a card that is gone. NULL: none is free. */
static struct nvml_facts *place(struct nvml *n)
{
    if (n->n_facts < GPU_MAX_CARDS)
        return n->facts[n->n_facts++] = xcalloc(1, sizeof(struct nvml_facts));
    for (size_t i = 0; i < n->n_facts; i++)
        if (!n->facts[i]->current)
            return n->facts[i];
    return NULL;
}

/* Gives the card this index. A card that had it before has moved, or is gone. */
static void settle_at(struct nvml *n, struct nvml_facts *f, unsigned index)
{
    for (size_t i = 0; i < n->n_facts; i++)
        if (n->facts[i]->card.index == index)
            n->facts[i]->card.index = UINT_MAX;
    f->card.index = index;
}

int nvml_facts_at(struct nvml *n, unsigned index, struct nvml_facts **ret, struct err *e)
{
    nvml_device device = NULL;
    char uuid[NVML_UUID_BYTES] = "";
    TRY(NVML_DO(n, e, by_index, index, &device));
    TRY(NVML_DO(n, e, uuid, device, uuid, sizeof(uuid)));
    TRY(nvml_sound_uuid(index, uuid, e));
    struct nvml_facts *f = facts_of(n, uuid);
    if (!f)
        f = place(n);
    if (!f)
        return err_set(e, ERR_TOO_LARGE, "more than %d cards", GPU_MAX_CARDS);
    if (!f->current)
        *f = (struct nvml_facts){0};
    f->device = device;
    settle_at(n, f, index);
    memcpy(f->card.uuid, uuid, sizeof(uuid));
    if (!f->current)
        TRY(learn(n, f, e));
    else if (!f->numa_told)
        read_numa_node(n, f);
    *ret = f;
    return 0;
}

const struct nvml_facts *nvml_facts_last_at(const struct nvml *n, unsigned index)
{
    for (size_t i = 0; i < n->n_facts; i++)
        if (n->facts[i]->card.index == index)
            return n->facts[i];
    return NULL;
}

/* A card that cannot be read does not hide the others. */
static int enumerate(struct nvml *n, const char *uuid, struct nvml_facts **ret, struct err *e)
{
    unsigned count = 0;
    auto_err struct err first = {0};
    TRY(NVML_DO(n, e, count, &count));
    for (unsigned i = 0; i < count && i < GPU_MAX_CARDS; i++) {
        struct nvml_facts *f = NULL;
        int rc = nvml_facts_at(n, i, &f, first.kind ? NULL : &first);
        if (rc == 0 && strcmp(f->card.uuid, uuid) == 0) {
            *ret = f;
            return 0;
        }
    }
    if (first.kind)
        return err_move(e, &first);
    return err_set(e, ERR_NOT_FOUND, "no card %s on this machine", uuid);
}

int nvml_facts_get(struct nvml *n, const char *uuid, struct nvml_facts **ret, struct err *e)
{
    TRY(nvml_session_ensure(n, e));
    struct nvml_facts *f = facts_of(n, uuid);
    if (!f || !f->current)
        return enumerate(n, uuid, ret, e);
    *ret = f;
    return 0;
}
