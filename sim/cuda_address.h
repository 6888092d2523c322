/* SPDX-License-Identifier: Apache-2.0 */
/* Addresses of this process behind which nothing is: where cards' memory is mapped. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* Reserves addresses from a multiple of `alignment` (a power of two) on, at `hint` if that is free, in
 * the lowest 2 GiB if `low`. NULL: there are no more. */
char *address_reserve(uint64_t bytes, uint64_t alignment, uint64_t hint, bool low);

/* Takes away what was mapped over reserved addresses. False: the system cannot. */
bool address_clear(char *at, uint64_t bytes);

/* Ends a reservation, with what is mapped there. */
void address_release(char *at, uint64_t bytes);
