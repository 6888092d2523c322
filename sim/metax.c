/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/metax.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "sim/mxsml.h"
#include "sim/nvml.h"

/* A new card's timeslice is documented nowhere; mx-smi's help sets this one. */
#define DEFAULT_TIMESLICE_MS 20
/* Assumed: a timeslice is above zero and at most a second. */
#define MAX_TIMESLICE_MS 1000

/* Assumed: the PCI device id (and a subsystem like it) and the board's power limit. The rest is the
 * vendor's data sheet. */
static const struct mx_model models[] = {
    {.key = "c500",
     .name = "MXC500",
     .pci_device_id = 0x40019999,
     .vram_mib = 65536,
     .power_limit_w = 350},
};

const struct mx_model *mx_model_at(uint32_t index)
{
    return index < sizeof(models) / sizeof(models[0]) ? &models[index] : NULL;
}

const struct mx_model *mx_model_find(const char *key)
{
    for (size_t i = 0; i < sizeof(models) / sizeof(models[0]); i++) {
        if (strcmp(models[i].key, key) == 0)
            return &models[i];
    }
    return NULL;
}

const struct mx_model *mx_model_of(const struct mx_card *card)
{
    const struct mx_model *m = mx_model_find(card->model);
    assert(m != NULL);
    return m;
}

struct mx_card *mx_add(struct hw *hw, const struct mx_model *model)
{
    assert(hw->mx_count < MX_MAX_CARDS);
    struct mx_card *card = &hw->mx_cards[hw->mx_count];
    *card = (struct mx_card){.bus = 0x09 + 0x08 * hw->mx_count,
                             .ecc_on = 1,
                             .timeslice_ms = DEFAULT_TIMESLICE_MS};
    (void)snprintf(card->model, sizeof(card->model), "%s", model->key);
    hw->mx_count++;
    return card;
}

/* Virtual functions follow the card's own function, eight functions for each PCI device. */
void mx_bdf(const struct mx_card *card, uint32_t vf, char *ret, size_t size)
{
    uint32_t function = vf == HW_NONE ? 0 : vf + 1;
    (void)snprintf(ret, size, "%04x:%02x:%02x.%x", card->domain, card->bus,
                   card->device + function / 8, function % 8);
}

/* Each card has a root port of its own. */
void mx_sys_path(const struct mx_card *card, uint32_t vf, char *ret, size_t size)
{
    char bdf[32];
    mx_bdf(card, vf, bdf, sizeof(bdf));
    (void)snprintf(ret, size, "/sys/devices/pci%04x:%02x/%04x:%02x:01.0/%s", card->domain,
                   card->bus - 1, card->domain, card->bus - 1, bdf);
}

uint32_t mx_gpu_id(const struct mx_card *card, uint32_t vf)
{
    return 0x9000 + card->bus * 16 + (vf == HW_NONE ? 0 : vf + 1);
}

/* card0 is the machine's own display, which cannot render, so the two numbers differ. */
uint32_t mx_dri_card(uint32_t metax, uint32_t vf)
{
    return 1 + (vf == HW_NONE ? metax : MX_MAX_CARDS + metax * MX_MAX_VFS + vf);
}

uint32_t mx_dri_render(uint32_t metax, uint32_t vf)
{
    return 127 + mx_dri_card(metax, vf);
}

struct mx_slice *mx_slice_of(struct mx_card *card, uint32_t id)
{
    return id < MX_MAX_SLICES && card->slices[id].there ? &card->slices[id] : NULL;
}

struct mx_sums mx_sums_of(const struct mx_card *card)
{
    struct mx_sums sums = {0};
    for (size_t i = 0; i < MX_MAX_SLICES; i++) {
        const struct mx_slice *s = &card->slices[i];
        if (!s->there)
            continue;
        sums.count++;
        sums.vram_mib += s->vram_mib;
        sums.compute_pct += s->compute_pct;
    }
    return sums;
}

static bool is_in_slice(const struct hw_proc *p, uint32_t metax, uint32_t slice, uint32_t vf)
{
    return p->pid != 0 && p->gpu == HW_METAX + metax && (slice == HW_NONE || p->slice == slice) &&
           (vf == HW_NONE || p->vf == vf);
}

uint32_t mx_used_mib(const struct hw *hw, uint32_t metax, uint32_t slice, uint32_t vf)
{
    uint32_t used = 0;
    for (size_t i = 0; i < hw->proc_reach; i++)
        used += is_in_slice(&hw->procs[i], metax, slice, vf) ? hw->procs[i].memory_mib : 0;
    return used;
}

uint32_t mx_count_procs(const struct hw *hw, uint32_t metax, uint32_t slice, uint32_t vf)
{
    uint32_t count = 0;
    for (size_t i = 0; i < hw->proc_reach; i++)
        count += is_in_slice(&hw->procs[i], metax, slice, vf);
    return count;
}

/* The most memory that the process may use, or 0 where it cannot run. */
static uint32_t room_of(const struct mx_card *card, const struct hw_proc *proc)
{
    uint32_t whole = mx_model_of(card)->vram_mib;
    if (card->vf_count > 0)
        return proc->vf < card->vf_count && proc->slice == HW_NONE ? whole / card->vf_count : 0;
    if (proc->vf != HW_NONE)
        return 0;
    if (proc->slice == HW_NONE)
        return whole;
    bool there = proc->slice < MX_MAX_SLICES && card->slices[proc->slice].there;
    return there ? card->slices[proc->slice].vram_mib : 0;
}

/*
 * With sGPU on, a process may still run on the whole card: MetaX's device plugin gives the card
 * itself to a pod that asks for all of the compute.
 */
int mx_place_exists(const struct hw *hw, const struct hw_proc *proc)
{
    uint32_t metax = proc->gpu - HW_METAX;
    if (metax >= hw->mx_count || proc->gi != HW_NONE || proc->ci != HW_NONE)
        return NVML_ERROR_NOT_FOUND;
    uint32_t room = room_of(&hw->mx_cards[metax], proc);
    if (room == 0)
        return NVML_ERROR_NOT_FOUND;
    uint32_t used = mx_used_mib(hw, metax, proc->slice, proc->vf);
    return used < room && proc->memory_mib <= room - used ? NVML_SUCCESS : NVML_ERROR_MEMORY;
}

/* Fails as a refused write to one of the driver's files. */
static int refuse_write(int why)
{
    errno = why;
    return MXSML_SYSFS_WRITE_ERROR;
}

static int busy(void)
{
    errno = EBUSY;
    return MXSML_BUSY_DEVICE;
}

/* Assumed: the driver of a card that is not available answers every write with EIO. */
static int writable(const struct mx_card *card)
{
    if (card->vf_count > 0)
        return MXSML_OPERATION_NOT_SUPPORT;
    return card->unavailable ? refuse_write(EIO) : MXSML_SUCCESS;
}

bool mx_is_idle(const struct hw *hw, uint32_t metax)
{
    return mx_count_procs(hw, metax, HW_NONE, HW_NONE) == 0 &&
           mx_sums_of(&hw->mx_cards[metax]).count == 0;
}

/* Assumed: setting the present value is always allowed. */
int mx_set_toggle(struct hw *hw, uint32_t metax, uint32_t toggle)
{
    struct mx_card *card = &hw->mx_cards[metax];
    int rc = writable(card);
    if (rc == MXSML_SUCCESS && toggle > 1)
        rc = MXSML_INVALID_INPUT;
    if (rc != MXSML_SUCCESS || card->toggle == toggle)
        return rc;
    if (!mx_is_idle(hw, metax))
        return busy();
    card->toggle = toggle;
    return MXSML_SUCCESS;
}

/* Assumed: slices can be read and changed only while sGPU is on. */
static int sliceable(const struct mx_card *card)
{
    int rc = writable(card);
    return rc == MXSML_SUCCESS && !card->toggle ? MXSML_OPERATION_NOT_SUPPORT : rc;
}

static bool vram_fits(const struct mx_card *card, uint32_t vram_mib, uint32_t others_mib)
{
    return vram_mib > 0 && vram_mib % MX_STEP_MIB == 0 &&
           vram_mib <= mx_model_of(card)->vram_mib - others_mib;
}

/* A best-effort card has no compute quotas, so there is no sum. */
static bool compute_fits(const struct mx_card *card, uint32_t compute_pct, uint32_t others_pct)
{
    return card->sched_class == MXSML_BEST_EFFORT || compute_pct + others_pct <= 100;
}

/* Assumed: a freed id is used again, the lowest one first; its minor with it. */
static uint32_t lowest_free(const struct mx_card *card)
{
    uint32_t id = 0;
    while (id < MX_MAX_SLICES && card->slices[id].there)
        id++;
    return id;
}

/* Assumed: a seventeenth slice is ENOSPC; sums beyond the card are EINVAL, as invalid quotas
 * are. */
int mx_create(struct hw *hw, uint32_t metax, uint32_t vram_mib, uint32_t compute_pct,
              uint32_t *ret_id)
{
    struct mx_card *card = &hw->mx_cards[metax];
    struct mx_sums sums = mx_sums_of(card);
    uint32_t id = lowest_free(card);
    int rc = sliceable(card);
    if (rc == MXSML_SUCCESS && compute_pct > 100)
        rc = MXSML_INVALID_INPUT;
    if (rc != MXSML_SUCCESS)
        return rc;
    if (id == MX_MAX_SLICES)
        return refuse_write(ENOSPC);
    if (!vram_fits(card, vram_mib, sums.vram_mib) ||
        !compute_fits(card, compute_pct, sums.compute_pct))
        return refuse_write(EINVAL);
    struct mx_slice *s = &card->slices[id];
    *s = (struct mx_slice){.there = 1,
                           .vram_mib = vram_mib,
                           .compute_pct = compute_pct,
                           .sw_priority = 1};
    hw_new_uuid(hw, "GPU-", s->uuid, sizeof(s->uuid));
    *ret_id = id;
    return MXSML_SUCCESS;
}

/* A live slice that may be changed. */
static int find_changeable(struct hw *hw, uint32_t metax, uint32_t id, struct mx_slice **ret)
{
    struct mx_card *card = &hw->mx_cards[metax];
    int rc = sliceable(card);
    *ret = mx_slice_of(card, id);
    return rc == MXSML_SUCCESS && *ret == NULL ? MXSML_OPERATION_NOT_SUPPORT : rc;
}

int mx_remove(struct hw *hw, uint32_t metax, uint32_t id)
{
    struct mx_slice *s = NULL;
    int rc = find_changeable(hw, metax, id, &s);
    if (rc != MXSML_SUCCESS)
        return rc;
    if (mx_count_procs(hw, metax, id, HW_NONE) > 0)
        return busy();
    *s = (struct mx_slice){0};
    return MXSML_SUCCESS;
}

/* Assumed: a slice cannot shrink below what its processes use. */
int mx_set_vram(struct hw *hw, uint32_t metax, uint32_t id, uint32_t vram_mib)
{
    struct mx_slice *s = NULL;
    const struct mx_card *card = &hw->mx_cards[metax];
    int rc = find_changeable(hw, metax, id, &s);
    if (rc != MXSML_SUCCESS)
        return rc;
    if (!vram_fits(card, vram_mib, mx_sums_of(card).vram_mib - s->vram_mib))
        return refuse_write(EINVAL);
    if (vram_mib < mx_used_mib(hw, metax, id, HW_NONE))
        return busy();
    s->vram_mib = vram_mib;
    return MXSML_SUCCESS;
}

int mx_set_compute(struct hw *hw, uint32_t metax, uint32_t id, uint32_t compute_pct)
{
    struct mx_slice *s = NULL;
    const struct mx_card *card = &hw->mx_cards[metax];
    int rc = find_changeable(hw, metax, id, &s);
    if (rc == MXSML_SUCCESS && compute_pct > 100)
        rc = MXSML_INVALID_INPUT;
    if (rc != MXSML_SUCCESS)
        return rc;
    if (!compute_fits(card, compute_pct, mx_sums_of(card).compute_pct - s->compute_pct))
        return refuse_write(EINVAL);
    s->compute_pct = compute_pct;
    return MXSML_SUCCESS;
}

int mx_set_priority(struct hw *hw, uint32_t metax, uint32_t id, uint32_t priority)
{
    struct mx_slice *s = NULL;
    int rc = find_changeable(hw, metax, id, &s);
    if (rc == MXSML_SUCCESS && priority > 1)
        rc = MXSML_INVALID_INPUT;
    if (rc == MXSML_SUCCESS)
        s->priority = priority;
    return rc;
}

int mx_set_alias(struct hw *hw, uint32_t metax, uint32_t id, const char *alias)
{
    struct mx_slice *s = NULL;
    int rc = find_changeable(hw, metax, id, &s);
    if (rc == MXSML_SUCCESS && strlen(alias) >= sizeof(s->alias))
        rc = MXSML_INVALID_INPUT;
    if (rc == MXSML_SUCCESS)
        (void)snprintf(s->alias, sizeof(s->alias), "%s", alias);
    return rc;
}

/* Assumed: BUSY_DEVICE with live slices, whether or not a process runs in them; no source documents
 * it. */
int mx_set_class(struct hw *hw, uint32_t metax, uint32_t sched_class)
{
    struct mx_card *card = &hw->mx_cards[metax];
    int rc = sliceable(card);
    if (rc == MXSML_SUCCESS && sched_class > MXSML_BURST_SHARE)
        rc = MXSML_INVALID_INPUT;
    if (rc != MXSML_SUCCESS || card->sched_class == sched_class)
        return rc;
    if (mx_sums_of(card).count > 0)
        return busy();
    card->sched_class = sched_class;
    return MXSML_SUCCESS;
}

/* Assumed: the timeslice may change under live slices, because it moves no memory. */
int mx_set_timeslice(struct hw *hw, uint32_t metax, uint32_t timeslice_ms)
{
    struct mx_card *card = &hw->mx_cards[metax];
    int rc = sliceable(card);
    if (rc != MXSML_SUCCESS)
        return rc;
    if (timeslice_ms == 0 || timeslice_ms > MAX_TIMESLICE_MS)
        return refuse_write(EINVAL);
    card->timeslice_ms = timeslice_ms;
    return MXSML_SUCCESS;
}

/* Assumed: a reset clears the counters and makes an unavailable card available; settings stay. */
static void finish_reset(struct mx_card *card)
{
    card->ecc = (struct mx_ecc){0};
    card->unavailable = 0;
    card->reason_code = 0;
    memset(card->reason, 0, sizeof(card->reason));
}

static bool joined(const struct hw *hw, uint32_t a, uint32_t b)
{
    return a == b || (hw->mx_cards[a].group != 0 && hw->mx_cards[a].group == hw->mx_cards[b].group);
}

int mx_reset(struct hw *hw, uint32_t metax)
{
    for (uint32_t i = 0; i < hw->mx_count; i++) {
        if (joined(hw, metax, i) && !mx_is_idle(hw, i))
            return busy();
    }
    for (uint32_t i = 0; i < hw->mx_count; i++) {
        if (joined(hw, metax, i))
            finish_reset(&hw->mx_cards[i]);
    }
    return MXSML_SUCCESS;
}

int mx_flr(struct hw *hw, uint32_t metax, uint32_t vf)
{
    bool idle = vf == HW_NONE ? mx_is_idle(hw, metax) : mx_count_procs(hw, metax, HW_NONE, vf) == 0;
    if (!idle)
        return busy();
    if (vf == HW_NONE)
        finish_reset(&hw->mx_cards[metax]);
    return MXSML_SUCCESS;
}

static bool is_vf_count(uint32_t count)
{
    return count <= MX_MAX_VFS && (count & (count - 1)) == 0;
}

/* sGPU works only on a card without virtual functions, so it has to be off. */
int mx_set_vfs(struct hw *hw, uint32_t metax, uint32_t count)
{
    struct mx_card *card = &hw->mx_cards[metax];
    if (!is_vf_count(count))
        return MXSML_INVALID_INPUT;
    if (card->toggle)
        return MXSML_OPERATION_NOT_SUPPORT;
    if (!mx_is_idle(hw, metax))
        return busy();
    memset(card->vf_uuids, 0, sizeof(card->vf_uuids));
    for (uint32_t i = 0; i < count; i++)
        hw_new_uuid(hw, "GPU-", card->vf_uuids[i], sizeof(card->vf_uuids[i]));
    card->vf_count = count;
    return MXSML_SUCCESS;
}

void mx_reboot(struct hw *hw)
{
    for (uint32_t i = 0; i < hw->mx_count; i++) {
        struct mx_card *card = &hw->mx_cards[i];
        finish_reset(card);
        memset(card->slices, 0, sizeof(card->slices));
        memset(card->vf_uuids, 0, sizeof(card->vf_uuids));
        card->toggle = card->vf_count = card->limited = 0;
        card->sched_class = MXSML_BEST_EFFORT;
        card->timeslice_ms = DEFAULT_TIMESLICE_MS;
    }
}
