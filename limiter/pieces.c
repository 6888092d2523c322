/* SPDX-License-Identifier: Apache-2.0 */
#include "limiter/pieces.h"

#include <pthread.h>
#include <string.h>

#include "limiter/ledger.h"
#include "limiter/live_contexts.h"
#include "limiter/pools.h"
#include "limiter/share.h"

#define UNIT UINT64_C(512)

/* Of each card, atomic: what the pieces have together, and their granules. */
static struct {
    uint64_t bytes, granules;
} cards[REGION_MAX_CARDS];

static void forget_after_fork(void)
{
    memset(cards, 0, sizeof(cards));
}

__attribute__((constructor)) static void watch_forks(void)
{
    (void)pthread_atfork(/* prepare= */ NULL, /* parent= */ NULL, forget_after_fork);
}

static uint64_t load(const uint64_t *word)
{
    return __atomic_load_n(word, __ATOMIC_RELAXED);
}

static void add(uint64_t *word, uint64_t n)
{
    (void)__atomic_fetch_add(word, n, __ATOMIC_RELAXED);
}

static uint64_t rounded(uint64_t bytes)
{
    return (bytes + UNIT - 1) / UNIT * UNIT;
}

static bool take_granule(int card)
{
    if (share_take(card, PIECES_GRANULE))
        return true;
    pools_settle(); /* they may have let go of some */
    return share_take(card, PIECES_GRANULE);
}

static bool may_fit(const struct piece *p)
{
    return load(&cards[p->card].bytes) + rounded(p->bytes) <=
           load(&cards[p->card].granules) * PIECES_GRANULE;
}

/* One process of the container at a time tries what may need a granule too many, so that the
 * container has never more than one of these; who would have to wait for it is refused. */
bool pieces_begin(struct piece *p)
{
    p->is_trial = p->card >= 0 && !take_granule(p->card);
    if (!p->is_trial)
        return true;
    if (!may_fit(p))
        return false;
    return share_trial_begin();
}

void pieces_refused(const struct piece *p)
{
    if (p->is_trial)
        share_trial_end();
    else if (p->card >= 0)
        share_give_back(p->card, PIECES_GRANULE);
}

/* With the context's end all its granules are free. */
static struct ledger_entry granule_of(const struct piece *p, uint64_t address)
{
    return (struct ledger_entry){.key = address / PIECES_GRANULE,
                                 .bytes = PIECES_GRANULE,
                                 .owner = p->context,
                                 .kind = LEDGER_GRANULE,
                                 .card = (int8_t)p->card,
                                 .holds = 1};
}

static void count_granule(int card)
{
    add(&cards[card].granules, 1);
}

static void take_anyway(int card)
{
    share_take_anyway(card, PIECES_GRANULE);
    count_granule(card);
}

static bool has_ended(uint64_t context)
{
    return context != 0 &&
           live_contexts_card((CUcontext)(uintptr_t)context) == LIVE_CONTEXTS_UNKNOWN;
}

/* True: its granule is new, and has to be taken. A context that has ended may not have given back
 * yet what it had at this address. */
static bool join(const struct piece *p, uint64_t address)
{
    struct ledger_entry old;
    const struct ledger_entry e = granule_of(p, address);
    bool is_new = ledger_join(&e, has_ended, &old);
    if (old.kind != 0)
        pieces_end_granule(old.card);
    return is_new;
}

/* Another thread's piece may have come to it meanwhile, for which it has to count. */
static void leave_untaken(const struct piece *p, uint64_t address)
{
    if (!pieces_leave(address))
        take_anyway(p->card);
}

static bool add_tried(const struct piece *p, uint64_t address)
{
    if (!join(p, address))
        return true;
    if (share_take(p->card, PIECES_GRANULE)) {
        count_granule(p->card);
        return true;
    }
    leave_untaken(p, address);
    return false;
}

static void add_reserved(const struct piece *p, uint64_t address)
{
    if (join(p, address))
        count_granule(p->card);
    else
        share_give_back(p->card, PIECES_GRANULE);
}

bool pieces_add(const struct piece *p, uint64_t address)
{
    if (p->card < 0)
        return true;
    if (!p->is_trial)
        add_reserved(p, address);
    else if (!add_tried(p, address))
        return false;
    add(&cards[p->card].bytes, rounded(p->bytes));
    if (p->is_trial)
        share_trial_end();
    return true;
}

void pieces_end_granule(int card)
{
    add(&cards[card].granules, UINT64_MAX);
    share_give_back(card, PIECES_GRANULE);
}

void pieces_end(int card, uint64_t bytes)
{
    add(&cards[card].bytes, UINT64_C(0) - rounded(bytes));
}

bool pieces_leave(uint64_t address)
{
    struct ledger_entry e;
    return ledger_hold(LEDGER_GRANULE, address / PIECES_GRANULE, -1, &e) == 0;
}

void pieces_left(int card, uint64_t bytes, bool was_last)
{
    pieces_end(card, bytes);
    if (was_last)
        pieces_end_granule(card);
}

void pieces_stay(const struct piece *p, uint64_t address, bool was_last)
{
    bool is_new = join(p, address);
    if (was_last && !is_new)
        pieces_end_granule(p->card);
    else if (!was_last && is_new)
        take_anyway(p->card);
}
