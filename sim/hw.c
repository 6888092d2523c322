/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/hw.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "sim/metax.h"
#include "sim/mig.h"
#include "sim/nvml.h"

const struct model *hw_model(const struct hw_gpu *gpu)
{
    const struct model *m = model_find(gpu->model);
    assert(m != NULL);
    return m;
}

bool hw_has_nvidia(const struct hw *hw)
{
    return hw->gpu_count > 0 || hw->mx_count == 0;
}

uint64_t hw_next_serial(struct hw *hw)
{
    return ++hw->serials;
}

/* splitmix64: the state is part of the hardware, so a seeded fleet repeats itself. */
static uint64_t next_random(struct hw *hw)
{
    uint64_t z = hw->random += 0x9E3779B97F4A7C15U;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9U;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBU;
    return z ^ (z >> 31);
}

void hw_new_uuid(struct hw *hw, const char *prefix, char *ret_uuid, size_t size)
{
    uint64_t a = next_random(hw);
    uint64_t b = next_random(hw);
    (void)snprintf(ret_uuid, size, "%s%08x-%04x-4%03x-8%03x-%012llx", prefix, (unsigned)(a >> 32),
                   (unsigned)(a >> 16 & 0xFFFF), (unsigned)(a & 0xFFF), (unsigned)(b >> 52),
                   (unsigned long long)(b & 0xFFFFFFFFFFFF));
}

void hw_emit(struct hw *hw, uint64_t type, uint64_t data, uint32_t gpu, uint32_t gi, uint32_t ci)
{
    uint64_t sequence = ++hw->event_sequence;
    hw->events[sequence % HW_MAX_EVENTS] = (struct hw_event){.sequence = sequence,
                                                             .type = type,
                                                             .data = data,
                                                             .gpu = gpu,
                                                             .gi = gi,
                                                             .ci = ci};
}

void hw_emit_text(struct hw *hw, uint64_t type, const char *text, uint32_t metax)
{
    hw_emit(hw, type, 0, HW_METAX + metax, HW_NONE, HW_NONE);
    struct hw_event *e = &hw->events[hw->event_sequence % HW_MAX_EVENTS];
    (void)snprintf(e->text, sizeof(e->text), "%s", text);
}

static bool lies_in(const struct hw_proc *p, uint32_t gpu, uint32_t gi, uint32_t ci)
{
    return p->pid != 0 && p->gpu == gpu && (gi == HW_NONE || p->gi == gi) &&
           (ci == HW_NONE || p->ci == ci);
}

unsigned int hw_count_procs(const struct hw *hw, uint32_t gpu, uint32_t gi, uint32_t ci)
{
    unsigned int count = 0;
    for (size_t i = 0; i < HW_MAX_PROCS; i++)
        count += lies_in(&hw->procs[i], gpu, gi, ci);
    return count;
}

/* On a card with MIG on, work runs inside compute instances and nowhere else. */
static int place_exists(const struct hw *hw, const struct hw_proc *proc)
{
    if (proc->gpu >= HW_METAX)
        return mx_place_exists(hw, proc);
    if (proc->gpu >= hw->gpu_count)
        return NVML_ERROR_NOT_FOUND;
    const struct hw_gpu *gpu = &hw->gpus[proc->gpu];
    if (proc->slice != HW_NONE || proc->vf != HW_NONE)
        return NVML_ERROR_NOT_FOUND;
    if (!gpu->mig_current)
        return proc->gi == HW_NONE && proc->ci == HW_NONE ? NVML_SUCCESS : NVML_ERROR_NOT_FOUND;
    const struct hw_gi *gi = mig_find_gi(gpu, proc->gi);
    return gi != NULL && mig_find_ci(gi, proc->ci) != NULL ? NVML_SUCCESS : NVML_ERROR_NOT_FOUND;
}

int hw_attach(struct hw *hw, const struct hw_proc *proc)
{
    int rc = place_exists(hw, proc);
    if (rc != NVML_SUCCESS)
        return rc;
    for (size_t i = 0; i < HW_MAX_PROCS; i++) {
        if (hw->procs[i].pid != 0)
            continue;
        hw->procs[i] = *proc;
        return NVML_SUCCESS;
    }
    return NVML_ERROR_INSUFFICIENT_RESOURCES;
}

unsigned int hw_detach(struct hw *hw, uint32_t pid, uint32_t gpu)
{
    unsigned int gone = 0;
    for (size_t i = 0; i < HW_MAX_PROCS; i++) {
        struct hw_proc *p = &hw->procs[i];
        if (p->pid != pid || (gpu != HW_NONE && p->gpu != gpu))
            continue;
        *p = (struct hw_proc){0};
        gone++;
    }
    return gone;
}

static void settle(struct hw_gpu *gpu)
{
    memset(gpu->gis, 0, sizeof(gpu->gis));
    gpu->mig_current = gpu->mig_pending;
    gpu->ecc_current = gpu->ecc_pending;
    gpu->lost = 0;
    gpu->recovery_action = 0;
    gpu->last_xid = 0;
    gpu->remap.pending = 0;
    gpu->ecc.corrected_volatile = 0;
    gpu->ecc.uncorrected_volatile = 0;
    gpu->ecc.sram_corrected = 0;
    gpu->ecc.sram_uncorrected = 0;
}

int hw_reset(struct hw *hw, uint32_t gpu)
{
    if (hw_count_procs(hw, gpu, HW_NONE, HW_NONE) > 0)
        return NVML_ERROR_IN_USE;
    settle(&hw->gpus[gpu]);
    return NVML_SUCCESS;
}

void hw_reboot(struct hw *hw)
{
    memset(hw->procs, 0, sizeof(hw->procs));
    for (uint32_t i = 0; i < hw->gpu_count; i++) {
        struct hw_gpu *gpu = &hw->gpus[i];
        if (hw_model(gpu)->mig == MIG_AT_ONCE)
            gpu->mig_pending = 0;
        settle(gpu);
        gpu->removed = 0;
        gpu->drained = 0;
        gpu->persistence = 0;
        gpu->compute_mode = 0;
    }
    mx_reboot(hw);
    hw->boot++;
    hw_new_uuid(hw, "", hw->boot_id, sizeof(hw->boot_id));
}
