/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/mxsml_code.h"

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <strings.h>

#include "sim/mxsml.h"

/* Assumed: the texts; only the names and numbers are documented. */
static const struct {
    int code;
    const char *name, *text;
} codes[] = {
    {MXSML_SUCCESS, "Success", "success"},
    {MXSML_FAILURE, "Failure", "failure"},
    {MXSML_NO_DEVICE, "NoDevice", "no device"},
    {MXSML_OPERATION_NOT_SUPPORT, "OperationNotSupport", "operation not supported"},
    {MXSML_SYSFS_ERROR, "SysfsError", "sysfs error"},
    {MXSML_SYSFS_WRITE_ERROR, "SysfsWriteError", "sysfs write error"},
    {MXSML_INVALID_DEVICE_ID, "InvalidDeviceId", "invalid device id"},
    {MXSML_INVALID_DIE_ID, "InvalidDieId", "invalid die id"},
    {MXSML_PERMISSION_DENIED, "PermissionDenied", "permission denied"},
    {MXSML_INVALID_INPUT, "InvalidInput", "invalid input"},
    {MXSML_INSUFFICIENT_SIZE, "InsufficientSize", "insufficient size"},
    {MXSML_IO_CONTROL_FAILURE, "IOControlFailure", "IO control failure"},
    {MXSML_MMAP_FAILURE, "MmapFailure", "mmap failure"},
    {MXSML_UNMMAP_FAILURE, "UnMmapFailure", "unmmap failure"},
    {MXSML_INVALID_INPUT_FOR_MMAP, "InvalidInputForMmap", "invalid input for mmap"},
    {MXSML_TARGET_VF_NOT_FOUND, "TargetVfNotFound", "target VF not found"},
    {MXSML_INVALID_FREQUENCY, "InvalidFrequency", "invalid frequency"},
    {MXSML_FLR_NOT_READY, "FlrNotReady", "FLR not ready"},
    {MXSML_OPEN_DEVICE_FILE_FAILURE, "OpenDeviceFileFailure", "open device file failure"},
    {MXSML_CLOSE_DEVICE_FILE_FAILURE, "CloseDeviceFileFailure", "close device file failure"},
    {MXSML_BUSY_DEVICE, "BusyDevice", "device is busy"},
    {MXSML_MMIO_NOT_ENOUGH, "MmioNotEnough", "MMIO not enough"},
    {MXSML_GET_PCI_BRIDGE_FAILURE, "GetPciBridgeFailure", "get PCI bridge failure"},
    {MXSML_LOAD_DLL_FAILURE, "LoadDllFailure", "load DLL failure"},
};

static const struct {
    int value;
    const char *name;
} errnos[] = {
    {EPERM, "EPERM"},   {ENOENT, "ENOENT"}, {EIO, "EIO"},     {EAGAIN, "EAGAIN"},
    {ENOMEM, "ENOMEM"}, {EACCES, "EACCES"}, {EBUSY, "EBUSY"}, {ENODEV, "ENODEV"},
    {EINVAL, "EINVAL"}, {ENOSPC, "ENOSPC"}, {EROFS, "EROFS"}, {ETIMEDOUT, "ETIMEDOUT"},
};

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

const char *mxsml_code_name(int code)
{
    for (size_t i = 0; i < COUNT(codes); i++) {
        if (codes[i].code == code)
            return codes[i].name;
    }
    return code < 0 ? "KILLED" : "UNNAMED";
}

const char *mxsml_code_text(int code)
{
    for (size_t i = 0; i < COUNT(codes); i++) {
        if (codes[i].code == code)
            return codes[i].text;
    }
    return "unknown error";
}

int mxsml_code_parse(const char *name)
{
    for (size_t i = 0; i < COUNT(codes); i++) {
        if (strcasecmp(codes[i].name, name) == 0)
            return codes[i].code;
    }
    return -1;
}

const char *mxsml_code_at(size_t i)
{
    return i < COUNT(codes) ? codes[i].name : NULL;
}

int errno_parse(const char *name)
{
    char *end = NULL;
    long number = strtol(name, &end, 10);
    if (end != name && *end == '\0' && number > 0 && number < 4096)
        return (int)number;
    for (size_t i = 0; i < COUNT(errnos); i++) {
        if (strcasecmp(errnos[i].name, name) == 0)
            return errnos[i].value;
    }
    return 0;
}

const char *errno_name(int value)
{
    for (size_t i = 0; i < COUNT(errnos); i++) {
        if (errnos[i].value == value)
            return errnos[i].name;
    }
    return NULL;
}
