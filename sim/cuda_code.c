/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/cuda_code.h"

#include <stdbool.h>
#include <string.h>
#include <strings.h>

#include "sim/cuda.h"

#define CODE(name, text)                                                                           \
    {                                                                                              \
        name, #name, text                                                                          \
    }
static const struct {
    int code;
    const char *name, *text;
} codes[] = {
    CODE(CUDA_SUCCESS, "no error"),
    CODE(CUDA_ERROR_INVALID_VALUE, "invalid argument"),
    CODE(CUDA_ERROR_OUT_OF_MEMORY, "out of memory"),
    CODE(CUDA_ERROR_NOT_INITIALIZED, "not initialised"),
    CODE(CUDA_ERROR_DEINITIALIZED, "shutting down"),
    CODE(CUDA_ERROR_DEVICE_UNAVAILABLE, "device busy or unavailable"),
    CODE(CUDA_ERROR_NO_DEVICE, "no device"),
    CODE(CUDA_ERROR_INVALID_DEVICE, "invalid device ordinal"),
    CODE(CUDA_ERROR_INVALID_IMAGE, "invalid image of a module"),
    CODE(CUDA_ERROR_INVALID_CONTEXT, "invalid context"),
    CODE(CUDA_ERROR_MAP_FAILED, "memory cannot be mapped"),
    CODE(CUDA_ERROR_NO_BINARY_FOR_GPU, "no code for this device"),
    CODE(CUDA_ERROR_ECC_UNCORRECTABLE, "uncorrectable ECC error"),
    CODE(CUDA_ERROR_UNSUPPORTED_LIMIT, "the device has no such limit"),
    CODE(CUDA_ERROR_INVALID_PTX, "PTX is not understood"),
    CODE(CUDA_ERROR_UNSUPPORTED_PTX_VERSION, "PTX of a newer version"),
    CODE(CUDA_ERROR_UNSUPPORTED_EXEC_AFFINITY, "no such execution affinity"),
    CODE(CUDA_ERROR_FILE_NOT_FOUND, "file not found"),
    CODE(CUDA_ERROR_OPERATING_SYSTEM, "a call to the system failed"),
    CODE(CUDA_ERROR_INVALID_HANDLE, "invalid handle"),
    CODE(CUDA_ERROR_ILLEGAL_STATE, "not in a state for that"),
    CODE(CUDA_ERROR_NOT_FOUND, "not found"),
    CODE(CUDA_ERROR_NOT_READY, "not ready"),
    CODE(CUDA_ERROR_ILLEGAL_ADDRESS, "illegal address"),
    CODE(CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES, "too many resources for a launch"),
    CODE(CUDA_ERROR_PRIMARY_CONTEXT_ACTIVE, "the primary context is active"),
    CODE(CUDA_ERROR_CONTEXT_IS_DESTROYED, "the context was destroyed"),
    CODE(CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED, "the host's memory is registered already"),
    CODE(CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED, "the host's memory is not registered"),
    CODE(CUDA_ERROR_LAUNCH_FAILED, "launch failure"),
    CODE(CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE, "more blocks than can run together"),
    CODE(CUDA_ERROR_NOT_PERMITTED, "not permitted"),
    CODE(CUDA_ERROR_NOT_SUPPORTED, "not supported"),
    CODE(CUDA_ERROR_SYSTEM_NOT_READY, "the system is not ready"),
    CODE(CUDA_ERROR_SYSTEM_DRIVER_MISMATCH, "driver and library are of different versions"),
    CODE(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, "not permitted while a stream is captured"),
    CODE(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, "an earlier error has invalidated the capture"),
    CODE(CUDA_ERROR_STREAM_CAPTURE_MERGE, "two captures would become one"),
    CODE(CUDA_ERROR_STREAM_CAPTURE_UNMATCHED, "the capture did not begin in this stream"),
    CODE(CUDA_ERROR_STREAM_CAPTURE_UNJOINED, "the capture has a fork that was not joined"),
    CODE(CUDA_ERROR_STREAM_CAPTURE_ISOLATION, "a captured stream would depend on other work"),
    CODE(CUDA_ERROR_STREAM_CAPTURE_IMPLICIT, "the legacy stream would depend on a captured stream"),
    CODE(CUDA_ERROR_CAPTURED_EVENT, "the event was recorded in a captured stream"),
    CODE(CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD, "another thread has begun the capture"),
    CODE(CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE, "the executable graph is a different one"),
    CODE(CUDA_ERROR_UNKNOWN, "unknown error"),
};

static const size_t code_count = sizeof(codes) / sizeof(codes[0]);

static size_t find(int code)
{
    size_t i = 0;
    while (i < code_count && codes[i].code != code)
        i++;
    return i;
}

const char *cuda_code_name(int code)
{
    size_t i = find(code);
    return i < code_count ? codes[i].name : NULL;
}

const char *cuda_code_text(int code)
{
    size_t i = find(code);
    return i < code_count ? codes[i].text : NULL;
}

int cuda_code_parse(const char *name)
{
    static const char prefix[] = "CUDA_ERROR_";
    const size_t length = sizeof(prefix) - 1;
    for (size_t i = 0; i < code_count; i++) {
        const char *own = codes[i].name;
        bool shortened = strncmp(own, prefix, length) == 0 && strcasecmp(own + length, name) == 0;
        if (shortened || strcasecmp(own, name) == 0)
            return codes[i].code;
    }
    return -1;
}

const char *cuda_code_at(size_t i)
{
    return i < code_count ? codes[i].name : NULL;
}
