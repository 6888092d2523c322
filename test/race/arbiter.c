/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One thread hears what containers say and takes the arbiter's steps, others put and drop containers
 * and ask for their sums all the while.
 */
#include "nodeagent/arbiter/arbiter.h"

#include <assert.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

enum { WORKERS = 2, SLOTS = 4, ROUNDS = 1500 };

static struct arbiter *arbiter;
static atomic_bool over;

static struct terms *new_terms(void)
{
    auto_fd int fd = memfd_create("terms", MFD_CLOEXEC);
    int rc = ftruncate(fd, sizeof(struct terms));
    assert(rc == 0);
    void *at = mmap(NULL, sizeof(struct terms), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    assert(at != MAP_FAILED);
    return at;
}

static void put(unsigned slot, unsigned percent)
{
    struct terms *t = new_terms();
    t->n_cards = 2;
    for (unsigned i = 0; i < 2; i++) {
        t->cards[i].uuid[0] = (uint8_t)(slot + i) % 3;
        t->cards[i].percent = percent;
        t->cards[i].compute_level = LEVEL_LIBRARY;
    }
    arbiter_put(arbiter, slot, t);
}

static void *work(void *arg)
{
    const unsigned first = *(const unsigned *)arg;
    for (unsigned i = 0; i < ROUNDS; i++) {
        unsigned slot = first + i % SLOTS;
        struct arbiter_sums sums;
        if (i % 5 == 4)
            arbiter_drop(arbiter, slot);
        else
            put(slot, 10 + i % 50);
        if (arbiter_sums(arbiter, slot, 0, &sums))
            assert(sums.held_ns >= 0);
    }
    return NULL;
}

static void say(unsigned slot, unsigned i)
{
    static const enum share_word words[] = {SHARE_HELLO, SHARE_SERVES, SHARE_WANT, SHARE_DRAINED,
                                            SHARE_IDLE};
    const struct ucred from = {.pid = i % 7 ? getpid() : getppid()};
    const struct share_message m = {REGION_VERSION, words[i % 5], i % 2, i % 40, i % 3, 0};
    arbiter_hear(arbiter, slot, &from, &m);
}

static void *hear(void *arg)
{
    (void)arg;
    for (unsigned i = 0; !atomic_load(&over); i++) {
        struct pollfd p = {.fd = arbiter_fd(arbiter), .events = POLLIN};
        (void)poll(&p, 1, 0);
        say(i % (WORKERS * SLOTS + 1), i / 3);
        arbiter_step(arbiter);
    }
    return NULL;
}

int main(void)
{
    pthread_t workers[WORKERS], listener;
    unsigned firsts[WORKERS];
    int rc = arbiter_new(clock_real(), &arbiter, NULL);
    assert(rc == 0);
    (void)pthread_create(&listener, NULL, hear, NULL);
    for (unsigned i = 0; i < WORKERS; i++) {
        firsts[i] = i * SLOTS;
        (void)pthread_create(&workers[i], NULL, work, &firsts[i]);
    }
    for (unsigned i = 0; i < WORKERS; i++)
        (void)pthread_join(workers[i], NULL);
    atomic_store(&over, true);
    (void)pthread_join(listener, NULL);
    arbiter = arbiter_free(arbiter);
    (void)printf("%u rounds\n", WORKERS * ROUNDS);
    return 0;
}
