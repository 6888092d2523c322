/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A port's thread owes answers and collects them, while others give them, children end, and at last
 * the port goes before all are given: every answer is collected once or goes nowhere.
 */
#include "service/http_reply.h"

#include <assert.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>

#include "base/xalloc.h"

enum { GIVERS = 3, SEATS = 32, ROUNDS = 3000, CHILD_ROUNDS = 50 };

/* Replies on their way from the port to those who give them. */
static struct desk {
    pthread_mutex_t mu; /* guards what follows */
    pthread_cond_t changed;
    struct http_reply *seats[SEATS];
    size_t n;
    bool closed;
} desk = {.mu = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};

static struct http_reply *next_reply(void)
{
    HOLD(&desk.mu);
    while (desk.n == 0 && !desk.closed)
        (void)pthread_cond_wait(&desk.changed, &desk.mu);
    return desk.n ? desk.seats[--desk.n] : NULL;
}

static void *give_all(void *arg)
{
    auto_sb struct sb body = SB_INIT(16);
    (void)arg;
    sb_add(&body, "{}");
    for (struct http_reply *r; (r = next_reply());)
        http_reply_give(r, 200, &body);
    return NULL;
}

/* False: all seats are taken. */
static bool hand_on(struct http_replies *port, uint16_t question)
{
    HOLD(&desk.mu);
    if (desk.n == SEATS)
        return false;
    struct http_reply *reply = http_replies_owe(port, question);
    if (!reply)
        return false;
    desk.seats[desk.n++] = reply;
    (void)pthread_cond_signal(&desk.changed);
    return true;
}

static size_t collect(struct http_replies *port)
{
    struct pollfd given = {.fd = http_replies_fd(port), .events = POLLIN};
    size_t n = 0;
    (void)poll(&given, 1, 0);
    for (struct http_reply *r; (r = http_replies_collect(port)); n++)
        (void)http_reply_free(r);
    return n;
}

int main(void)
{
    pthread_t givers[GIVERS];
    struct http_replies *port = http_replies_new();
    size_t owed = 0;
    size_t collected = 0;
    for (size_t i = 0; i < GIVERS; i++)
        assert(pthread_create(&givers[i], NULL, give_all, NULL) == 0);
    for (unsigned i = 0; i < ROUNDS; i++) {
        owed += hand_on(port, (uint16_t)(i % SEATS));
        collected += collect(port);
        if (i % CHILD_ROUNDS == 0)
            http_replies_next_child(port);
    }
    (void)http_replies_free(port);
    {
        HOLD(&desk.mu);
        desk.closed = true;
        (void)pthread_cond_broadcast(&desk.changed);
    }
    for (size_t i = 0; i < GIVERS; i++)
        assert(pthread_join(givers[i], NULL) == 0);
    assert(collected <= owed);
    printf("%zu replies, %zu collected\n", owed, collected);
    return 0;
}
