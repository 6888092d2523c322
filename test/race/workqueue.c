/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Producers and workers on one queue: no key is ever with two workers, and after the last add of a
 * key somebody has seen what stood behind it.
 */
#include "kubeclient/workqueue.h"

#include <assert.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>

#define KEYS      16
#define PRODUCERS 4
#define WORKERS   4
#define ROUNDS    2000

static struct wq *q;
static char names[KEYS][8];
static atomic_int wanted[KEYS], seen[KEYS], busy[KEYS];

static int number_of(const struct object_key *k)
{
    return (k->name[1] - '0') * 10 + (k->name[2] - '0');
}

static void *produce(void *arg)
{
    const int seed = *(int *)arg;
    for (int i = 0; i < ROUNDS; i++) {
        int n = (i * 7 + seed) % KEYS;
        const struct object_key k = {.ns = "ns", .name = names[n]};
        atomic_fetch_add(&wanted[n], 1);
        if (i % 5 == 0)
            wq_add_after(q, &k, i % 3);
        wq_add(q, &k);
    }
    return NULL;
}

static void *work(void *arg)
{
    (void)arg;
    struct object_key k;
    while (wq_get(q, &k)) {
        int n = number_of(&k);
        assert(atomic_fetch_add(&busy[n], 1) == 0);
        atomic_store(&seen[n], atomic_load(&wanted[n]));
        if (n % 4 == 0)
            wq_forget(q, &k);
        atomic_fetch_sub(&busy[n], 1);
        wq_done(q, &k);
    }
    return NULL;
}

int main(void)
{
    pthread_t producers[PRODUCERS];
    pthread_t workers[WORKERS];
    int seeds[PRODUCERS];
    q = wq_new("race", clock_real());
    for (int i = 0; i < KEYS; i++)
        (void)snprintf(names[i], sizeof(names[i]), "k%02d", i);
    for (int i = 0; i < WORKERS; i++)
        (void)pthread_create(&workers[i], NULL, work, NULL);
    for (int i = 0; i < PRODUCERS; i++) {
        seeds[i] = i;
        (void)pthread_create(&producers[i], NULL, produce, &seeds[i]);
    }
    for (int i = 0; i < PRODUCERS; i++)
        (void)pthread_join(producers[i], NULL);
    wq_shut_down(q);
    wq_drain(q);
    for (int i = 0; i < WORKERS; i++)
        (void)pthread_join(workers[i], NULL);
    for (int i = 0; i < KEYS; i++)
        assert(atomic_load(&seen[i]) == atomic_load(&wanted[i]));
    (void)wq_free(q);
    return 0;
}
