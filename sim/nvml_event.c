/* SPDX-License-Identifier: Apache-2.0 */
/* NVML: events. Contracts are NVML's own. */
#include <string.h>

#include "sim/event_set.h"
#include "sim/nvml_calls.h"
#include "sim/nvml_session.h"

#define EVENTS_OF_ALL                                                                              \
    (EVENT_PSTATE | EVENT_XID | EVENT_CLOCK | EVENT_GPU_UNAVAILABLE | EVENT_RECOVERY_ACTION)
#define EVENTS_OF_ECC                                                                              \
    (EVENT_SINGLE_BIT_ECC | EVENT_DOUBLE_BIT_ECC | EVENT_SINGLE_BIT_ECC_STORM |                    \
     EVENT_DRAM_RETIREMENT | EVENT_DRAM_RETIREMENT_FAILURE | EVENT_POISON_NONFATAL |               \
     EVENT_POISON_FATAL)

static unsigned long long supported_events(const struct hw_gpu *gpu)
{
    unsigned long long types = EVENTS_OF_ALL;
    if (gpu->ecc_current)
        types |= EVENTS_OF_ECC;
    if (hw_model(gpu)->mig != MIG_NONE)
        types |= EVENT_MIG_CONFIG_CHANGE;
    return types;
}

/* A set behind NVML's handle type. */
static struct event_set *set_of(nvmlEventSet_t set)
{
    return (struct event_set *)(void *)set;
}

nvmlReturn_t nvmlEventSetCreate(nvmlEventSet_t *set)
{
    struct call c = {.id = CALL_nvmlEventSetCreate};
    int rc = call_enter(&c, NULL, ON_NOTHING);
    if (rc == NVML_SUCCESS && set == NULL)
        rc = NVML_ERROR_INVALID_ARGUMENT;
    struct event_set *s = rc == NVML_SUCCESS ? event_set_new(c.hw->event_sequence) : NULL;
    if (rc == NVML_SUCCESS && s == NULL)
        rc = NVML_ERROR_MEMORY;
    if (s != NULL)
        *set = (nvmlEventSet_t)(void *)s;
    return call_leave(&c, rc);
}

nvmlReturn_t nvmlEventSetFree(nvmlEventSet_t set)
{
    struct call c = {.id = CALL_nvmlEventSetFree};
    int rc = call_enter(&c, NULL, ON_NOTHING);
    if (rc == NVML_SUCCESS && !event_set_drop(set_of(set)))
        rc = NVML_ERROR_INVALID_ARGUMENT;
    return call_leave(&c, rc);
}

nvmlReturn_t nvmlDeviceGetSupportedEventTypes(nvmlDevice_t device, unsigned long long *eventTypes)
{
    struct call c = {.id = CALL_nvmlDeviceGetSupportedEventTypes};
    int rc = call_enter(&c, device, ON_WHOLE);
    if (rc == NVML_SUCCESS && eventTypes == NULL)
        rc = NVML_ERROR_INVALID_ARGUMENT;
    if (rc == NVML_SUCCESS)
        *eventTypes = supported_events(c.gpu);
    return call_leave(&c, rc);
}

/* A type the card does not have is refused, and then none is registered. */
nvmlReturn_t nvmlDeviceRegisterEvents(nvmlDevice_t device, unsigned long long eventTypes,
                                      nvmlEventSet_t set)
{
    struct call c = {.id = CALL_nvmlDeviceRegisterEvents};
    int rc = call_enter(&c, device, ON_WHOLE);
    if (rc == NVML_SUCCESS && (eventTypes & ~supported_events(c.gpu)) != 0)
        rc = NVML_ERROR_NOT_SUPPORTED;
    if (rc == NVML_SUCCESS && !event_set_register(set_of(set), c.gpu_index, eventTypes))
        rc = NVML_ERROR_INVALID_ARGUMENT;
    return call_leave(&c, rc);
}

static bool watches_lost_card(const struct event_set *set, const struct hw *hw)
{
    for (uint32_t i = 0; i < hw->gpu_count; i++) {
        if (event_set_has(set, i) && hw->gpus[i].lost)
            return true;
    }
    return false;
}

static int wait_for(nvmlEventSet_t set, unsigned int timeout_ms, struct hw_event *ret)
{
    switch (event_set_wait(session_state(), set_of(set), timeout_ms, watches_lost_card, ret)) {
    case EVENT_NONE:
        return NVML_ERROR_TIMEOUT;
    case EVENT_FOUND:
        return NVML_SUCCESS;
    case EVENT_ENDED:
        return NVML_ERROR_GPU_IS_LOST;
    case EVENT_NO_SET:
        return NVML_ERROR_INVALID_ARGUMENT;
    }
    return NVML_ERROR_UNKNOWN;
}

nvmlReturn_t nvmlEventSetWait_v2(nvmlEventSet_t set, nvmlEventData_t *data, unsigned int timeoutms)
{
    struct call c = {.id = CALL_nvmlEventSetWait_v2, .waits = true};
    struct hw_event event = {0};
    int rc = call_enter(&c, NULL, ON_NOTHING);
    if (rc == NVML_SUCCESS && data == NULL)
        rc = NVML_ERROR_INVALID_ARGUMENT;
    if (rc == NVML_SUCCESS)
        rc = wait_for(set, timeoutms, &event);
    if (rc == NVML_SUCCESS)
        *data = (nvmlEventData_t){.device = handle_of_gpu(event.gpu),
                                  .eventType = event.type,
                                  .eventData = event.data,
                                  .gpuInstanceId = event.gi,
                                  .computeInstanceId = event.ci};
    return call_leave(&c, rc);
}

nvmlReturn_t nvmlEventSetWait(nvmlEventSet_t set, nvmlEventData_v1_t *data, unsigned int timeoutms)
{
    nvmlEventData_t full = {0};
    int rc = nvmlEventSetWait_v2(set, data != NULL ? &full : NULL, timeoutms);
    if (rc == NVML_SUCCESS && data != NULL)
        memcpy(data, &full, sizeof(*data));
    return rc;
}
