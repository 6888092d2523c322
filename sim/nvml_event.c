/* SPDX-License-Identifier: Apache-2.0 */
/* NVML: events. Contracts are NVML's own. */
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "sim/nvml_calls.h"
#include "sim/session.h"

/* Guarded by sets_mu. `seen` is the last event that was looked at; older ones do not come again. */
struct nvml_event_set {
    struct nvml_event_set *next;
    uint64_t seen;
    unsigned long long types[HW_MAX_GPUS];
};

static pthread_mutex_t sets_mu = PTHREAD_MUTEX_INITIALIZER;
static struct nvml_event_set *sets;

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

/* The set with that address, or NULL for one that is gone or never was. sets_mu is held. */
static struct nvml_event_set *find_set(const struct nvml_event_set *set)
{
    struct nvml_event_set *s = sets;
    while (s != NULL && s != set)
        s = s->next;
    return s;
}

nvmlReturn_t nvmlEventSetCreate(nvmlEventSet_t *set)
{
    struct call c = {.id = CALL_nvmlEventSetCreate};
    int rc = call_enter(&c, NULL, ON_NOTHING);
    if (rc == NVML_SUCCESS && set == NULL)
        rc = NVML_ERROR_INVALID_ARGUMENT;
    struct nvml_event_set *s = rc == NVML_SUCCESS ? calloc(1, sizeof(*s)) : NULL;
    if (rc == NVML_SUCCESS && s == NULL)
        rc = NVML_ERROR_MEMORY;
    if (s != NULL) {
        s->seen = c.hw->event_sequence;
        (void)pthread_mutex_lock(&sets_mu);
        s->next = sets;
        sets = s;
        (void)pthread_mutex_unlock(&sets_mu);
        *set = s;
    }
    return call_leave(&c, rc);
}

static int drop_set(const struct nvml_event_set *set)
{
    int rc = NVML_ERROR_INVALID_ARGUMENT;
    (void)pthread_mutex_lock(&sets_mu);
    for (struct nvml_event_set **at = &sets; *at != NULL && rc != NVML_SUCCESS;) {
        if (*at != set) {
            at = &(*at)->next;
            continue;
        }
        struct nvml_event_set *gone = *at;
        *at = gone->next;
        free(gone);
        rc = NVML_SUCCESS;
    }
    (void)pthread_mutex_unlock(&sets_mu);
    return rc;
}

nvmlReturn_t nvmlEventSetFree(nvmlEventSet_t set)
{
    struct call c = {.id = CALL_nvmlEventSetFree};
    int rc = call_enter(&c, NULL, ON_NOTHING);
    if (rc == NVML_SUCCESS)
        rc = drop_set(set);
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

static int add_types(const struct nvml_event_set *set, uint32_t gpu, unsigned long long types)
{
    (void)pthread_mutex_lock(&sets_mu);
    struct nvml_event_set *s = find_set(set);
    if (s != NULL)
        s->types[gpu] |= types;
    (void)pthread_mutex_unlock(&sets_mu);
    return s != NULL ? NVML_SUCCESS : NVML_ERROR_INVALID_ARGUMENT;
}

/* A type the card does not have is refused, and then none is registered. */
nvmlReturn_t nvmlDeviceRegisterEvents(nvmlDevice_t device, unsigned long long eventTypes,
                                      nvmlEventSet_t set)
{
    struct call c = {.id = CALL_nvmlDeviceRegisterEvents};
    int rc = call_enter(&c, device, ON_WHOLE);
    if (rc == NVML_SUCCESS && (eventTypes & ~supported_events(c.gpu)) != 0)
        rc = NVML_ERROR_NOT_SUPPORTED;
    if (rc == NVML_SUCCESS)
        rc = add_types(set, c.gpu_index, eventTypes);
    return call_leave(&c, rc);
}

static bool wants(const struct nvml_event_set *s, const struct hw_event *e)
{
    return e->gpu < HW_MAX_GPUS && (s->types[e->gpu] & e->type) != 0;
}

/* Events that the ring has already dropped are lost, as on hardware. */
static bool next_wanted(struct nvml_event_set *s, const struct hw *hw, struct hw_event *ret)
{
    if (s->seen + HW_MAX_EVENTS < hw->event_sequence)
        s->seen = hw->event_sequence - HW_MAX_EVENTS;
    while (s->seen < hw->event_sequence) {
        const struct hw_event *e = &hw->events[++s->seen % HW_MAX_EVENTS];
        if (!wants(s, e))
            continue;
        *ret = *e;
        return true;
    }
    return false;
}

static bool watches_lost_card(const struct nvml_event_set *s, const struct hw *hw)
{
    for (uint32_t i = 0; i < hw->gpu_count; i++) {
        if (s->types[i] != 0 && hw->gpus[i].lost)
            return true;
    }
    return false;
}

/* SUCCESS with an event, TIMEOUT for none yet, or what ends the wait. */
static int look(const struct nvml_event_set *set, struct hw_event *ret)
{
    const struct hw *hw = state_lock(session_state());
    (void)pthread_mutex_lock(&sets_mu);
    struct nvml_event_set *s = find_set(set);
    int rc = NVML_ERROR_TIMEOUT;
    if (s == NULL)
        rc = NVML_ERROR_INVALID_ARGUMENT;
    else if (next_wanted(s, hw, ret))
        rc = NVML_SUCCESS;
    else if (watches_lost_card(s, hw))
        rc = NVML_ERROR_GPU_IS_LOST;
    (void)pthread_mutex_unlock(&sets_mu);
    state_unlock(session_state());
    return rc;
}

static int64_t now_ms(void)
{
    struct timespec ts;
    (void)clock_gettime(CLOCK_MONOTONIC, &ts);
    return ts.tv_sec * INT64_C(1000) + ts.tv_nsec / 1000000;
}

static int wait_for(const struct nvml_event_set *set, unsigned int timeout_ms, struct hw_event *ret)
{
    int64_t until = now_ms() + timeout_ms;
    for (;;) {
        uint32_t bell = state_event_bell(session_state());
        int rc = look(set, ret);
        int64_t left = until - now_ms();
        if (rc != NVML_ERROR_TIMEOUT || left <= 0)
            return rc;
        state_wait_event(session_state(), bell, left);
    }
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
