/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/fault.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "sim/cuda_code.h"
#include "sim/mxsml_code.h"
#include "sim/nvml.h"

static const struct {
    int code;
    const char *name;
    const char *text;
} codes[] = {
    {NVML_SUCCESS, "SUCCESS", "Success"},
    {NVML_ERROR_UNINITIALIZED, "UNINITIALIZED", "Uninitialized"},
    {NVML_ERROR_INVALID_ARGUMENT, "INVALID_ARGUMENT", "Invalid Argument"},
    {NVML_ERROR_NOT_SUPPORTED, "NOT_SUPPORTED", "Not Supported"},
    {NVML_ERROR_NO_PERMISSION, "NO_PERMISSION", "Insufficient Permissions"},
    {NVML_ERROR_ALREADY_INITIALIZED, "ALREADY_INITIALIZED", "Already Initialized"},
    {NVML_ERROR_NOT_FOUND, "NOT_FOUND", "Not Found"},
    {NVML_ERROR_INSUFFICIENT_SIZE, "INSUFFICIENT_SIZE", "Insufficient Size"},
    {NVML_ERROR_INSUFFICIENT_POWER, "INSUFFICIENT_POWER", "Insufficient External Power"},
    {NVML_ERROR_DRIVER_NOT_LOADED, "DRIVER_NOT_LOADED", "Driver Not Loaded"},
    {NVML_ERROR_TIMEOUT, "TIMEOUT", "Timeout"},
    {NVML_ERROR_IRQ_ISSUE, "IRQ_ISSUE", "Interrupt Request Issue"},
    {NVML_ERROR_LIBRARY_NOT_FOUND, "LIBRARY_NOT_FOUND", "NVML Shared Library Not Found"},
    {NVML_ERROR_FUNCTION_NOT_FOUND, "FUNCTION_NOT_FOUND", "Function Not Found"},
    {NVML_ERROR_CORRUPTED_INFOROM, "CORRUPTED_INFOROM", "Corrupted infoROM"},
    {NVML_ERROR_GPU_IS_LOST, "GPU_IS_LOST", "GPU is lost"},
    {NVML_ERROR_RESET_REQUIRED, "RESET_REQUIRED", "GPU requires restart"},
    {NVML_ERROR_OPERATING_SYSTEM, "OPERATING_SYSTEM",
     "The operating system has blocked the request"},
    {NVML_ERROR_LIB_RM_VERSION_MISMATCH, "LIB_RM_VERSION_MISMATCH",
     "RM has detected an NVML/RM version mismatch"},
    {NVML_ERROR_IN_USE, "IN_USE", "In use by another client"},
    {NVML_ERROR_MEMORY, "MEMORY", "Insufficient Memory"},
    {NVML_ERROR_NO_DATA, "NO_DATA", "No data"},
    {NVML_ERROR_VGPU_ECC_NOT_SUPPORTED, "VGPU_ECC_NOT_SUPPORTED", "vGPU ECC not supported"},
    {NVML_ERROR_INSUFFICIENT_RESOURCES, "INSUFFICIENT_RESOURCES", "Insufficient Resources"},
    {NVML_ERROR_FREQ_NOT_SUPPORTED, "FREQ_NOT_SUPPORTED", "Frequency not supported"},
    {NVML_ERROR_ARGUMENT_VERSION_MISMATCH, "ARGUMENT_VERSION_MISMATCH",
     "Argument version mismatch"},
    {NVML_ERROR_DEPRECATED, "DEPRECATED", "Deprecated"},
    {NVML_ERROR_NOT_READY, "NOT_READY", "Not Ready"},
    {NVML_ERROR_GPU_NOT_FOUND, "GPU_NOT_FOUND", "No GPUs found"},
    {NVML_ERROR_INVALID_STATE, "INVALID_STATE", "Invalid state"},
    {NVML_ERROR_RESET_TYPE_NOT_SUPPORTED, "RESET_TYPE_NOT_SUPPORTED", "Reset type not supported"},
    {NVML_ERROR_UNKNOWN, "UNKNOWN", "Unknown Error"},
};

static const size_t code_count = sizeof(codes) / sizeof(codes[0]);

static bool parse_number(const char *text, double max, double *ret)
{
    char *end = NULL;
    errno = 0;
    double value = strtod(text, &end);
    if (end == text || *end != '\0' || errno != 0 || !(value >= 0 && value <= max))
        return false;
    *ret = value;
    return true;
}

int nvml_code_parse(const char *text)
{
    double number = 0;
    if (parse_number(text, 999, &number))
        return (int)number;
    const char *bare = strncmp(text, "NVML_", 5) == 0 ? text + 5 : text;
    bare = strncmp(bare, "ERROR_", 6) == 0 ? bare + 6 : bare;
    for (size_t i = 0; i < code_count; i++) {
        if (strcasecmp(codes[i].name, bare) == 0)
            return codes[i].code;
    }
    return -1;
}

const char *nvml_code_name(int code)
{
    for (size_t i = 0; i < code_count; i++) {
        if (codes[i].code == code)
            return codes[i].name;
    }
    return code < 0 ? "KILLED" : "UNNAMED";
}

const char *nvml_code_text(int code)
{
    for (size_t i = 0; i < code_count; i++) {
        if (codes[i].code == code)
            return codes[i].text;
    }
    return "Unknown Error";
}

/* "BusyDevice", "SysfsWriteError:EINVAL". */
static bool parse_mxsml(const char *text, struct fault *ret)
{
    char name[64];
    const char *detail = strchr(text, ':');
    size_t length = detail != NULL ? (size_t)(detail - text) : strlen(text);
    (void)snprintf(name, sizeof(name), "%.*s", (int)length, text);
    ret->value = mxsml_code_parse(name);
    ret->sys_errno = detail != NULL ? errno_parse(detail + 1) : 0;
    return ret->value > 0 && (detail == NULL || ret->sys_errno > 0);
}

static bool parse_code(enum call_library library, const char *text, struct fault *ret)
{
    if (library == LIBRARY_MXSML)
        return parse_mxsml(text, ret);
    ret->value = library == LIBRARY_NVML ? nvml_code_parse(text) : cuda_code_parse(text);
    return ret->value > 0;
}

/*
 * The code must be one of the call's library. For "*" and "mutating" its name determines the
 * library, and the fault concerns only that library's calls; a number concerns any.
 */
static bool parse_failure(const char *text, struct fault *ret)
{
    double number = 0;
    if (parse_number(text, 999, &number)) {
        ret->value = (int32_t)number;
        return ret->value > 0;
    }
    for (enum call_library i = LIBRARY_NVML; i < LIBRARY_COUNT; i++) {
        if (ret->library != LIBRARY_ANY && ret->library != i)
            continue;
        if (!parse_code(i, text, ret))
            continue;
        ret->library = i;
        return true;
    }
    return false;
}

bool fault_parse_action(const char *text, struct fault *ret)
{
    double seconds = 0;
    ret->value = 0;
    ret->sys_errno = 0;
    if (strcmp(text, "kill") == 0) {
        ret->action = FAULT_KILL;
        return true;
    }
    if (strcmp(text, "kill-after") == 0) {
        ret->action = FAULT_KILL_AFTER;
        return true;
    }
    if (strncmp(text, "fail:", 5) == 0) {
        ret->action = FAULT_FAIL;
        return parse_failure(text + 5, ret);
    }
    if (strncmp(text, "hang:", 5) == 0 && parse_number(text + 5, 1e6, &seconds)) {
        ret->action = FAULT_HANG;
        ret->value = (int32_t)(seconds * 1000);
        return true;
    }
    return false;
}

bool fault_parse_call(const char *text, struct fault *ret)
{
    ret->library = LIBRARY_ANY;
    if (strcmp(text, "*") == 0)
        ret->call = FAULT_ANY_CALL;
    else if (strcmp(text, "mutating") == 0)
        ret->call = FAULT_MUTATING_CALL;
    else
        ret->call = call_find(text);
    if (ret->call < CALL_COUNT)
        ret->library = call_library_of(ret->call);
    return ret->call != CALL_COUNT;
}

bool fault_parse(const char *text, struct fault *ret)
{
    char call[64];
    char nth[16];
    char action[64];
    double n = 0;
    if (sscanf(text, "%63[^:]:%15[^:]:%63[^,]", call, nth, action) != 3)
        return false;
    if (!parse_number(nth, 1e9, &n) || !fault_parse_call(call, ret))
        return false;
    ret->nth = (uint32_t)n;
    ret->gpu = HW_NONE;
    return fault_parse_action(action, ret);
}

static const char *call_text(uint32_t call)
{
    if (call == FAULT_ANY_CALL)
        return "*";
    return call == FAULT_MUTATING_CALL ? "mutating" : call_name(call);
}

const char *code_name(enum call_library library, int code)
{
    if (library == LIBRARY_MXSML)
        return mxsml_code_name(code);
    if (library != LIBRARY_CUDA)
        return nvml_code_name(code);
    const char *name = cuda_code_name(code);
    if (name != NULL)
        return name;
    return code < 0 ? "KILLED" : "UNNAMED";
}

const char *code_at(enum call_library library, size_t i)
{
    if (library == LIBRARY_MXSML)
        return mxsml_code_at(i + 1); /* the first is success */
    if (library == LIBRARY_CUDA)
        return cuda_code_at(i + 1);
    return i + 1 < code_count ? codes[i + 1].name : NULL;
}

const char *library_name(enum call_library library)
{
    static const char *const names[] = {[LIBRARY_ANY] = "any library",
                                        [LIBRARY_NVML] = "NVML",
                                        [LIBRARY_MXSML] = "MXSML",
                                        [LIBRARY_CUDA] = "CUDA"};
    return names[library];
}

static void print_failure(const struct fault *f, char *ret, size_t size)
{
    const char *detail = errno_name(f->sys_errno);
    if (f->library == LIBRARY_ANY)
        (void)snprintf(ret, size, "fail:%d", f->value);
    else if (f->sys_errno != 0 && detail == NULL)
        (void)snprintf(ret, size, "fail:%s:%d", code_name(f->library, f->value), f->sys_errno);
    else
        (void)snprintf(ret, size, "fail:%s%s%s", code_name(f->library, f->value),
                       detail != NULL ? ":" : "", detail != NULL ? detail : "");
}

void fault_print(const struct fault *fault, char *ret_call, size_t call_size, char *ret_action,
                 size_t action_size)
{
    (void)snprintf(ret_call, call_size, "%s", call_text(fault->call));
    switch ((enum fault_action)fault->action) {
    case FAULT_FAIL:
        print_failure(fault, ret_action, action_size);
        return;
    case FAULT_HANG:
        (void)snprintf(ret_action, action_size, "hang:%g", fault->value / 1000.0);
        return;
    case FAULT_KILL:
        (void)snprintf(ret_action, action_size, "kill");
        return;
    case FAULT_KILL_AFTER:
        (void)snprintf(ret_action, action_size, "kill-after");
        return;
    }
}
