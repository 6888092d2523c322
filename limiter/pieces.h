/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Small pieces of linear memory, of which the card puts several into one granule. A granule is taken
 * with its first piece and given back with its last. In which one a piece is shows when it is there,
 * by its address: before, a whole one is taken, and given back where the piece needed none.
 *
 * Any thread may call anything.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* Assumed, as it is seen with CUDA 11 and later: the card gives out granules of 2 MiB; pieces below
 * 1 MiB share one, in units of 512 bytes. */
#define PIECES_GRANULE (UINT64_C(2) << 20U)
#define PIECES_BELOW   (UINT64_C(1) << 20U)

struct piece {
    uint64_t bytes, context;
    int card;
    bool is_trial; /* there was no room for a granule, but there may be some in those that it has */
};

/* Before the card is asked. False: there is no room. Else one of the next two follows. */
bool pieces_begin(struct piece *p);
/* The card has refused, or the piece was freed again. */
void pieces_refused(const struct piece *p);
/* It is there. False: it needed a granule that there is no room for, and has to be freed. */
bool pieces_add(const struct piece *p, uint64_t address);

/* Before one is freed, so that whoever is given its place is the granule's first. True: it was its
 * last. The next or the one after it follows. */
bool pieces_leave(uint64_t address);
void pieces_left(int card, uint64_t bytes, bool was_last);
/* It could not be freed. */
void pieces_stay(const struct piece *p, uint64_t address, bool was_last);

/* A piece, and a granule (LEDGER_GRANULE), that end with their context. */
void pieces_end(int card, uint64_t bytes);
void pieces_end_granule(int card);
