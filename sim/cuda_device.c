/* SPDX-License-Identifier: Apache-2.0 */
/* CUDA: initialisation, errors and devices. Contracts are the driver API's own. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sim/cuda_code.h"
#include "sim/cuda_room.h"

CUresult cuInit(unsigned int flags)
{
    if (flags != 0)
        return CUDA_ERROR_INVALID_VALUE;
    return cuda_init();
}

CUresult cuDriverGetVersion(int *version)
{
    if (version == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    *version = cuda_driver_version();
    return CUDA_SUCCESS;
}

static CUresult give_text(const char *found, const char **ret)
{
    if (ret == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    *ret = found;
    return found != NULL ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuGetErrorName(CUresult error, const char **text)
{
    return give_text(cuda_code_name(error), text);
}

CUresult cuGetErrorString(CUresult error, const char **text)
{
    return give_text(cuda_code_text(error), text);
}

/* Tables of functions without a public name: there are none here. */
CUresult cuGetExportTable(const void **table, const CUuuid *id)
{
    if (table == NULL || id == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    *table = NULL;
    return CUDA_ERROR_NOT_FOUND;
}

CUresult cuDeviceGetCount(int *count)
{
    struct cuda_call c = {.id = CALL_cuDeviceGetCount};
    CUresult rc = cuda_enter(&c);
    if (rc == CUDA_SUCCESS && count == NULL)
        rc = CUDA_ERROR_INVALID_VALUE;
    if (rc == CUDA_SUCCESS)
        *count = cuda_device_count();
    return cuda_leave(&c, rc);
}

CUresult cuDeviceGet(CUdevice *device, int ordinal)
{
    struct cuda_call c = {.id = CALL_cuDeviceGet};
    CUresult rc = cuda_enter_device(&c, ordinal);
    if (rc == CUDA_SUCCESS && device == NULL)
        rc = CUDA_ERROR_INVALID_VALUE;
    if (rc == CUDA_SUCCESS)
        *device = ordinal;
    return cuda_leave(&c, rc);
}

static CUresult enter_device(struct cuda_call *c, CUdevice device, const void *ret)
{
    CUresult rc = cuda_enter_device(c, device);
    return rc == CUDA_SUCCESS && ret == NULL ? CUDA_ERROR_INVALID_VALUE : rc;
}

/* The name is cut where the caller's room ends. */
CUresult cuDeviceGetName(char *name, int len, CUdevice device)
{
    struct cuda_call c = {.id = CALL_cuDeviceGetName};
    CUresult rc = enter_device(&c, device, name);
    if (rc == CUDA_SUCCESS && len <= 0)
        rc = CUDA_ERROR_INVALID_VALUE;
    if (rc == CUDA_SUCCESS)
        (void)snprintf(name, (size_t)len, "%s", cuda_device_at(device)->model->name);
    return cuda_leave(&c, rc);
}

/* The digits of "GPU-xxxxxxxx-...", as bytes. */
static void uuid_bytes(const char *text, CUuuid *ret)
{
    size_t n = 0;
    *ret = (CUuuid){0};
    for (const char *p = text + strlen("GPU-"); *p != '\0' && n < 32; p++) {
        if (*p == '-')
            continue;
        const char digit[] = {*p, '\0'};
        unsigned int half = (unsigned int)strtoul(digit, NULL, 16);
        ret->bytes[n / 2] = (char)((unsigned char)ret->bytes[n / 2] << 4U | half);
        n++;
    }
}

static CUresult device_uuid(unsigned int call, CUuuid *uuid, CUdevice device)
{
    struct cuda_call c = {.id = call};
    CUresult rc = enter_device(&c, device, uuid);
    if (rc == CUDA_SUCCESS)
        uuid_bytes(cuda_device_at(device)->uuid, uuid);
    return cuda_leave(&c, rc);
}

CUresult cuDeviceGetUuid(CUuuid *uuid, CUdevice device)
{
    return device_uuid(CALL_cuDeviceGetUuid, uuid, device);
}

/* The UUID of a MIG device would be its instance's: there is none here. */
CUresult cuDeviceGetUuid_v2(CUuuid *uuid, CUdevice device)
{
    return device_uuid(CALL_cuDeviceGetUuid_v2, uuid, device);
}

CUresult cuDeviceTotalMem_v2(size_t *bytes, CUdevice device)
{
    struct cuda_call c = {.id = CALL_cuDeviceTotalMem_v2};
    size_t left = 0;
    CUresult rc = enter_device(&c, device, bytes);
    if (rc == CUDA_SUCCESS)
        rc = cuda_room(cuda_device_at(device), &left, bytes);
    return cuda_leave(&c, rc);
}

/* --- Addresses --- */

CUresult cuDeviceGetPCIBusId(char *id, int len, CUdevice device)
{
    struct cuda_call c = {.id = CALL_cuDeviceGetPCIBusId};
    CUresult rc = enter_device(&c, device, id);
    if (rc == CUDA_SUCCESS && len <= 0)
        rc = CUDA_ERROR_INVALID_VALUE;
    if (rc == CUDA_SUCCESS) {
        const struct cuda_device *d = cuda_device_at(device);
        (void)snprintf(id, (size_t)len, "%04X:%02X:%02X.0", d->domain, d->bus, d->device);
    }
    return cuda_leave(&c, rc);
}

static CUresult find_address(const char *id, CUdevice *ret)
{
    unsigned int domain = 0;
    unsigned int bus = 0;
    unsigned int device = 0;
    bool whole = sscanf(id, "%x:%x:%x", &domain, &bus, &device) == 3;
    if (!whole && sscanf(id, "%x:%x", &bus, &device) != 2)
        return CUDA_ERROR_INVALID_VALUE;
    for (int i = 0; i < cuda_device_count(); i++) {
        const struct cuda_device *d = cuda_device_at(i);
        if (d->domain != (whole ? domain : 0) || d->bus != bus || d->device != device)
            continue;
        *ret = i;
        return CUDA_SUCCESS;
    }
    return CUDA_ERROR_INVALID_DEVICE;
}

CUresult cuDeviceGetByPCIBusId(CUdevice *device, const char *id)
{
    struct cuda_call c = {.id = CALL_cuDeviceGetByPCIBusId};
    CUresult rc = cuda_enter(&c);
    if (rc == CUDA_SUCCESS && (device == NULL || id == NULL))
        rc = CUDA_ERROR_INVALID_VALUE;
    if (rc == CUDA_SUCCESS)
        rc = find_address(id, device);
    return cuda_leave(&c, rc);
}
