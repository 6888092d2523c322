/* SPDX-License-Identifier: Apache-2.0 */
/* NVML's devices, as cards of the container's share. */
#pragma once

#include "limiter/nvml_abi.h"

/*
 * The device's card in the share's terms; -1: it is none of the share's, and is shown as it is. Fails
 * as NVML does for a device that is not there, and with NO_PERMISSION where the container has no
 * terms: what is anybody's on the card is not shown then.
 */
nvmlReturn_t nvml_card_of(nvmlDevice_t device, int *ret_card);
