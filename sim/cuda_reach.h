/* SPDX-License-Identifier: Apache-2.0 */
/* Which memory copies and settings reach. Guarded by the contexts' lock. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Whose an address is said to be. */
enum side { SIDE_DEVICE, SIDE_HOST, SIDE_EITHER };

/* Is it memory that the driver knows, and may be read or written? */
bool reach_knows(uint64_t address, size_t bytes, bool writes);

/* Can a copy use it? *ret_pageable: it is the program's own, which the driver does not know. False:
 * it is nothing of the kind that it is said to be. */
bool reach_find(uint64_t address, size_t bytes, enum side side, bool writes, bool *ret_pageable);

/* Fills memory with a value of 1, 2 or 4 bytes. */
void reach_fill(void *at, unsigned int width, uint32_t value, size_t bytes);
