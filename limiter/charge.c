/* SPDX-License-Identifier: Apache-2.0 */
#include "limiter/charge.h"

#include <pthread.h>
#include <string.h>

#include "limiter/device.h"
#include "limiter/overhead.h"
#include "limiter/pieces.h"
#include "limiter/pools.h"
#include "limiter/real.h"
#include "limiter/share.h"

#define GRANULE    PIECES_GRANULE
#define SMALL      PIECES_BELOW
#define SMALL_UNIT UINT64_C(512)
#define PITCH      UINT64_C(512)

static pthread_mutex_t mu = PTHREAD_MUTEX_INITIALIZER;

/* Sums, by card, of small allocations without an address (arrays, external memory): granules are
 * taken for them as if they lay without gaps. */
static uint64_t small_bytes[REGION_MAX_CARDS];

static void forget_after_fork(void)
{
    (void)pthread_mutex_init(&mu, NULL);
    memset(small_bytes, 0, sizeof(small_bytes));
}

__attribute__((constructor)) static void watch_forks(void)
{
    (void)pthread_atfork(/* prepare= */ NULL, /* parent= */ NULL, forget_after_fork);
}

static uint64_t round_up(uint64_t bytes, uint64_t unit)
{
    return (bytes + unit - 1) / unit * unit;
}

uint64_t charge_pitch(uint64_t width)
{
    return width < UINT64_MAX - PITCH ? round_up(width, PITCH) : UINT64_MAX;
}

static bool take_small(int card, uint64_t bytes)
{
    (void)pthread_mutex_lock(&mu);
    uint64_t before = small_bytes[card], after = before + round_up(bytes, SMALL_UNIT);
    uint64_t more = round_up(after, GRANULE) - round_up(before, GRANULE);
    bool ok = more == 0 || share_take(card, more);
    if (ok)
        small_bytes[card] = after;
    (void)pthread_mutex_unlock(&mu);
    return ok;
}

static void give_small_back(int card, uint64_t bytes)
{
    (void)pthread_mutex_lock(&mu);
    uint64_t before = small_bytes[card], after = before - round_up(bytes, SMALL_UNIT);
    uint64_t less = round_up(before, GRANULE) - round_up(after, GRANULE);
    small_bytes[card] = after;
    if (less != 0)
        share_give_back(card, less);
    (void)pthread_mutex_unlock(&mu);
}

static bool take(int card, uint64_t bytes)
{
    if (card < 0)
        return true;
    if (bytes < SMALL)
        return take_small(card, bytes);
    if (bytes > UINT64_MAX - GRANULE)
        return false;
    bytes = round_up(bytes, GRANULE);
    if (share_take(card, bytes))
        return true;
    pools_settle(); /* they may have let go of some */
    return share_take(card, bytes);
}

static void give_back(int card, uint64_t bytes)
{
    if (card < 0)
        return;
    if (bytes < SMALL)
        give_small_back(card, bytes);
    else
        share_give_back(card, round_up(bytes, GRANULE));
}

/* --- Small pieces with an address --- */

static bool is_piece(unsigned int kind, uint64_t bytes)
{
    return kind == LEDGER_POINTER && bytes < SMALL;
}

static struct piece piece_of(const struct charge *c)
{
    return (struct piece){.bytes = c->bytes,
                          .context = c->context,
                          .card = c->card,
                          .is_trial = c->is_trial};
}

static bool begin_piece(struct charge *c)
{
    struct piece p = piece_of(c);
    bool ok = pieces_begin(&p);
    c->is_trial = p.is_trial;
    return ok;
}

static CUresult end_piece(const struct charge *c, CUresult rc, uint64_t address)
{
    const struct piece p = piece_of(c);
    if (rc == CUDA_SUCCESS && pieces_add(&p, address))
        return rc;
    pieces_refused(&p);
    if (rc == CUDA_SUCCESS)
        (void)real.cuMemFree_v2(address);
    return rc != CUDA_SUCCESS ? rc : CUDA_ERROR_OUT_OF_MEMORY;
}

/* --- */

static CUresult begin(struct charge *c)
{
    overhead_follow(c->card);
    if (is_piece(c->kind, c->bytes) ? begin_piece(c) : take(c->card, c->bytes))
        return CUDA_SUCCESS;
    c->card = -1;
    return CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult charge_begin_on(struct charge *c, enum ledger_kind kind, int card, uint64_t bytes)
{
    *c = (struct charge){.bytes = bytes, .card = card, .kind = (uint8_t)kind};
    return begin(c);
}

CUresult charge_begin(struct charge *c, enum ledger_kind kind, uint64_t bytes)
{
    struct here here;
    CUresult rc = here_now(&here);
    *c = (struct charge){.bytes = bytes,
                         .context = here.is_unknown ? 0 : (uint64_t)(uintptr_t)here.context,
                         .card = rc == CUDA_SUCCESS ? here.card : -1,
                         .kind = (uint8_t)kind};
    return rc == CUDA_SUCCESS ? begin(c) : rc;
}

static CUresult settle(const struct charge *c, CUresult rc, const uint64_t *key)
{
    if (is_piece(c->kind, c->bytes))
        return end_piece(c, rc, rc == CUDA_SUCCESS ? *key : 0);
    if (rc != CUDA_SUCCESS)
        give_back(c->card, c->bytes);
    return rc;
}

CUresult charge_end(const struct charge *c, CUresult rc, const uint64_t *key)
{
    if (c->card < 0)
        return rc;
    rc = settle(c, rc, key);
    if (rc != CUDA_SUCCESS)
        return rc;
    const struct ledger_entry e = {.key = *key,
                                   .bytes = c->bytes,
                                   .owner = c->context,
                                   .kind = c->kind,
                                   .card = (int8_t)c->card,
                                   .holds = 1};
    ledger_put(&e);
    return rc;
}

void charge_give_back(const struct ledger_entry *e)
{
    give_back(e->card, e->bytes);
}

static bool is_counted_piece(const struct ledger_entry *e)
{
    return is_piece(e->kind, e->bytes) && e->card >= 0;
}

void charge_free_begin(struct charge_free *f, enum ledger_kind kind, uint64_t key)
{
    *f = (struct charge_free){0};
    f->is_known = ledger_take(kind, key, &f->entry);
    if (f->is_known && is_counted_piece(&f->entry))
        f->was_last = pieces_leave(key);
}

static void stay(const struct charge_free *f)
{
    const struct piece p = {.bytes = f->entry.bytes,
                            .context = f->entry.owner,
                            .card = f->entry.card};
    if (is_counted_piece(&f->entry))
        pieces_stay(&p, f->entry.key, f->was_last);
    ledger_put(&f->entry);
}

CUresult charge_free_end(const struct charge_free *f, CUresult rc)
{
    if (!f->is_known)
        return rc;
    if (rc != CUDA_SUCCESS)
        stay(f);
    else if (is_counted_piece(&f->entry))
        pieces_left(f->entry.card, f->entry.bytes, f->was_last);
    else
        charge_give_back(&f->entry);
    return rc;
}

/* The ledger may not be asked meanwhile: the granules of pieces are entries of their own. */
static void end_entry(const struct ledger_entry *e)
{
    if (e->kind == LEDGER_GRANULE)
        pieces_end_granule(e->card);
    else if (is_counted_piece(e))
        pieces_end(e->card, e->bytes);
    else
        give_back(e->card, e->bytes);
}

void charge_end_context(uint64_t context)
{
    ledger_end(context, end_entry);
}
