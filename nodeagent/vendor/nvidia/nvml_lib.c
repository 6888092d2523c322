/* SPDX-License-Identifier: Apache-2.0 */
#include "nodeagent/vendor/nvidia/nvml_lib.h"

#include <assert.h>
#include <dlfcn.h>

#include "base/auto.h"

#include "nodeagent/gpu/lib_table.h"

#define NVML_SONAME "libnvidia-ml.so.1"

#define SYMBOL(member, must, new_name, old_name, args)                                             \
    {.newest = (new_name),                                                                         \
     .older = (old_name),                                                                          \
     .offset = offsetof(struct nvml_lib, member),                                                  \
     .needed = (must)},

#define NAME_OF(member, must, new_name, old_name, args) .member = (new_name),

const struct nvml_names nvml_names = {NVML_FUNCTIONS(NAME_OF)};

static const struct lib_symbol symbols[] = {
    NVML_FUNCTIONS(SYMBOL){.newest = "nvmlErrorString",
                           .offset = offsetof(struct nvml_lib, error_string)},
};

int nvml_lib_open(const char *path, struct nvml_lib *ret, struct err *e)
{
    assert(ret);
    struct nvml_lib lib = {0};
    TRY(lib_table_open(path ? path : NVML_SONAME, "NVIDIA", symbols, ARRAY_LEN(symbols), &lib,
                       &lib.dl, e));
    *ret = lib;
    return 0;
}

void nvml_lib_close(struct nvml_lib *lib)
{
    if (lib->dl)
        (void)dlclose(lib->dl);
    *lib = (struct nvml_lib){0};
}

const char *nvml_lib_text(const struct nvml_lib *lib, nvml_ret rc)
{
    const char *text = lib->error_string ? lib->error_string(rc) : NULL;
    return text ? text : "unknown error";
}

static enum err_kind kind_of(nvml_ret rc)
{
    switch (rc) {
    case NVML_INVALID_ARGUMENT:
    case NVML_NOT_SUPPORTED:
    case NVML_FUNCTION_NOT_FOUND:
        return ERR_INVALID;
    case NVML_NO_PERMISSION:
        return ERR_FORBIDDEN;
    case NVML_NOT_FOUND:
    case NVML_GPU_NOT_FOUND:
    case NVML_DRIVER_NOT_LOADED:
    case NVML_LIBRARY_NOT_FOUND:
        return ERR_NOT_FOUND;
    case NVML_INSUFFICIENT_SIZE:
        return ERR_TOO_LARGE;
    case NVML_TIMEOUT:
        return ERR_TIMEOUT;
    case NVML_LIB_RM_VERSION_MISMATCH:
    case NVML_ARGUMENT_VERSION_MISMATCH:
        return ERR_PROTOCOL;
    case NVML_INSUFFICIENT_RESOURCES:
        return ERR_CONFLICT;
    default:
        return ERR_UNAVAILABLE;
    }
}

/* The CamelCase reason of a return code. */
static const char *reason_of(nvml_ret rc)
{
    switch (rc) {
    case NVML_IN_USE:
        return "InUse";
    case NVML_GPU_IS_LOST:
        return "GPULost";
    case NVML_RESET_REQUIRED:
        return "ResetRequired";
    case NVML_TIMEOUT:
        return "NVMLTimeout";
    case NVML_INSUFFICIENT_RESOURCES:
        return "InsufficientResources";
    case NVML_NO_PERMISSION:
        return "NoPermission";
    case NVML_DRIVER_NOT_LOADED:
    case NVML_LIBRARY_NOT_FOUND:
        return "DriverNotLoaded";
    case NVML_LIB_RM_VERSION_MISMATCH:
        return "DriverVersionMismatch";
    default:
        return "NVMLError";
    }
}

int nvml_lib_error(const struct nvml_lib *lib, const char *call, nvml_ret rc, struct err *e)
{
    assert(rc != NVML_SUCCESS);
    int ret = err_set(e, kind_of(rc), "%s: %s (NVML error %d)", call, nvml_lib_text(lib, rc), rc);
    if (e)
        e->reason = reason_of(rc);
    return ret;
}
