/* SPDX-License-Identifier: Apache-2.0 */
/* MXSML: slices (sGPU) and the settings that they share. Contracts are MXSML's own. */
#include <stdio.h>
#include <string.h>

#include "sim/metax.h"
#include "sim/mxsml_session.h"

/* A number of the card, by its offset in struct mx_card. */
static unsigned int get_of_card(unsigned int call, unsigned int dev, size_t offset,
                                unsigned int *ret)
{
    struct mx_call c = {.id = call};
    int rc = mx_enter(&c, dev, MX_ON_CARD);
    if (rc == MXSML_SUCCESS && ret == NULL)
        rc = MXSML_INVALID_INPUT;
    if (rc == MXSML_SUCCESS)
        *ret = *(const uint32_t *)(const void *)((const char *)c.card + offset);
    return mx_leave(&c, rc);
}

typedef int set_card_fn(struct hw *hw, uint32_t metax, uint32_t value);

static unsigned int set_of_card(unsigned int call, unsigned int dev, unsigned int value,
                                set_card_fn *set)
{
    struct mx_call c = {.id = call};
    mx_args(&c, "%u", value);
    int rc = mx_enter(&c, dev, MX_ON_CARD);
    if (rc == MXSML_SUCCESS)
        rc = set(c.hw, c.metax, value);
    return mx_leave(&c, rc);
}

unsigned int mxSmlGetSgpuToggle(unsigned int dev, unsigned int *toggle)
{
    return get_of_card(CALL_mxSmlGetSgpuToggle, dev, offsetof(struct mx_card, toggle), toggle);
}

unsigned int mxSmlSetSgpuToggle(unsigned int dev, unsigned int toggle)
{
    return set_of_card(CALL_mxSmlSetSgpuToggle, dev, toggle, mx_set_toggle);
}

unsigned int mxSmlGetDeviceTimeslice(unsigned int dev, unsigned int *timeslice)
{
    return get_of_card(CALL_mxSmlGetDeviceTimeslice, dev, offsetof(struct mx_card, timeslice_ms),
                       timeslice);
}

unsigned int mxSmlSetDeviceTimeslice(unsigned int dev, unsigned int timeslice)
{
    return set_of_card(CALL_mxSmlSetDeviceTimeslice, dev, timeslice, mx_set_timeslice);
}

unsigned int mxSmlGetDeviceSchedClass(unsigned int dev, unsigned int *sched_class)
{
    return get_of_card(CALL_mxSmlGetDeviceSchedClass, dev, offsetof(struct mx_card, sched_class),
                       sched_class);
}

unsigned int mxSmlSetDeviceSchedClass(unsigned int dev, unsigned int sched_class)
{
    return set_of_card(CALL_mxSmlSetDeviceSchedClass, dev, sched_class, mx_set_class);
}

unsigned int mxSmlCreateSgpu(unsigned int dev, unsigned int vram, unsigned int compute,
                             unsigned int *id)
{
    uint32_t made = 0;
    struct mx_call c = {.id = CALL_mxSmlCreateSgpu};
    mx_args(&c, "vram=%u compute=%u", vram, compute);
    int rc = mx_enter(&c, dev, MX_ON_CARD);
    if (rc == MXSML_SUCCESS && id == NULL)
        rc = MXSML_INVALID_INPUT;
    if (rc == MXSML_SUCCESS)
        rc = mx_create(c.hw, c.metax, vram, compute, &made);
    if (rc == MXSML_SUCCESS) {
        mx_args(&c, "id=%u vram=%u compute=%u", made, vram, compute);
        *id = made;
    }
    return mx_leave(&c, rc);
}

unsigned int mxSmlRemoveSgpu(unsigned int dev, unsigned int id)
{
    struct mx_call c = {.id = CALL_mxSmlRemoveSgpu};
    mx_args(&c, "id=%u", id);
    int rc = mx_enter(&c, dev, MX_ON_CARD);
    if (rc == MXSML_SUCCESS)
        rc = mx_remove(c.hw, c.metax, id);
    return mx_leave(&c, rc);
}

unsigned int mxSmlGetSgpuCount(unsigned int dev)
{
    struct mx_call c = {.id = CALL_mxSmlGetSgpuCount};
    int rc = mx_enter(&c, dev, MX_ON_CARD);
    unsigned int count = rc == MXSML_SUCCESS ? mx_sums_of(c.card).count : 0;
    (void)mx_leave(&c, rc);
    return count;
}

/* Begins a call on a slice, *ret. Assumed: a missing slice is always OPERATION_NOT_SUPPORT, as it
 * is where a source documents it. */
static int enter_slice(struct mx_call *c, unsigned int dev, unsigned int id, struct mx_slice **ret)
{
    int rc = mx_enter(c, dev, MX_ON_CARD);
    *ret = rc == MXSML_SUCCESS ? mx_slice_of(c->card, id) : NULL;
    return rc == MXSML_SUCCESS && *ret == NULL ? MXSML_OPERATION_NOT_SUPPORT : rc;
}

/* Assumed: a slice's minor is unique on the machine; no device file is known to have it. */
unsigned int mxSmlGetSgpuInfo(unsigned int dev, unsigned int id, struct mxsml_sgpu_info *info)
{
    struct mx_slice *s = NULL;
    struct mx_call c = {.id = CALL_mxSmlGetSgpuInfo};
    int rc = enter_slice(&c, dev, id, &s);
    if (rc == MXSML_SUCCESS && info == NULL)
        rc = MXSML_INVALID_INPUT;
    if (rc == MXSML_SUCCESS) {
        *info = (struct mxsml_sgpu_info){.parent_device_id = dev,
                                         .sgpu_id = id,
                                         .vram_quota = s->vram_mib,
                                         .sw_queue_priority = s->sw_priority,
                                         .compute_quota = s->compute_pct,
                                         .minor = c.metax * MX_MAX_SLICES + id,
                                         .device_queue_priority = s->priority};
        (void)snprintf(info->uuid, sizeof(info->uuid), "%s", s->uuid);
    }
    return mx_leave(&c, rc);
}

/* A slice of an unavailable card is unavailable too. */
unsigned int mxSmlGetSgpuState(unsigned int dev, unsigned int id, int *state)
{
    struct mx_slice *s = NULL;
    struct mx_call c = {.id = CALL_mxSmlGetSgpuState};
    int rc = enter_slice(&c, dev, id, &s);
    if (rc == MXSML_SUCCESS && state == NULL)
        rc = MXSML_INVALID_INPUT;
    if (rc == MXSML_SUCCESS)
        *state = !s->unavailable && !c.card->unavailable;
    return mx_leave(&c, rc);
}

typedef int set_slice_fn(struct hw *hw, uint32_t metax, uint32_t id, uint32_t value);

static unsigned int set_of_slice(unsigned int call, unsigned int dev, unsigned int id,
                                 unsigned int value, set_slice_fn *set)
{
    struct mx_call c = {.id = call};
    mx_args(&c, "id=%u %u", id, value);
    int rc = mx_enter(&c, dev, MX_ON_CARD);
    if (rc == MXSML_SUCCESS)
        rc = set(c.hw, c.metax, id, value);
    return mx_leave(&c, rc);
}

unsigned int mxSmlSetSgpuVramQuota(unsigned int dev, unsigned int id, unsigned int vram)
{
    return set_of_slice(CALL_mxSmlSetSgpuVramQuota, dev, id, vram, mx_set_vram);
}

unsigned int mxSmlSetSgpuComputeQuota(unsigned int dev, unsigned int id, unsigned int compute)
{
    return set_of_slice(CALL_mxSmlSetSgpuComputeQuota, dev, id, compute, mx_set_compute);
}

unsigned int mxSmlSetSgpuDeviceQueuePriority(unsigned int dev, unsigned int id,
                                             unsigned int priority)
{
    return set_of_slice(CALL_mxSmlSetSgpuDeviceQueuePriority, dev, id, priority, mx_set_priority);
}

/* Assumed: slices can have all of the memory, which is the sum of the card's 512 steps. */
unsigned int mxSmlGetSgpuAvailableQuota(unsigned int dev, struct mxsml_available_quota *quota)
{
    struct mx_call c = {.id = CALL_mxSmlGetSgpuAvailableQuota};
    int rc = mx_enter(&c, dev, MX_ON_CARD);
    if (rc == MXSML_SUCCESS && quota == NULL)
        rc = MXSML_INVALID_INPUT;
    if (rc == MXSML_SUCCESS) {
        struct mx_sums sums = mx_sums_of(c.card);
        uint32_t total = mx_model_of(c.card)->vram_mib;
        quota->total_vram_quota = total;
        quota->vram_quota = total - sums.vram_mib;
        quota->compute_quota = sums.compute_pct < 100 ? 100 - sums.compute_pct : 0;
    }
    return mx_leave(&c, rc);
}

/* A slice with a process in it uses its whole quota. */
unsigned int mxSmlGetSgpuUsage(unsigned int dev, unsigned int id, int *usage)
{
    struct mx_slice *s = NULL;
    struct mx_call c = {.id = CALL_mxSmlGetSgpuUsage};
    int rc = enter_slice(&c, dev, id, &s);
    if (rc == MXSML_SUCCESS && usage == NULL)
        rc = MXSML_INVALID_INPUT;
    if (rc == MXSML_SUCCESS)
        *usage = mx_count_procs(c.hw, c.metax, id, HW_NONE) > 0 ? (int)s->compute_pct * 100 : 0;
    return mx_leave(&c, rc);
}

unsigned int mxSmlGetSgpuMemory(unsigned int dev, unsigned int id, struct mxsml_sgpu_memory *memory)
{
    struct mx_slice *s = NULL;
    struct mx_call c = {.id = CALL_mxSmlGetSgpuMemory};
    int rc = enter_slice(&c, dev, id, &s);
    if (rc == MXSML_SUCCESS && memory == NULL)
        rc = MXSML_INVALID_INPUT;
    if (rc == MXSML_SUCCESS) {
        memory->total = (long)s->vram_mib << 20;
        memory->used = (long)mx_used_mib(c.hw, c.metax, id, HW_NONE) << 20;
        memory->free = memory->total - memory->used;
    }
    return mx_leave(&c, rc);
}

unsigned int mxSmlGetSgpuAlias(unsigned int dev, unsigned int id, char *alias, unsigned int *size)
{
    struct mx_slice *s = NULL;
    struct mx_call c = {.id = CALL_mxSmlGetSgpuAlias};
    int rc = enter_slice(&c, dev, id, &s);
    if (rc == MXSML_SUCCESS)
        rc = mx_copy_text(alias, size, s->alias);
    return mx_leave(&c, rc);
}

/* The argument is not written, but not const in the ABI. */
/* NOLINTBEGIN(readability-non-const-parameter) */
unsigned int mxSmlSetSgpuAlias(unsigned int dev, unsigned int id, char *alias)
{
    struct mx_call c = {.id = CALL_mxSmlSetSgpuAlias};
    mx_args(&c, "id=%u alias=%.40s", id, alias != NULL ? alias : "");
    int rc = mx_enter(&c, dev, MX_ON_CARD);
    if (rc == MXSML_SUCCESS && alias == NULL)
        rc = MXSML_INVALID_INPUT;
    if (rc == MXSML_SUCCESS)
        rc = mx_set_alias(c.hw, c.metax, id, alias);
    return mx_leave(&c, rc);
}
/* NOLINTEND(readability-non-const-parameter) */

unsigned int mxSmlGetSgpuAnnotationsId(unsigned int dev, unsigned int id, char *text,
                                       unsigned int *size)
{
    struct mx_slice *s = NULL;
    struct mx_call c = {.id = CALL_mxSmlGetSgpuAnnotationsId};
    int rc = enter_slice(&c, dev, id, &s);
    if (rc == MXSML_SUCCESS)
        rc = mx_copy_text(text, size, s->annotations);
    return mx_leave(&c, rc);
}
