/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "nodeagent/gpu/gpu.h"

/*
 * The compute mode EXCLUSIVE_PROCESS of whole cards that are shared by MPS. With it only the MPS
 * server computes on the card, so no process gets round its limits. The mode is set while it is
 * wanted. It is taken back only on cards where the agent set it; the file <uuid>.exclusive in
 * the state folder remembers those across restarts.
 */

/* Sets or takes back the mode of a card that was just read, and marks the result in the card. Logs
 * a failure; the next reading tries again. Blocks; a worker's thread that has the card in hand. */
void exclusive_settle(struct gpu *g, const char *state_dir, struct gpu_card *card, bool wanted);
