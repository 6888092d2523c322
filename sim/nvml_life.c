/* SPDX-License-Identifier: Apache-2.0 */
/* NVML: life and system. Each function has the contract of NVML's function of that name. */
#include <stdio.h>
#include <string.h>

#include "sim/fault.h"
#include "sim/nvml_calls.h"
#include "sim/nvml_session.h"

nvmlReturn_t nvmlInit_v2(void)
{
    return session_init(CALL_nvmlInit_v2);
}

ALIAS(nvmlInit, nvmlInit_v2, (void));

nvmlReturn_t nvmlInitWithFlags(unsigned int flags)
{
    if ((flags & ~NVML_INIT_FLAG_ALL) != 0)
        return NVML_ERROR_INVALID_ARGUMENT;
    return session_init(CALL_nvmlInitWithFlags);
}

nvmlReturn_t nvmlShutdown(void)
{
    return session_shutdown();
}

const char *nvmlErrorString(nvmlReturn_t result)
{
    return nvml_code_text(result);
}

nvmlReturn_t nvmlSystemGetDriverVersion(char *version, unsigned int length)
{
    struct call c = {.id = CALL_nvmlSystemGetDriverVersion};
    int rc = call_enter(&c, NULL, ON_NOTHING);
    if (rc == NVML_SUCCESS)
        rc = copy_text(version, length, c.hw->driver_version);
    return call_leave(&c, rc);
}

nvmlReturn_t nvmlSystemGetNVMLVersion(char *version, unsigned int length)
{
    struct call c = {.id = CALL_nvmlSystemGetNVMLVersion};
    int rc = call_enter(&c, NULL, ON_NOTHING);
    if (rc == NVML_SUCCESS)
        rc = copy_text(version, length, c.hw->nvml_version);
    return call_leave(&c, rc);
}

nvmlReturn_t nvmlSystemGetCudaDriverVersion_v2(int *cudaDriverVersion)
{
    struct call c = {.id = CALL_nvmlSystemGetCudaDriverVersion_v2};
    int rc = call_enter(&c, NULL, ON_NOTHING);
    if (rc == NVML_SUCCESS && cudaDriverVersion == NULL)
        rc = NVML_ERROR_INVALID_ARGUMENT;
    if (rc == NVML_SUCCESS)
        *cudaDriverVersion = c.hw->cuda_version;
    return call_leave(&c, rc);
}

nvmlReturn_t nvmlSystemGetCudaDriverVersion(int *cudaDriverVersion)
{
    return nvmlSystemGetCudaDriverVersion_v2(cudaDriverVersion);
}

static const char *process_name(const struct hw *hw, unsigned int pid)
{
    for (size_t i = 0; i < hw->proc_reach; i++) {
        if (pid != 0 && hw->procs[i].pid == pid && hw->procs[i].gpu < HW_METAX)
            return hw->procs[i].name;
    }
    return NULL;
}

nvmlReturn_t nvmlSystemGetProcessName(unsigned int pid, char *name, unsigned int length)
{
    struct call c = {.id = CALL_nvmlSystemGetProcessName};
    int rc = call_enter(&c, NULL, ON_NOTHING);
    if (rc == NVML_SUCCESS && (name == NULL || length == 0))
        rc = NVML_ERROR_INVALID_ARGUMENT;
    if (rc == NVML_SUCCESS) {
        const char *found = process_name(c.hw, pid);
        /* Truncated to the buffer; NVML documents that for this call only. */
        if (found != NULL)
            (void)snprintf(name, length, "%s", found);
        else
            rc = NVML_ERROR_NOT_FOUND;
    }
    return call_leave(&c, rc);
}
