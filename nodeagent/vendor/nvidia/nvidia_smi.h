/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/err.h"

/*
 * Resets a card, the one thing that NVML cannot do. NVIDIA's tools run nvidia-smi for it, and so
 * does the agent: with a clean environment, bounded time and bounded output. Blocks; any thread.
 */

/* Runs `<nvidia_smi> --gpu-reset -i <bus_id>`. The message quotes the program's output.
 * ERR_UNAVAILABLE: clients still use the card, or the reset failed; ERR_INVALID: this machine
 * cannot reset the card; ERR_TIMEOUT: killed after timeout_ms; ERR_NOT_FOUND: no such program;
 * ERR_SYSTEM. */
int nvidia_smi_reset(const char *nvidia_smi, const char *bus_id, int timeout_ms,
                     struct err *e) MUST_CHECK;
