/* SPDX-License-Identifier: Apache-2.0 */
/* Faults as people write them: "nvmlGpuInstanceDestroy:2:fail:IN_USE", "*:5:kill". */
#pragma once

#include "sim/state.h"

/* "fail:CODE" (number or name, with or without NVML_ERROR_), "hang:SECONDS", "kill", "kill-after".
 */
bool fault_parse_action(const char *text, struct fault *ret);

/* A call's name, "*" or "mutating". */
bool fault_parse_call(const char *text, struct fault *ret);

/* "CALL:NTH:ACTION"; NTH 0 fires each time. */
bool fault_parse(const char *text, struct fault *ret);

/* Writes the call's and the action's text. */
void fault_print(const struct fault *fault, char *ret_call, size_t call_size, char *ret_action,
                 size_t action_size);

/* The return code of that name or number, or -1. */
int nvml_code_parse(const char *text);

/* "IN_USE", "SUCCESS" ...; "999" style numbers for codes without a name. Static. */
const char *nvml_code_name(int code);

/* What nvmlErrorString says of it. Static. */
const char *nvml_code_text(int code);
