/* SPDX-License-Identifier: Apache-2.0 */
/*
 * NVML: the calls that return one number about a device, as a table of expressions over the call.
 * What follows the card's work is in nvml_load.h.
 */
#include "sim/mig.h"
#include "sim/nvml_calls.h"
#include "sim/nvml_load.h"

/* NOLINTBEGIN(bugprone-macro-parentheses): a type cannot stand in parentheses here. */
#define NUMBER_OF(type, name, on, expression)                                                      \
    nvmlReturn_t name(nvmlDevice_t device, type *ret)                                              \
    {                                                                                              \
        struct call c = {.id = CALL_##name};                                                       \
        int rc = call_enter(&c, device, on);                                                       \
        if (rc == NVML_SUCCESS && ret == NULL)                                                     \
            rc = NVML_ERROR_INVALID_ARGUMENT;                                                      \
        if (rc == NVML_SUCCESS)                                                                    \
            *ret = (expression);                                                                   \
        return call_leave(&c, rc);                                                                 \
    }
/* NOLINTEND(bugprone-macro-parentheses) */
#define NUMBER(name, on, expression) NUMBER_OF(unsigned int, name, on, expression)

/* Mode on: as many as 1g instances fit; 0 for a card without MIG, or with it off. */
static unsigned int max_mig_devices(const struct call *c)
{
    return c->gpu->mig_current ? hw_model(c->gpu)->slices : 0;
}

NUMBER(nvmlDeviceGetMinorNumber, ON_WHOLE, c.gpu->minor)
NUMBER(nvmlDeviceGetArchitecture, ON_DEVICE, hw_model(c.gpu)->arch)
NUMBER(nvmlDeviceGetBrand, ON_DEVICE, hw_model(c.gpu)->brand)
NUMBER(nvmlDeviceGetVirtualizationMode, ON_DEVICE, 0)
NUMBER(nvmlDeviceGetPersistenceMode, ON_WHOLE, c.gpu->persistence)
NUMBER(nvmlDeviceGetComputeMode, ON_DEVICE, c.gpu->compute_mode)
NUMBER(nvmlDeviceGetDisplayMode, ON_WHOLE, 0)
NUMBER(nvmlDeviceGetMaxPcieLinkGeneration, ON_WHOLE, hw_model(c.gpu)->pcie_generation)
NUMBER(nvmlDeviceGetMaxPcieLinkWidth, ON_WHOLE, 16)
NUMBER(nvmlDeviceGetNumGpuCores, ON_WHOLE, hw_model(c.gpu)->sms *hw_model(c.gpu)->cores_per_sm)
NUMBER(nvmlDeviceIsMigDeviceHandle, ON_DEVICE, c.ci != NULL)
NUMBER(nvmlDeviceGetMaxMigDeviceCount, ON_GPU, max_mig_devices(&c))
NUMBER(nvmlDeviceGetPowerUsage, ON_WHOLE, load_power_mw(&c))
NUMBER(nvmlDeviceGetEnforcedPowerLimit, ON_WHOLE, hw_model(c.gpu)->power_limit_w * 1000)
NUMBER(nvmlDeviceGetPcieReplayCounter, ON_WHOLE, (unsigned int)c.gpu->pcie_replays)
NUMBER_OF(unsigned long long, nvmlDeviceGetCurrentClocksEventReasons, ON_WHOLE,
          load_clock_reasons(&c))

ALIAS(nvmlDeviceGetCurrentClocksThrottleReasons, nvmlDeviceGetCurrentClocksEventReasons,
      (nvmlDevice_t device, unsigned long long *reasons));
