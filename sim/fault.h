/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The notation of faults: "nvmlGpuInstanceDestroy:2:fail:IN_USE", "*:5:kill",
 * "mxSmlCreateSgpu:1:fail:SysfsWriteError:EROFS".
 */
#pragma once

#include "sim/state.h"

/*
 * Parses "fail:CODE", "hang:SECONDS", "kill" or "kill-after". CODE is a number or a name: NVML's
 * with or without NVML_ERROR_, CUDA's with or without CUDA_ERROR_, MXSML's optionally followed by
 * the name or number of an errno. The call was parsed before: the codes are its library's.
 */
bool fault_parse_action(const char *text, struct fault *ret);

/* A call's name, "*" or "mutating". */
bool fault_parse_call(const char *text, struct fault *ret);

/* "CALL:NTH:ACTION"; NTH 0 fires at each call. */
bool fault_parse(const char *text, struct fault *ret);

/* Writes the call's and the action's text. */
void fault_print(const struct fault *fault, char *ret_call, size_t call_size, char *ret_action,
                 size_t action_size);

/* The name of a return code of that library (ANY: NVML's). Static. */
const char *code_name(enum call_library library, int code);

/* The i-th failure with a name in a library; NULL after the last. Not for ANY. Static. */
const char *code_at(enum call_library library, size_t i);

/* "NVML"; ANY: "any library". Static. */
const char *library_name(enum call_library library);

/* The return code of NVML of that name or number, or -1. */
int nvml_code_parse(const char *text);

/* "IN_USE", "SUCCESS" ...; "999" style numbers for codes without a name. Static. */
const char *nvml_code_name(int code);

/* The text of nvmlErrorString for it. Static. */
const char *nvml_code_text(int code);
