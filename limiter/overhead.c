/* SPDX-License-Identifier: Apache-2.0 */
#include "limiter/overhead.h"

#include <pthread.h>
#include <string.h>

#include "limiter/share.h"

static pthread_mutex_t mu = PTHREAD_MUTEX_INITIALIZER;

/* Of each card: the contexts, and what was taken for each. `each` is read without the lock, too. */
static struct {
    uint64_t contexts, each;
} cards[REGION_MAX_CARDS];

static void forget_after_fork(void)
{
    (void)pthread_mutex_init(&mu, NULL);
    memset(cards, 0, sizeof(cards));
}

__attribute__((constructor)) static void watch_forks(void)
{
    (void)pthread_atfork(/* prepare= */ NULL, /* parent= */ NULL, forget_after_fork);
}

static uint64_t told(int card)
{
    return __atomic_load_n(&share_terms(card)->context_bytes, __ATOMIC_RELAXED);
}

/* Locked. */
static void note(int card)
{
    uint64_t n = cards[card].contexts;
    share_note_contexts(card, n, n * cards[card].each);
}

/* Locked. A limit may be passed by what is there already. */
static void follow(int card)
{
    uint64_t n = cards[card].contexts, was = cards[card].each, each = told(card);
    if (each > was)
        share_take_anyway(card, n * (each - was));
    else
        share_give_back(card, n * (was - each));
    __atomic_store_n(&cards[card].each, each, __ATOMIC_RELAXED);
    note(card);
}

void overhead_follow(int card)
{
    if (card < 0 || __atomic_load_n(&cards[card].each, __ATOMIC_RELAXED) == told(card))
        return;
    (void)pthread_mutex_lock(&mu);
    follow(card);
    (void)pthread_mutex_unlock(&mu);
}

bool overhead_take(int card)
{
    if (card < 0)
        return true;
    (void)pthread_mutex_lock(&mu);
    follow(card);
    bool ok = share_take(card, cards[card].each);
    if (ok)
        cards[card].contexts++;
    note(card);
    (void)pthread_mutex_unlock(&mu);
    return ok;
}

void overhead_give_back(int card)
{
    if (card < 0)
        return;
    (void)pthread_mutex_lock(&mu);
    cards[card].contexts--;
    share_give_back(card, cards[card].each);
    note(card);
    (void)pthread_mutex_unlock(&mu);
}
