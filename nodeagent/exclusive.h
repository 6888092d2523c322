/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "nodeagent/gpu/gpu.h"

/*
 * The compute mode EXCLUSIVE_PROCESS of whole cards that are shared by MPS: with it only the MPS
 * server computes on the card, so that no process gets round its limits. It is set while it is
 * wanted, and taken back where we set it and nowhere else: a file in the state folder remembers,
 * across restarts, on which cards that was.
 */

/* Brings a card that was just read to what is wanted, and marks in it what became of that. Tells in
 * the log what fails; the next reading tries again. Blocks; the thread that owns g. */
void exclusive_settle(struct gpu *g, const char *state_dir, struct gpu_card *card, bool wanted);
