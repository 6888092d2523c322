/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What an allocation takes of the share. Room is taken before the card is asked, so that no two
 * processes can have the same bytes, and given back when the card refuses.
 *
 *    struct charge c;
 *    CUresult rc = charge_begin(&c, LEDGER_POINTER, bytes);
 *    if (rc == CUDA_SUCCESS)
 *        rc = real.cuMemAlloc_v2(pointer, bytes);
 *    return charge_end(&c, rc, pointer);
 */
#pragma once

#include "limiter/cuda_abi.h"
#include "limiter/ledger.h"

struct charge {
    uint64_t bytes, context;
    int card;      /* -1: it is not counted */
    uint8_t kind;  /* enum ledger_kind */
    bool is_trial; /* pieces.h */
};

/* Takes room on the card of the current context: OUT_OF_MEMORY beyond the limit. Ended by
 * charge_end, whatever it returned. */
CUresult charge_begin(struct charge *c, enum ledger_kind kind, uint64_t bytes);
/* The same on a card that is named, for what no context's end frees. */
CUresult charge_begin_on(struct charge *c, enum ledger_kind kind, int card, uint64_t bytes);
/* Notes under which key it is freed, or gives it back where rc says that nothing was allocated. key
 * is read only where rc is SUCCESS. Returns rc, or OUT_OF_MEMORY where there is no room for where
 * the card has put it; it is freed then. */
CUresult charge_end(const struct charge *c, CUresult rc, const uint64_t *key);

struct charge_free {
    struct ledger_entry entry;
    bool is_known; /* it is in the ledger */
    bool was_last; /* pieces.h */
};

/* Begins to free, which charge_free_end ends. Between them another thread may be given the same
 * address. Returns rc. */
void charge_free_begin(struct charge_free *f, enum ledger_kind kind, uint64_t key);
CUresult charge_free_end(const struct charge_free *f, CUresult rc);

/* Bytes of a row of this width, as the card pads it; saturates. */
uint64_t charge_pitch(uint64_t width);

/* Gives back what was taken for an entry that is out of the ledger. */
void charge_give_back(const struct ledger_entry *e);

/* Everything that was allocated in this context is free. */
void charge_end_context(uint64_t context);
