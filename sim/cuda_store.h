/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where the bytes of cards' memory are: in files without a name, which are in the host's memory and
 * have room only where something was written. One of them is for all of the process; what other
 * processes are to have by a descriptor is in a file of its own.
 *
 * Guarded by the contexts' lock.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* A part of a file. */
struct store {
    int fd;
    uint64_t offset, bytes;
    bool is_own; /* the file is this part's alone: its descriptor is closed with it */
};

/* A new part, of zeros, in the process's file. False: the system has no more. */
bool store_take(uint64_t bytes, struct store *ret);

/* Gives it back, with its bytes unless others go on using them. */
void store_give_back(struct store *s, bool keep_bytes);

/* Maps bytes of a part over what is at `at`. False: the system cannot. */
bool store_map(const struct store *s, uint64_t offset, uint64_t bytes, char *at);
