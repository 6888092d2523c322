/* SPDX-License-Identifier: Apache-2.0 */
/* NVML: persistence, compute mode, drain and removal; and the reset behind nvidia-smi. */
#include "sim/machine.h"
#include "sim/nvml_calls.h"
#include "sim/nvml_session.h"

static int set_flag(unsigned int call, nvmlDevice_t device, unsigned int mode, unsigned int max,
                    size_t offset)
{
    struct call c = {.id = call};
    call_args(&c, "mode=%u", mode);
    int rc = call_enter(&c, device, ON_WHOLE);
    if (rc == NVML_SUCCESS && mode > max)
        rc = NVML_ERROR_INVALID_ARGUMENT;
    if (rc == NVML_SUCCESS)
        *(uint32_t *)(void *)((char *)c.gpu + offset) = mode;
    return call_leave(&c, rc);
}

nvmlReturn_t nvmlDeviceSetPersistenceMode(nvmlDevice_t device, unsigned int mode)
{
    return set_flag(CALL_nvmlDeviceSetPersistenceMode, device, mode, 1,
                    offsetof(struct hw_gpu, persistence));
}

nvmlReturn_t nvmlDeviceSetComputeMode(nvmlDevice_t device, unsigned int mode)
{
    return set_flag(CALL_nvmlDeviceSetComputeMode, device, mode, 3,
                    offsetof(struct hw_gpu, compute_mode));
}

static struct hw_gpu *at_address(const struct call *c, const nvmlPciInfo_t *pci)
{
    for (uint32_t i = 0; i < c->hw->gpu_count; i++) {
        struct hw_gpu *gpu = &c->hw->gpus[i];
        if (!gpu->removed && gpu->domain == pci->domain && gpu->bus == pci->bus &&
            gpu->device == pci->device)
            return gpu;
    }
    return NULL;
}

nvmlReturn_t nvmlDeviceModifyDrainState(nvmlPciInfo_t *pciInfo, unsigned int newState)
{
    struct call c = {.id = CALL_nvmlDeviceModifyDrainState};
    int rc = call_enter(&c, NULL, ON_NOTHING);
    if (rc == NVML_SUCCESS && (pciInfo == NULL || newState > 1))
        rc = NVML_ERROR_INVALID_ARGUMENT;
    if (rc == NVML_SUCCESS) {
        struct hw_gpu *gpu = at_address(&c, pciInfo);
        if (gpu != NULL)
            gpu->drained = newState;
        else
            rc = NVML_ERROR_NOT_FOUND;
    }
    return call_leave(&c, rc);
}

/* Only a drained, idle card can be removed; it is back after a reboot. */
static int remove_gpu(const struct call *c, const nvmlPciInfo_t *pci, unsigned int state)
{
    struct hw_gpu *gpu = at_address(c, pci);
    if (gpu == NULL)
        return NVML_ERROR_NOT_FOUND;
    uint32_t index = (uint32_t)(gpu - c->hw->gpus);
    if (!gpu->drained || hw_count_procs(c->hw, index, HW_NONE, HW_NONE) > 0)
        return NVML_ERROR_IN_USE;
    gpu->removed = state;
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceRemoveGpu_v2(nvmlPciInfo_t *pciInfo, unsigned int gpuState,
                                    unsigned int linkState)
{
    struct call c = {.id = CALL_nvmlDeviceRemoveGpu_v2};
    int rc = call_enter(&c, NULL, ON_NOTHING);
    if (rc == NVML_SUCCESS && (pciInfo == NULL || gpuState > 1 || linkState > 1))
        rc = NVML_ERROR_INVALID_ARGUMENT;
    if (rc == NVML_SUCCESS)
        rc = remove_gpu(&c, pciInfo, gpuState);
    return call_leave(&c, rc);
}

nvmlReturn_t nvmlDeviceRemoveGpu(nvmlPciInfo_t *pciInfo)
{
    return nvmlDeviceRemoveGpu_v2(pciInfo, 1, 0);
}

nvmlReturn_t cleaveSimDeviceReset(nvmlDevice_t device)
{
    struct call c = {.id = CALL_cleaveSimDeviceReset};
    int rc = call_enter(&c, device, ON_GPU);
    if (rc == NVML_SUCCESS && state_session_others(session_state()))
        rc = NVML_ERROR_IN_USE;
    if (rc == NVML_SUCCESS)
        rc = machine_reset(c.hw, c.gpu_index);
    return call_leave(&c, rc);
}
