/* SPDX-License-Identifier: Apache-2.0 */
#include "limiter/gate.h"

#include <errno.h>
#include <linux/futex.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "limiter/device.h"
#include "limiter/flight.h"
#include "limiter/live_contexts.h"
#include "limiter/new_thread.h"
#include "limiter/real.h"

#define NO_TURN UINT32_MAX

/* Without work for so long the turn is given back. */
static const struct timespec idle_time = {.tv_nsec = 1000000};
static const struct timespec short_time = {.tv_nsec = 100000};
/* An agent that says nothing for so long is gone (region.h). */
static const struct timespec away_time = {.tv_sec = 1};

/* All atomic. */
static struct {
    uint32_t entering; /* pieces of work between gate_enter and gate_leave */
    uint32_t waiting;
    uint32_t launches;
    uint32_t told;      /* the turn of which WANT was said last */
    uint32_t idle;      /* the turn of which IDLE was said */
    uint32_t away_beat; /* the beat at which the agent was taken for gone ... */
    bool away;          /* ... if it was */
    bool served;
} cards[REGION_MAX_CARDS];

static void reset(void)
{
    memset(cards, 0, sizeof(cards));
    for (unsigned int i = 0; i < REGION_MAX_CARDS; i++)
        cards[i].told = cards[i].idle = NO_TURN;
}

__attribute__((constructor)) static void begin(void)
{
    reset();
    (void)pthread_atfork(/* prepare= */ NULL, /* parent= */ NULL, reset);
}

static uint32_t load(const uint32_t *word)
{
    return __atomic_load_n(word, __ATOMIC_SEQ_CST);
}

static void store(uint32_t *word, uint32_t value)
{
    __atomic_store_n(word, value, __ATOMIC_SEQ_CST);
}

static void add(uint32_t *word, uint32_t n)
{
    (void)__atomic_fetch_add(word, n, __ATOMIC_SEQ_CST);
}

static uint32_t beat(void)
{
    return load(share_beat());
}

/* Until the word is another one and somebody says so, or the time is over; NULL: no time. False:
 * the time was over. The word may be one that can only be read here. */
static bool wait_for_change(const uint32_t *word, uint32_t seen, const struct timespec *time)
{
    return syscall(SYS_futex, word, FUTEX_WAIT, seen, time, NULL, 0) == 0 || errno != ETIMEDOUT;
}

/* --- Entering --- */

static void want(int card, uint32_t turn)
{
    if (__atomic_exchange_n(&cards[card].told, turn, __ATOMIC_SEQ_CST) != turn &&
        !share_tell(SHARE_WANT, card, turn))
        store(&cards[card].told, NO_TURN);
}

/* Who has said IDLE in this turn has work again. */
static void want_again(int card, uint32_t turn)
{
    uint32_t said = turn;
    if (__atomic_compare_exchange_n(&cards[card].idle, &said, NO_TURN, false, __ATOMIC_SEQ_CST,
                                    __ATOMIC_SEQ_CST))
        (void)share_tell(SHARE_WANT, card, turn);
}

static bool is_away(int card, uint32_t seen)
{
    return __atomic_load_n(&cards[card].away, __ATOMIC_RELAXED) &&
           load(&cards[card].away_beat) == seen;
}

/* False: the agent was silent all the time. */
static bool wait_closed(int card, uint32_t seen)
{
    add(&cards[card].waiting, 1);
    bool heard = wait_for_change(share_beat(), seen, &away_time);
    add(&cards[card].waiting, UINT32_MAX);
    return heard || beat() != seen;
}

/* The gate, once it lets work pass. What is entering is counted before the gate is read, so that it
 * is seen by whoever closes the gate afterwards. */
static uint32_t pass(int card)
{
    const struct terms_card *t = share_terms(card);
    for (;;) {
        uint32_t seen = beat();
        add(&cards[card].entering, 1);
        uint32_t gate = load(&t->gate), turn = load(&t->turn);
        if (gate == GATE_TELL)
            want(card, turn);
        if (gate == GATE_TURN)
            want_again(card, turn);
        if (gate != GATE_CLOSED || is_away(card, seen))
            return gate;
        add(&cards[card].entering, UINT32_MAX);
        want(card, turn);
        if (!wait_closed(card, seen)) {
            store(&cards[card].away_beat, seen);
            __atomic_store_n(&cards[card].away, true, __ATOMIC_RELAXED);
        }
    }
}

void gate_enter(struct gate_pass *g, CUstream stream)
{
    struct here here;
    int saved = errno;
    *g = (struct gate_pass){.card = -1, .stream = stream};
    if (here_now(&here) == CUDA_SUCCESS && here.card >= 0) {
        g->card = here.card;
        g->context = here.context;
        g->bounded = pass(g->card) != GATE_OPEN;
        add(&cards[g->card].launches, 1);
    }
    errno = saved;
}

CUresult gate_leave(const struct gate_pass *g, CUresult rc)
{
    if (g->card < 0)
        return rc;
    if (g->bounded && rc == CUDA_SUCCESS)
        flight_add(g->card, g->context, g->stream);
    add(&cards[g->card].entering, UINT32_MAX);
    return rc;
}

/* --- Answering --- */

static bool is_turn(int card, uint32_t turn)
{
    return load(&share_terms(card)->turn) == turn;
}

/* What has passed the gate before it was closed is given to the card, and then waited for. */
static void drain(int card, uint32_t turn)
{
    uint32_t entering = 0;
    while ((entering = load(&cards[card].entering)) != 0 && is_turn(card, turn))
        wait_for_change(&cards[card].entering, entering, &short_time);
    live_contexts_synchronize(card);
}

struct server {
    int card;
    uint32_t answered; /* the closed turn that was answered last */
    uint32_t settled;  /* the turn before which nothing was in flight that is not known */
    uint32_t launches; /* as they were when one last looked */
    bool is_drained;   /* the answer was DRAINED: perhaps there is more to do */
};

static bool has_launched(struct server *s)
{
    uint32_t launches = load(&cards[s->card].launches);
    bool more = launches != s->launches;
    s->launches = launches;
    return more || load(&cards[s->card].waiting) != 0;
}

/* A program that has given the card work will have more, as a rule, as soon as that is done: whether
 * it is idle is told a little later. */
static void answer_closed(struct server *s, uint32_t turn)
{
    drain(s->card, turn);
    s->is_drained = load(&cards[s->card].launches) != 0 || load(&cards[s->card].waiting) != 0;
    (void)share_tell(s->is_drained ? SHARE_DRAINED : SHARE_IDLE, s->card, turn);
}

/* True while one has to look again soon. */
static bool watch_closed(struct server *s, uint32_t turn)
{
    if (s->answered != turn) {
        s->answered = turn;
        answer_closed(s, turn);
        return s->is_drained;
    }
    if (s->is_drained && load(&cards[s->card].waiting) == 0)
        (void)share_tell(SHARE_IDLE, s->card, turn);
    s->is_drained = false;
    return false;
}

/* What went through the open gate was not counted: it is waited for before one tells when nothing is
 * in flight. */
static void settle(struct server *s, uint32_t turn)
{
    if (s->settled == turn)
        return;
    if (s->answered + 1 != turn)
        live_contexts_synchronize(s->card);
    s->settled = turn;
    (void)has_launched(s);
}

static bool has_work(struct server *s)
{
    return has_launched(s) || load(&cards[s->card].entering) != 0 || !flight_is_empty(s->card);
}

static bool watch_turn(struct server *s, uint32_t turn)
{
    settle(s, turn);
    if (load(&cards[s->card].idle) != turn && !has_work(s) && is_turn(s->card, turn)) {
        store(&cards[s->card].idle, turn);
        (void)share_tell(SHARE_IDLE, s->card, turn);
    }
    return true;
}

static bool serve_once(struct server *s)
{
    const struct terms_card *t = share_terms(s->card);
    uint32_t gate = load(&t->gate), turn = load(&t->turn);
    if (gate == GATE_TURN)
        return watch_turn(s, turn);
    return gate == GATE_CLOSED && watch_closed(s, turn);
}

static void *serve(void *card)
{
    struct server s = {.card = (int)(intptr_t)card, .answered = NO_TURN, .settled = NO_TURN};
    (void)share_tell(SHARE_SERVES, s.card, /* turn= */ 0);
    int relaxed = 2; /* a capture in another thread is not ended by what this one waits for */
    (void)also.cuThreadExchangeStreamCaptureMode(&relaxed);
    for (;;) {
        uint32_t seen = beat();
        bool soon = serve_once(&s);
        (void)wait_for_change(share_beat(), seen, soon ? &idle_time : NULL);
    }
    return NULL;
}

void gate_serve(int card)
{
    if (card < 0 || __atomic_exchange_n(&cards[card].served, true, __ATOMIC_SEQ_CST))
        return;
    sigset_t all, old;
    (void)sigfillset(&all);
    (void)sigprocmask(SIG_SETMASK, &all, &old);
    if (!new_thread(serve, (void *)(intptr_t)card))
        __atomic_store_n(&cards[card].served, false, __ATOMIC_SEQ_CST);
    (void)sigprocmask(SIG_SETMASK, &old, NULL);
}
