/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/machine.h"

#include <string.h>

#include "sim/cuda_timeslice.h"
#include "sim/metax.h"
#include "sim/mig.h"
#include "sim/nvml.h"

/* On a card with MIG on, work runs only inside compute instances. */
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

int machine_attach(struct hw *hw, const struct hw_proc *proc)
{
    int rc = place_exists(hw, proc);
    if (rc != NVML_SUCCESS)
        return rc;
    struct hw_proc *entry = hw_free_proc(hw);
    if (entry == NULL)
        return NVML_ERROR_INSUFFICIENT_RESOURCES;
    *entry = *proc;
    if (proc->gpu < HW_METAX)
        hw_count_work(hw, proc->gpu, timeslices_now());
    return NVML_SUCCESS;
}

unsigned int machine_detach(struct hw *hw, uint32_t pid, uint32_t gpu)
{
    unsigned int gone = 0;
    for (size_t i = 0; i < hw->proc_reach; i++) {
        struct hw_proc *p = &hw->procs[i];
        if (p->pid != pid || p->cuda || (gpu != HW_NONE && p->gpu != gpu))
            continue;
        *p = (struct hw_proc){0};
        gone++;
    }
    for (uint32_t i = 0; i < hw->gpu_count; i++)
        hw_count_work(hw, i, timeslices_now());
    return gone;
}

static void finish_reset(struct hw_gpu *gpu)
{
    memset(gpu->gis, 0, sizeof(gpu->gis));
    gpu->mig_current = gpu->mig_pending;
    gpu->ecc_current = gpu->ecc_pending;
    gpu->lost = 0;
    gpu->recovery_action = 0;
    gpu->last_xid = 0;
    gpu->remap.pending = 0;
    gpu->link_errors = (struct hw_link_errors){0};
    gpu->ecc.corrected_volatile = 0;
    gpu->ecc.uncorrected_volatile = 0;
    gpu->ecc.sram_corrected = 0;
    gpu->ecc.sram_uncorrected = 0;
}

int machine_reset(struct hw *hw, uint32_t gpu)
{
    if (hw_count_procs(hw, gpu, HW_NONE, HW_NONE) > 0)
        return NVML_ERROR_IN_USE;
    finish_reset(&hw->gpus[gpu]);
    return NVML_SUCCESS;
}

void machine_reboot(struct hw *hw)
{
    memset(hw->procs, 0, hw->proc_reach * sizeof(hw->procs[0]));
    memset(hw->limits, 0, sizeof(hw->limits));
    for (uint32_t i = 0; i < hw->gpu_count; i++) {
        struct hw_gpu *gpu = &hw->gpus[i];
        if (hw_model(gpu)->mig == MIG_AT_ONCE)
            gpu->mig_pending = 0;
        finish_reset(gpu);
        hw_count_work(hw, i, timeslices_now());
        gpu->removed = 0;
        gpu->drained = 0;
        gpu->persistence = 0;
        gpu->compute_mode = 0;
    }
    mx_reboot(hw);
    hw->boot++;
    hw_new_uuid(hw, "", hw->boot_id, sizeof(hw->boot_id));
}
