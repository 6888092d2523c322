/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <assert.h>
#include <string.h>

#include "nodeagent/gpu/gpu.h"
#include "nodeagent/gpu/sound.h"

/*
 * What a back end promises of a reading (nodeagent/gpu/gpu.h), whatever the vendor's library says,
 * and that a status made of it is one that the API server takes.
 */

/* The text ends within its array. */
#define ENDS(text) assert(memchr(text, '\0', sizeof(text)))

void check_card(const struct gpu_card *c);
void check_inventory(const struct gpu_inventory *inv);
/* Measures a card: what is measured is sound, or no number. */
void check_measure(struct gpu *g, const char *uuid);
