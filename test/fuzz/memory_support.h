/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stddef.h>

/*
 * How much memory is in use, and was at most: what an input is answered with is freed before it
 * could be looked at. Counts under a sanitizer only, whose allocator tells; elsewhere all is 0.
 */

/* Bytes in use now. The first call begins the counting. */
size_t memory_used(void);
/* The most since the last call of memory_mark. */
size_t memory_peak(void);
void memory_mark(void);

/* Descriptors that are open. */
size_t memory_descriptors(void);
