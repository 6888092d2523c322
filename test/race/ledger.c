/* SPDX-License-Identifier: Apache-2.0 */
/* Threads note, hold, take and end what is theirs, while the table grows: nobody loses an entry. */
#include "limiter/ledger.h"

#include <assert.h>
#include <pthread.h>

enum { THREADS = 4, ROUNDS = 200, KEYS = 500 };

static _Thread_local int ended;

static void count(const struct ledger_entry *e)
{
    assert(e->bytes == e->key);
    ended++;
}

static void use(uint64_t context, uint64_t base)
{
    struct ledger_entry got;
    for (uint64_t i = 1; i <= KEYS; i++) {
        const struct ledger_entry e = {.key = base + i,
                                       .bytes = base + i,
                                       .owner = context,
                                       .holds = 1,
                                       .kind = LEDGER_POINTER};
        ledger_put(&e);
    }
    for (uint64_t i = 1; i <= KEYS; i += 2) {
        bool ok = ledger_hold(LEDGER_POINTER, base + i, 1, &got) == 2 &&
                  ledger_take(LEDGER_POINTER, base + i, &got);
        assert(ok && got.bytes == base + i && got.holds == 2);
    }
    ended = 0;
    ledger_end(context, count);
    assert(ended == KEYS / 2);
}

static void *run(void *arg)
{
    uint64_t number = (uint64_t)(uintptr_t)arg;
    for (int round = 0; round < ROUNDS; round++)
        use(number, number << 40U);
    return NULL;
}

int main(void)
{
    pthread_t threads[THREADS];
    for (uintptr_t i = 0; i < THREADS; i++)
        (void)pthread_create(&threads[i], NULL, run, (void *)(i + 1));
    for (int i = 0; i < THREADS; i++)
        (void)pthread_join(threads[i], NULL);
    return 0;
}
