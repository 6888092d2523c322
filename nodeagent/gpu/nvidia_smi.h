/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/err.h"

/*
 * The one thing NVML cannot do: resetting a card. NVIDIA's tools run nvidia-smi for it, and so do
 * we, with a clean environment, bounded time and bounded output. Blocks; any thread.
 */

/* Runs `<nvidia_smi> --gpu-reset -i <bus_id>`. ERR_UNAVAILABLE: clients are still there, or it did
 * not work; ERR_INVALID: this machine cannot reset the card; ERR_TIMEOUT: it took longer than
 * timeout_ms and was killed; ERR_NOT_FOUND: no such program; ERR_SYSTEM. The message quotes what
 * the program said. */
int nvidia_smi_reset(const char *nvidia_smi, const char *bus_id, int timeout_ms,
                     struct err *e) MUST_CHECK;
