/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "nodeagent/vendor/nvidia/nvml_abi.h"

/*
 * NVIDIA's library as the program itself has it, which tells what cannot be. Opened as library "":
 * with glibc that is the program, whose functions are exported (hack/targets.mk).
 */

/* Static text, one of those in nvml_mad.c; "" is sane. */
void nvml_mad_about(const char *what);
/* Bytes that change answers, borrowed until they are used up. */
void nvml_mad_feed(const uint8_t *bytes, size_t n);

/* For nvml_mad_telemetry.c, the part of the library that measures. */
int nvml_mad_is(const char *what);
/* The return code, after bytes changed the answer of this size. */
nvml_ret nvml_mad_answer(nvml_ret sane, void *ret, size_t size);
unsigned nvml_mad_number(unsigned sane);
