/* SPDX-License-Identifier: Apache-2.0 */
/* NVML: finding devices, and their identity. Each function has the contract of NVML's function of
 * that name. */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sim/mig.h"
#include "sim/nvml_calls.h"
#include "sim/nvml_session.h"

/* The index of a card counts the cards that the driver still drives. */
static uint32_t visible_count(const struct hw *hw)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < hw->gpu_count; i++)
        n += !hw->gpus[i].removed;
    return n;
}

static uint32_t nth_visible(const struct hw *hw, unsigned int index)
{
    for (uint32_t i = 0; i < hw->gpu_count; i++) {
        if (hw->gpus[i].removed)
            continue;
        if (index-- == 0)
            return i;
    }
    return HW_NONE;
}

/* The log says which card was found. */
static int give_device(struct call *c, uint32_t gpu, int otherwise, nvmlDevice_t *device)
{
    if (gpu == HW_NONE)
        return otherwise;
    c->turn.record.gpu = gpu;
    if (c->hw->gpus[gpu].lost)
        return NVML_ERROR_GPU_IS_LOST;
    *device = handle_of_gpu(gpu);
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetCount_v2(unsigned int *deviceCount)
{
    struct call c = {.id = CALL_nvmlDeviceGetCount_v2};
    int rc = call_enter(&c, NULL, ON_NOTHING);
    if (rc == NVML_SUCCESS && deviceCount == NULL)
        rc = NVML_ERROR_INVALID_ARGUMENT;
    if (rc == NVML_SUCCESS)
        *deviceCount = visible_count(c.hw);
    return call_leave(&c, rc);
}

ALIAS(nvmlDeviceGetCount, nvmlDeviceGetCount_v2, (unsigned int *deviceCount));

nvmlReturn_t nvmlDeviceGetHandleByIndex_v2(unsigned int index, nvmlDevice_t *device)
{
    struct call c = {.id = CALL_nvmlDeviceGetHandleByIndex_v2};
    int rc = call_enter(&c, NULL, ON_NOTHING);
    if (rc == NVML_SUCCESS && device == NULL)
        rc = NVML_ERROR_INVALID_ARGUMENT;
    if (rc == NVML_SUCCESS)
        rc = give_device(&c, nth_visible(c.hw, index), NVML_ERROR_INVALID_ARGUMENT, device);
    return call_leave(&c, rc);
}

ALIAS(nvmlDeviceGetHandleByIndex, nvmlDeviceGetHandleByIndex_v2,
      (unsigned int index, nvmlDevice_t *device));

static int find_mig_uuid(const struct hw *hw, uint32_t gpu, const char *uuid, nvmlDevice_t *device)
{
    for (size_t g = 0; g < HW_MAX_GI; g++) {
        const struct hw_gi *gi = &hw->gpus[gpu].gis[g];
        for (size_t i = 0; gi->serial != 0 && i < HW_MAX_CI; i++) {
            if (gi->cis[i].serial == 0 || strcmp(gi->cis[i].uuid, uuid) != 0)
                continue;
            *device = handle_of_mig(gpu, gi, &gi->cis[i]);
            return NVML_SUCCESS;
        }
    }
    return NVML_ERROR_NOT_FOUND;
}

static int find_uuid(struct call *c, const char *uuid, nvmlDevice_t *device)
{
    int rc = NVML_ERROR_NOT_FOUND;
    for (uint32_t i = 0; i < c->hw->gpu_count && rc == NVML_ERROR_NOT_FOUND; i++) {
        const struct hw_gpu *gpu = &c->hw->gpus[i];
        if (gpu->removed)
            continue;
        if (strcmp(gpu->uuid, uuid) == 0)
            rc = give_device(c, i, NVML_ERROR_NOT_FOUND, device);
        else
            rc = find_mig_uuid(c->hw, i, uuid, device);
    }
    return rc;
}

nvmlReturn_t nvmlDeviceGetHandleByUUID(const char *uuid, nvmlDevice_t *device)
{
    struct call c = {.id = CALL_nvmlDeviceGetHandleByUUID};
    int rc = call_enter(&c, NULL, ON_NOTHING);
    if (rc == NVML_SUCCESS && (uuid == NULL || device == NULL))
        rc = NVML_ERROR_INVALID_ARGUMENT;
    if (rc == NVML_SUCCESS) {
        call_args(&c, "uuid=%s", uuid);
        rc = find_uuid(&c, uuid, device);
    }
    return call_leave(&c, rc);
}

/* The 16 bytes of the binary form have no prefix: a card's or a MIG device's. */
static int find_binary_uuid(struct call *c, const unsigned char *bytes, nvmlDevice_t *device)
{
    char text[48];
    char plain[37];
    const unsigned char *b = bytes;
    (void)snprintf(plain, sizeof(plain),
                   "%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x", b[0],
                   b[1], b[2], b[3], b[4], b[5], b[6], b[7], b[8], b[9], b[10], b[11], b[12], b[13],
                   b[14], b[15]);
    (void)snprintf(text, sizeof(text), "GPU-%s", plain);
    int rc = find_uuid(c, text, device);
    if (rc != NVML_ERROR_NOT_FOUND)
        return rc;
    (void)snprintf(text, sizeof(text), "MIG-%s", plain);
    return find_uuid(c, text, device);
}

static int find_uuid_struct(struct call *c, const nvmlUUID_t *uuid, nvmlDevice_t *device)
{
    if (uuid->version != NVML_STRUCT_VERSION(sizeof(*uuid), 1U))
        return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
    if (uuid->type == UUID_TYPE_BINARY)
        return find_binary_uuid(c, uuid->value.bytes, device);
    if (uuid->type != UUID_TYPE_ASCII ||
        memchr(uuid->value.str, '\0', sizeof(uuid->value.str)) == NULL)
        return NVML_ERROR_INVALID_ARGUMENT;
    return find_uuid(c, uuid->value.str, device);
}

nvmlReturn_t nvmlDeviceGetHandleByUUIDV(const nvmlUUID_t *uuid, nvmlDevice_t *device)
{
    struct call c = {.id = CALL_nvmlDeviceGetHandleByUUIDV};
    int rc = call_enter(&c, NULL, ON_NOTHING);
    if (rc == NVML_SUCCESS && (uuid == NULL || device == NULL))
        rc = NVML_ERROR_INVALID_ARGUMENT;
    if (rc == NVML_SUCCESS)
        rc = find_uuid_struct(&c, uuid, device);
    return call_leave(&c, rc);
}

/* Parses one hexadecimal number and its terminator. */
static bool parse_part(const char **at, char terminator, unsigned int *ret)
{
    char *end = NULL;
    unsigned long value = strtoul(*at, &end, 16);
    if (!isxdigit((unsigned char)**at) || *end != terminator || value > UINT32_MAX)
        return false;
    *ret = (unsigned int)value;
    *at = terminator == '\0' ? end : end + 1;
    return true;
}

/* "00000000:07:00.0", "0000:07:00.0" and "07:00.0" are all accepted: tools write all of them. */
static bool parse_bus_id(const char *text, unsigned int *domain, unsigned int *bus,
                         unsigned int *device)
{
    unsigned int function = 0;
    const char *first = strchr(text, ':');
    *domain = 0;
    if (first != NULL && strchr(first + 1, ':') != NULL && !parse_part(&text, ':', domain))
        return false;
    return parse_part(&text, ':', bus) && parse_part(&text, '.', device) &&
           parse_part(&text, '\0', &function);
}

static uint32_t find_bus_id(const struct hw *hw, const char *text)
{
    unsigned int domain = 0;
    unsigned int bus = 0;
    unsigned int device = 0;
    if (!parse_bus_id(text, &domain, &bus, &device))
        return HW_NONE;
    for (uint32_t i = 0; i < hw->gpu_count; i++) {
        const struct hw_gpu *gpu = &hw->gpus[i];
        if (!gpu->removed && gpu->domain == domain && gpu->bus == bus && gpu->device == device)
            return i;
    }
    return HW_NONE;
}

nvmlReturn_t nvmlDeviceGetHandleByPciBusId_v2(const char *pciBusId, nvmlDevice_t *device)
{
    struct call c = {.id = CALL_nvmlDeviceGetHandleByPciBusId_v2};
    int rc = call_enter(&c, NULL, ON_NOTHING);
    if (rc == NVML_SUCCESS && (pciBusId == NULL || device == NULL))
        rc = NVML_ERROR_INVALID_ARGUMENT;
    if (rc == NVML_SUCCESS)
        rc = give_device(&c, find_bus_id(c.hw, pciBusId), NVML_ERROR_NOT_FOUND, device);
    return call_leave(&c, rc);
}

ALIAS(nvmlDeviceGetHandleByPciBusId, nvmlDeviceGetHandleByPciBusId_v2,
      (const char *pciBusId, nvmlDevice_t *device));

static uint32_t find_serial(const struct hw *hw, const char *serial)
{
    for (uint32_t i = 0; i < hw->gpu_count; i++) {
        if (!hw->gpus[i].removed && strcmp(hw->gpus[i].serial_number, serial) == 0)
            return i;
    }
    return HW_NONE;
}

nvmlReturn_t nvmlDeviceGetHandleBySerial(const char *serial, nvmlDevice_t *device)
{
    struct call c = {.id = CALL_nvmlDeviceGetHandleBySerial};
    int rc = call_enter(&c, NULL, ON_NOTHING);
    if (rc == NVML_SUCCESS && (serial == NULL || device == NULL))
        rc = NVML_ERROR_INVALID_ARGUMENT;
    if (rc == NVML_SUCCESS)
        rc = give_device(&c, find_serial(c.hw, serial), NVML_ERROR_NOT_FOUND, device);
    return call_leave(&c, rc);
}

static unsigned int visible_index(const struct hw *hw, uint32_t gpu)
{
    unsigned int index = 0;
    for (uint32_t i = 0; i < gpu; i++)
        index += !hw->gpus[i].removed;
    return index;
}

nvmlReturn_t nvmlDeviceGetIndex(nvmlDevice_t device, unsigned int *index)
{
    struct call c = {.id = CALL_nvmlDeviceGetIndex};
    int rc = call_enter(&c, device, ON_DEVICE);
    if (rc == NVML_SUCCESS && index == NULL)
        rc = NVML_ERROR_INVALID_ARGUMENT;
    if (rc == NVML_SUCCESS)
        *index =
            c.ci != NULL ? mig_device_index(c.gpu, c.ci->serial) : visible_index(c.hw, c.gpu_index);
    return call_leave(&c, rc);
}

/* The fields that all generations of the struct share: everything before busId. */
static void fill_pci_base(const struct hw_gpu *gpu, nvmlPciInfo_t *pci)
{
    const struct model *m = hw_model(gpu);
    (void)snprintf(pci->busIdLegacy, sizeof(pci->busIdLegacy), "%04X:%02X:%02X.0",
                   gpu->domain & 0xFFFF, gpu->bus & 0xFF, gpu->device & 0xFF);
    pci->domain = gpu->domain;
    pci->bus = gpu->bus;
    pci->device = gpu->device;
    pci->pciDeviceId = m->pci_device_id;
    pci->pciSubSystemId = m->pci_subsystem_id;
}

static void fill_bus_id(const struct hw_gpu *gpu, char *out, size_t size)
{
    (void)snprintf(out, size, "%08X:%02X:%02X.0", gpu->domain, gpu->bus, gpu->device);
}

nvmlReturn_t nvmlDeviceGetPciInfo_v3(nvmlDevice_t device, nvmlPciInfo_t *pci)
{
    struct call c = {.id = CALL_nvmlDeviceGetPciInfo_v3};
    int rc = call_enter(&c, device, ON_DEVICE);
    if (rc == NVML_SUCCESS && pci == NULL)
        rc = NVML_ERROR_INVALID_ARGUMENT;
    if (rc == NVML_SUCCESS) {
        fill_pci_base(c.gpu, pci);
        fill_bus_id(c.gpu, pci->busId, sizeof(pci->busId));
    }
    return call_leave(&c, rc);
}

/* Older clients' struct ends where busId begins. */
nvmlReturn_t nvmlDeviceGetPciInfo_v2(nvmlDevice_t device, nvmlPciInfo_t *pci)
{
    nvmlPciInfo_t full = {0};
    int rc = nvmlDeviceGetPciInfo_v3(device, &full);
    if (rc == NVML_SUCCESS && pci == NULL)
        rc = NVML_ERROR_INVALID_ARGUMENT;
    if (rc == NVML_SUCCESS)
        memcpy(pci, &full, offsetof(nvmlPciInfo_t, busId));
    return rc;
}

ALIAS(nvmlDeviceGetPciInfo, nvmlDeviceGetPciInfo_v2, (nvmlDevice_t device, nvmlPciInfo_t *pci));

nvmlReturn_t nvmlDeviceGetPciInfoExt(nvmlDevice_t device, nvmlPciInfoExt_t *pci)
{
    struct call c = {.id = CALL_nvmlDeviceGetPciInfoExt};
    int rc = call_enter(&c, device, ON_DEVICE);
    if (rc == NVML_SUCCESS && pci == NULL)
        rc = NVML_ERROR_INVALID_ARGUMENT;
    if (rc == NVML_SUCCESS && pci->version != NVML_STRUCT_VERSION(sizeof(*pci), 1U))
        rc = NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
    if (rc == NVML_SUCCESS) {
        nvmlPciInfo_t base = {0};
        fill_pci_base(c.gpu, &base);
        *pci = (nvmlPciInfoExt_t){.version = pci->version,
                                  .domain = base.domain,
                                  .bus = base.bus,
                                  .device = base.device,
                                  .pciDeviceId = base.pciDeviceId,
                                  .pciSubSystemId = base.pciSubSystemId,
                                  .baseClass = 0x03,
                                  .subClass = 0x02}; /* a 3D controller */
        fill_bus_id(c.gpu, pci->busId, sizeof(pci->busId));
    }
    return call_leave(&c, rc);
}

static int copy_name(const struct call *c, char *name, unsigned int length)
{
    char text[128];
    char profile[64];
    const struct model *m = hw_model(c->gpu);
    if (c->ci == NULL)
        return copy_text(name, length, m->name);
    const struct gi_profile *gi = mig_profile_of(c->gpu, c->gi);
    struct ci_profile ci = {0};
    (void)ci_profile_get(gi, c->ci->profile, &ci);
    ci_profile_short_name(gi, &ci, profile, sizeof(profile));
    (void)snprintf(text, sizeof(text), "%s MIG %s", m->name, profile);
    return copy_text(name, length, text);
}

nvmlReturn_t nvmlDeviceGetName(nvmlDevice_t device, char *name, unsigned int length)
{
    struct call c = {.id = CALL_nvmlDeviceGetName};
    int rc = call_enter(&c, device, ON_DEVICE);
    if (rc == NVML_SUCCESS)
        rc = copy_name(&c, name, length);
    return call_leave(&c, rc);
}

nvmlReturn_t nvmlDeviceGetUUID(nvmlDevice_t device, char *uuid, unsigned int length)
{
    struct call c = {.id = CALL_nvmlDeviceGetUUID};
    int rc = call_enter(&c, device, ON_DEVICE);
    if (rc == NVML_SUCCESS)
        rc = copy_text(uuid, length, c.ci != NULL ? c.ci->uuid : c.gpu->uuid);
    return call_leave(&c, rc);
}

nvmlReturn_t nvmlDeviceGetSerial(nvmlDevice_t device, char *serial, unsigned int length)
{
    struct call c = {.id = CALL_nvmlDeviceGetSerial};
    int rc = call_enter(&c, device, ON_GPU);
    if (rc == NVML_SUCCESS)
        rc = copy_text(serial, length, c.gpu->serial_number);
    return call_leave(&c, rc);
}

nvmlReturn_t nvmlDeviceGetBoardPartNumber(nvmlDevice_t device, char *partNumber,
                                          unsigned int length)
{
    struct call c = {.id = CALL_nvmlDeviceGetBoardPartNumber};
    int rc = call_enter(&c, device, ON_GPU);
    if (rc == NVML_SUCCESS)
        rc = copy_text(partNumber, length, hw_model(c.gpu)->part_number);
    return call_leave(&c, rc);
}

nvmlReturn_t nvmlDeviceGetVbiosVersion(nvmlDevice_t device, char *version, unsigned int length)
{
    struct call c = {.id = CALL_nvmlDeviceGetVbiosVersion};
    int rc = call_enter(&c, device, ON_GPU);
    if (rc == NVML_SUCCESS)
        rc = copy_text(version, length, hw_model(c.gpu)->vbios);
    return call_leave(&c, rc);
}

nvmlReturn_t nvmlDeviceGetCudaComputeCapability(nvmlDevice_t device, int *major, int *minor)
{
    struct call c = {.id = CALL_nvmlDeviceGetCudaComputeCapability};
    int rc = call_enter(&c, device, ON_DEVICE);
    if (rc == NVML_SUCCESS && (major == NULL || minor == NULL))
        rc = NVML_ERROR_INVALID_ARGUMENT;
    if (rc == NVML_SUCCESS) {
        *major = (int)hw_model(c.gpu)->cc_major;
        *minor = (int)hw_model(c.gpu)->cc_minor;
    }
    return call_leave(&c, rc);
}
