/* SPDX-License-Identifier: Apache-2.0 */
#include "limiter/charge.h"

#include <pthread.h>
#include <string.h>

#include "limiter/device.h"
#include "limiter/overhead.h"
#include "limiter/pools.h"
#include "limiter/share.h"

/* Assumed, as it is seen with CUDA 11 and later: the card gives out granules of 2 MiB; pieces below
 * 1 MiB share one, in units of 512 bytes. */
#define GRANULE    (UINT64_C(2) << 20U)
#define SMALL      (UINT64_C(1) << 20U)
#define SMALL_UNIT UINT64_C(512)
#define PITCH      UINT64_C(512)

static pthread_mutex_t mu = PTHREAD_MUTEX_INITIALIZER;

/* Of each card: the sum of the small pieces, for which granules are taken. */
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

bool charge_take(int card, uint64_t bytes)
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

void charge_give_back(int card, uint64_t bytes)
{
    if (card < 0)
        return;
    if (bytes < SMALL)
        give_small_back(card, bytes);
    else
        share_give_back(card, round_up(bytes, GRANULE));
}

CUresult charge_begin_on(struct charge *c, int card, uint64_t bytes)
{
    *c = (struct charge){.bytes = bytes, .card = card};
    overhead_follow(card);
    if (charge_take(card, bytes))
        return CUDA_SUCCESS;
    c->card = -1;
    return CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult charge_begin(struct charge *c, uint64_t bytes)
{
    struct here here;
    *c = (struct charge){.card = -1};
    CUresult rc = here_now(&here);
    if (rc == CUDA_SUCCESS)
        rc = charge_begin_on(c, here.card, bytes);
    c->context = (uint64_t)(uintptr_t)here.context;
    return rc;
}

CUresult charge_end(const struct charge *c, CUresult rc, enum ledger_kind kind, const uint64_t *key)
{
    if (c->card < 0)
        return rc;
    if (rc != CUDA_SUCCESS) {
        charge_give_back(c->card, c->bytes);
        return rc;
    }
    const struct ledger_entry e = {.key = *key,
                                   .bytes = c->bytes,
                                   .owner = c->context,
                                   .kind = (uint8_t)kind,
                                   .card = (int8_t)c->card,
                                   .holds = 1};
    ledger_put(&e);
    return rc;
}

bool charge_free_begin(enum ledger_kind kind, uint64_t key, struct ledger_entry *ret)
{
    return ledger_take(kind, key, ret);
}

CUresult charge_free_end(bool known, const struct ledger_entry *e, CUresult rc)
{
    if (known && rc == CUDA_SUCCESS)
        charge_give_back(e->card, e->bytes);
    else if (known)
        ledger_put(e);
    return rc;
}

static void give_entry_back(const struct ledger_entry *e)
{
    charge_give_back(e->card, e->bytes);
}

void charge_end_context(uint64_t context)
{
    ledger_end(context, give_entry_back);
}
