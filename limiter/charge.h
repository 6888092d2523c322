/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What an allocation takes of the share. Room is taken before the card is asked, so that no two
 * processes can have the same bytes, and given back when the card refuses.
 *
 *    struct charge c;
 *    CUresult rc = charge_begin(&c, bytes);
 *    if (rc == CUDA_SUCCESS)
 *        rc = real.cuMemAlloc_v2(pointer, bytes);
 *    return charge_end(&c, rc, LEDGER_POINTER, pointer);
 */
#pragma once

#include "limiter/cuda_abi.h"
#include "limiter/ledger.h"

struct charge {
    uint64_t bytes, context;
    int card;
};

/* Takes room on the card of the current context: OUT_OF_MEMORY beyond the limit. */
CUresult charge_begin(struct charge *c, uint64_t bytes);
/* The same on a card that is named, for what no context's end frees. */
CUresult charge_begin_on(struct charge *c, int card, uint64_t bytes);
/* Notes under which key it is freed, or gives it back where rc says that nothing was allocated. key
 * is read only where rc is SUCCESS. Returns rc. */
CUresult charge_end(const struct charge *c, CUresult rc, enum ledger_kind kind,
                    const uint64_t *key);

/* Begins to free, which charge_free_end ends. Between them another thread may be given the same
 * address. */
bool charge_free_begin(enum ledger_kind kind, uint64_t key, struct ledger_entry *ret);
CUresult charge_free_end(bool known, const struct ledger_entry *e, CUresult rc);

/* Bytes of a row of this width, as the card pads it; saturates. */
uint64_t charge_pitch(uint64_t width);

/* What bytes of linear memory take: the card gives granules, of which small allocations have a part. */
void charge_give_back(int card, uint64_t bytes);
bool charge_take(int card, uint64_t bytes);

/* Everything that was allocated in this context is free. */
void charge_end_context(uint64_t context);
