/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory of cards that several processes can hold: it stays taken until the last one has let it go,
 * or has ended, and counts once. It is that process's who shared it while that holds it, and then
 * another holder's.
 *
 * Plain data, of zeros where it is empty, in the file of CUDA's rows (cuda_rows.h), and guarded as the
 * rows are. Holders are numbers of rows; a process that is killed in a change leaves nothing but its own
 * part, which whoever finds it dead drops.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "sim/hw.h"

#define SHARED_MAX         16384
#define SHARED_MAX_HOLDERS 1024

struct shared_piece {
    uint64_t serial; /* no two pieces have the same one */
    uint64_t bytes;
    uint32_t gpu;
    uint32_t owner;                            /* who shared it */
    uint64_t holders[SHARED_MAX_HOLDERS / 64]; /* one bit each; all zero: the entry is empty */
};

struct shared_pieces {
    uint64_t serials; /* the last one given out */
    uint32_t reach;   /* entries from here on are empty */
    uint32_t unused;
    struct shared_piece pieces[SHARED_MAX];
};

/* Which piece. Zero: none. */
struct shared_name {
    uint64_t serial;
    uint32_t slot;
};

/* A new piece with one holder, who owns it. False: the table is full. */
bool shared_add(struct shared_pieces *s, uint32_t holder, uint32_t gpu, uint64_t bytes,
                struct shared_name *ret);

/* The piece of a name, or NULL when nobody holds it any more. */
struct shared_piece *shared_find(struct shared_pieces *s, struct shared_name name);

/* Adds and removes a holder; the latter returns true when it was the last one. */
void shared_hold(struct shared_piece *p, uint32_t holder);
bool shared_let_go(struct shared_pieces *s, struct shared_piece *p, uint32_t holder);
bool shared_is_held_by(const struct shared_piece *p, uint32_t holder);

/* Removes a holder from all pieces. */
void shared_forget(struct shared_pieces *s, uint32_t holder);

/* The bytes of all pieces on a card. */
uint64_t shared_bytes(const struct shared_pieces *s, uint32_t gpu);

/* Adds to each card's bytes those of the pieces that are one holder's own. */
void shared_add_own_bytes(const struct shared_pieces *s, uint32_t holder, uint64_t *bytes);
