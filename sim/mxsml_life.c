/* SPDX-License-Identifier: Apache-2.0 */
/* MXSML: life and inventory. Each function has the contract of MXSML's function of that name. */
#include <stdio.h>
#include <string.h>

#include "sim/metax.h"
#include "sim/mxsml_code.h"
#include "sim/mxsml_session.h"

unsigned int mxSmlInit(void)
{
    return mx_init(CALL_mxSmlInit, /* anew= */ false);
}

unsigned int mxSmlInitWithFlags(unsigned int flags)
{
    if (flags > 1)
        return MXSML_INVALID_INPUT;
    return mx_init(CALL_mxSmlInitWithFlags, flags == 1);
}

const char *mxSmlGetErrorString(unsigned int result)
{
    return mxsml_code_text((int)result);
}

/* Both counts are 0 on any error, because they have no other way to report it. */
static unsigned int count_devices(unsigned int call, bool pfs)
{
    unsigned int count = 0;
    struct mx_call c = {.id = call};
    int rc = mx_enter(&c, 0, MX_ON_NOTHING);
    if (rc == MXSML_SUCCESS) {
        struct mx_inventory inv = mx_inventory();
        count = pfs ? inv.pf_count : inv.device_count;
    }
    (void)mx_leave(&c, rc);
    return count;
}

unsigned int mxSmlGetDeviceCount(void)
{
    return count_devices(CALL_mxSmlGetDeviceCount, /* pfs= */ false);
}

unsigned int mxSmlGetPfDeviceCount(void)
{
    return count_devices(CALL_mxSmlGetPfDeviceCount, /* pfs= */ true);
}

/* Assumed: a native card has none; a virtual function has none and is no physical device. */
unsigned int mxSmlGetVirtualDevicesByPhysicalId(unsigned int dev, struct mxsml_device_ids *ids)
{
    struct mx_call c = {.id = CALL_mxSmlGetVirtualDevicesByPhysicalId};
    int rc = mx_enter(&c, dev, MX_ON_DEVICE);
    if (rc == MXSML_SUCCESS && c.vf != HW_NONE)
        rc = MXSML_INVALID_DEVICE_ID;
    if (rc == MXSML_SUCCESS && ids == NULL)
        rc = MXSML_INVALID_INPUT;
    if (rc == MXSML_SUCCESS) {
        struct mx_inventory inv = mx_inventory();
        *ids = (struct mxsml_device_ids){0};
        for (uint32_t i = 0; i < inv.device_count; i++) {
            if (inv.devices[i].metax == c.metax && inv.devices[i].vf != HW_NONE)
                ids->device_id[ids->number++] = (int)i;
        }
    }
    return mx_leave(&c, rc);
}

static unsigned int mode_of(const struct mx_call *c)
{
    if (c->vf != HW_NONE)
        return MXSML_MODE_VF;
    return c->card->vf_count > 0 ? MXSML_MODE_PF : MXSML_MODE_NATIVE;
}

/*
 * Assumed: gpuId and nodeId are the kernel driver's numbers of the function, as in related
 * interfaces: an opaque number that is not 0, and a position in the topology after the NUMA nodes.
 */
unsigned int mxSmlGetDeviceInfo(unsigned int dev, struct mxsml_device_info *info)
{
    struct mx_call c = {.id = CALL_mxSmlGetDeviceInfo};
    int rc = mx_enter(&c, dev, MX_ON_DEVICE);
    if (rc == MXSML_SUCCESS && info == NULL)
        rc = MXSML_INVALID_INPUT;
    if (rc == MXSML_SUCCESS) {
        *info = (struct mxsml_device_info){.device_id = dev,
                                           .gpu_id = mx_gpu_id(c.card, c.vf),
                                           .node_id = c.hw->numa_nodes + c.metax,
                                           .brand = MXSML_BRAND_C,
                                           .mode = mode_of(&c)};
        const char *uuid = c.vf != HW_NONE ? c.card->vf_uuids[c.vf] : c.card->uuid;
        mx_bdf(c.card, c.vf, info->bdf_id, sizeof(info->bdf_id));
        (void)snprintf(info->uuid, sizeof(info->uuid), "%s", uuid);
        (void)snprintf(info->device_name, sizeof(info->device_name), "%s",
                       mx_model_of(c.card)->name);
    }
    return mx_leave(&c, rc);
}

unsigned int mxSmlGetAllLimitedDevices(struct mxsml_device_ids *ids)
{
    struct mx_call c = {.id = CALL_mxSmlGetAllLimitedDevices};
    int rc = mx_enter(&c, 0, MX_ON_NOTHING);
    if (rc == MXSML_SUCCESS && ids == NULL)
        rc = MXSML_INVALID_INPUT;
    if (rc == MXSML_SUCCESS) {
        struct mx_inventory inv = mx_inventory();
        *ids = (struct mxsml_device_ids){.number = (int)inv.limited_count};
        for (uint32_t i = 0; i < inv.limited_count; i++)
            ids->device_id[i] = (int)mx_index_of(&inv, inv.limited[i].metax);
    }
    return mx_leave(&c, rc);
}

/* Only its index and bus address are filled. */
unsigned int mxSmlGetLimitedDeviceInfo(unsigned int dev, struct mxsml_device_info *info)
{
    uint32_t metax = 0;
    struct mx_call c = {.id = CALL_mxSmlGetLimitedDeviceInfo};
    int rc = mx_enter(&c, 0, MX_ON_NOTHING);
    struct mx_inventory inv = mx_inventory();
    if (rc == MXSML_SUCCESS && !mx_limited_at(&inv, dev, &metax))
        rc = MXSML_INVALID_DEVICE_ID;
    if (rc == MXSML_SUCCESS && info == NULL)
        rc = MXSML_INVALID_INPUT;
    if (rc == MXSML_SUCCESS) {
        *info = (struct mxsml_device_info){.device_id = dev};
        mx_bdf(&c.hw->mx_cards[metax], HW_NONE, info->bdf_id, sizeof(info->bdf_id));
    }
    return mx_leave(&c, rc);
}

/*
 * A virtual function has its share. All of the memory is visible to the host, and some of the
 * host's to the card. Assumed: an idle card reports a little memory in use, as cards do.
 */
unsigned int mxSmlGetMemoryInfo(unsigned int dev, struct mxsml_memory_info *memory)
{
    static const long own_kb = 842L * 1024;
    static const long xtt_kb = 256L * 1024 * 1024;
    struct mx_call c = {.id = CALL_mxSmlGetMemoryInfo};
    int rc = mx_enter(&c, dev, MX_ON_DEVICE);
    if (rc == MXSML_SUCCESS && memory == NULL)
        rc = MXSML_INVALID_INPUT;
    if (rc == MXSML_SUCCESS) {
        long share = c.vf != HW_NONE ? (long)c.card->vf_count : 1;
        long total = mx_model_of(c.card)->vram_mib * 1024L / share;
        long use = own_kb / share + mx_used_mib(c.hw, c.metax, HW_NONE, c.vf) * 1024L;
        use = use < total ? use : total;
        *memory = (struct mxsml_memory_info){.vis_vram_total = total,
                                             .vis_vram_use = use,
                                             .vram_total = total,
                                             .vram_use = use,
                                             .xtt_total = xtt_kb};
    }
    return mx_leave(&c, rc);
}

/* Assumed: the number of firmware units, and their versions. */
static const char *version_of(const struct hw *hw, unsigned int unit)
{
    static const char *const firmware[] = {"1.27.5.0", "1.27.5.0", "2.1.9.0"};
    if (unit == MXSML_VERSION_DRIVER)
        return hw->mx_driver_version;
    if (unit == MXSML_VERSION_BIOS)
        return "1.27.5.0";
    return unit - 2 < sizeof(firmware) / sizeof(firmware[0]) ? firmware[unit - 2] : NULL;
}

unsigned int mxSmlGetDeviceVersion(unsigned int dev, unsigned int unit, char *version,
                                   unsigned int *size)
{
    struct mx_call c = {.id = CALL_mxSmlGetDeviceVersion};
    int rc = mx_enter(&c, dev, MX_ON_DEVICE);
    const char *text = rc == MXSML_SUCCESS ? version_of(c.hw, unit) : NULL;
    if (rc == MXSML_SUCCESS)
        rc = text != NULL ? mx_copy_text(version, size, text) : MXSML_INVALID_INPUT;
    return mx_leave(&c, rc);
}

unsigned int mxSmlGetMacaVersion(char *version, unsigned int *size)
{
    struct mx_call c = {.id = CALL_mxSmlGetMacaVersion};
    int rc = mx_enter(&c, 0, MX_ON_NOTHING);
    if (rc == MXSML_SUCCESS)
        rc = mx_copy_text(version, size, c.hw->maca_version);
    return mx_leave(&c, rc);
}

unsigned int mxSmlGetSriovState(unsigned int dev, unsigned int *state)
{
    struct mx_call c = {.id = CALL_mxSmlGetSriovState};
    int rc = mx_enter(&c, dev, MX_ON_DEVICE);
    if (rc == MXSML_SUCCESS && state == NULL)
        rc = MXSML_INVALID_INPUT;
    if (rc == MXSML_SUCCESS)
        *state = c.vf == HW_NONE;
    return mx_leave(&c, rc);
}

unsigned int mxSmlGetDeviceSlot(unsigned int dev, unsigned int *slot)
{
    struct mx_call c = {.id = CALL_mxSmlGetDeviceSlot};
    int rc = mx_enter(&c, dev, MX_ON_DEVICE);
    if (rc == MXSML_SUCCESS && slot == NULL)
        rc = MXSML_INVALID_INPUT;
    if (rc == MXSML_SUCCESS)
        *slot = c.metax + 1;
    return mx_leave(&c, rc);
}

int mxSmlGetDeviceBoardId(unsigned int dev)
{
    struct mx_call c = {.id = CALL_mxSmlGetDeviceBoardId};
    int rc = mx_enter(&c, dev, MX_ON_DEVICE);
    int board = rc == MXSML_SUCCESS ? (int)c.metax : -1;
    (void)mx_leave(&c, rc);
    return board;
}

unsigned int mxSmlGetDeviceRealPath(unsigned int dev, char *path, unsigned int *size)
{
    char text[128];
    struct mx_call c = {.id = CALL_mxSmlGetDeviceRealPath};
    int rc = mx_enter(&c, dev, MX_ON_DEVICE);
    if (rc == MXSML_SUCCESS) {
        mx_sys_path(c.card, c.vf, text, sizeof(text));
        rc = mx_copy_text(path, size, text);
    }
    return mx_leave(&c, rc);
}
