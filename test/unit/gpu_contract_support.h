/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "nodeagent/gpu/gpu.h"

/*
 * What every back end promises, whatever its cards are (nodeagent/gpu/gpu.h, "What each verb
 * promises" in docs/adding-a-vendor.md): one suite for all of them.
 */

/* Fails the test where a promise is not kept. open opens the back end anew, each time on the same
 * hardware: at least two cards, all of them well. */
void gpu_contract_check(struct gpu *(*open)(void));
