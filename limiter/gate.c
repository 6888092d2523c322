/* SPDX-License-Identifier: Apache-2.0 */
#include "limiter/gate.h"

#include <errno.h>
#include <linux/futex.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "limiter/device.h"
#include "limiter/flight.h"
#include "limiter/mono.h"
#include "limiter/new_thread.h"
#include "limiter/raw.h"
#include "limiter/real.h"
#include "limiter/streams.h"

#define NO_TURN UINT32_MAX

/* Without work for so long the turn is given back. */
static const struct timespec idle_time = {.tv_nsec = 1000000};
/* After a look without work, which a second one confirms. */
static const struct timespec half_time = {.tv_nsec = 500000};
static const struct timespec short_time = {.tv_nsec = 100000};
/* An agent that says nothing for so long is gone (region.h). */
#define AWAY_NS MONO_S
/* How long it is not told again after it did not hear. */
#define UNHEARD_NS (100 * MONO_MS)

/* All atomic. */
static struct {
    uint32_t entering; /* pieces of work between gate_enter and gate_leave */
    uint32_t waiting;
    uint32_t launches;
    uint32_t told;       /* the turn of which WANT was said last */
    uint32_t idle;       /* the turn of which IDLE was said */
    uint64_t unheard_ns; /* when a word of TELL was not heard */
    uint32_t away_beat;  /* the beat at which the agent was taken for gone ... */
    bool away;           /* ... if it was */
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

/* Until the word is another one and somebody says so, or the time is over; NULL: no time. The word
 * may be one that can only be read here. */
static void wait_for_change(const uint32_t *word, uint32_t seen, const struct timespec *time)
{
    (void)syscall(SYS_futex, word, FUTEX_WAIT, seen, time, NULL, 0);
}

struct gate_state {
    uint32_t gate, turn;
};

static struct gate_state gate_state(int card)
{
    const uint64_t both = __atomic_load_n(&share_terms(card)->gate_and_turn, __ATOMIC_SEQ_CST);
    struct gate_state s;
    memcpy(&s, &both, sizeof(s));
    return s;
}

/* --- Entering --- */

static bool want(int card, uint32_t turn)
{
    if (__atomic_exchange_n(&cards[card].told, turn, __ATOMIC_SEQ_CST) == turn ||
        share_tell(SHARE_WANT, card, turn))
        return true;
    store(&cards[card].told, NO_TURN);
    return false;
}

/* Work goes on meanwhile: an agent that does not hear is not told at each launch. */
static void tell_first(int card, uint32_t turn)
{
    uint64_t *unheard = &cards[card].unheard_ns;
    if (load(&cards[card].told) == turn ||
        mono_ns() - __atomic_load_n(unheard, __ATOMIC_RELAXED) < UNHEARD_NS)
        return;
    if (!want(card, turn))
        __atomic_store_n(unheard, mono_ns(), __ATOMIC_RELAXED);
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

/* How long one thread has waited at a closed gate. Signals and beats do not begin it anew. */
struct patience {
    uint64_t heard_ns; /* when the beat last changed ... */
    uint64_t told_ns;  /* ... and when the agent was last told that there is work */
    uint32_t beat;
    bool waits;
};

/* A thread counts as waiting from its first look at the gate until it has passed, so that the
 * process is never taken for idle meanwhile. */
static void begin_waiting(struct patience *p, int card, uint32_t seen, uint64_t now)
{
    *p = (struct patience){.heard_ns = now, .told_ns = now, .beat = seen, .waits = true};
    add(&cards[card].waiting, 1);
}

/* Words may be lost: it is said again each second. */
static void tell(struct patience *p, int card, uint32_t turn, uint64_t now)
{
    if (now - p->told_ns >= AWAY_NS) {
        store(&cards[card].told, NO_TURN);
        p->told_ns = want(card, turn) ? now : p->told_ns;
    } else {
        (void)want(card, turn);
    }
}

/* False: the agent has been silent for too long, or could not be told. */
static bool wait_closed(struct patience *p, int card, uint32_t seen, uint32_t turn)
{
    uint64_t now = mono_ns();
    if (!p->waits)
        begin_waiting(p, card, seen, now);
    tell(p, card, turn, now);
    if (seen != p->beat) {
        p->beat = seen;
        p->heard_ns = now;
    }
    if (now - p->told_ns >= 2 * AWAY_NS)
        return false;
    if (now - p->heard_ns < AWAY_NS) {
        const struct timespec left = mono_span(p->heard_ns + AWAY_NS - now);
        wait_for_change(share_beat(), seen, &left);
        return true;
    }
    store(&cards[card].away_beat, seen);
    __atomic_store_n(&cards[card].away, true, __ATOMIC_RELAXED);
    return false;
}

/* The gate, if it lets work pass, else GATE_CLOSED. What is entering is counted before the gate is
 * read, so that it is seen by whoever closes the gate afterwards. */
static uint32_t try_to_pass(int card, uint32_t seen, uint32_t *ret_turn)
{
    add(&cards[card].entering, 1);
    const struct gate_state s = gate_state(card);
    *ret_turn = s.turn;
    if (s.gate == GATE_TELL)
        tell_first(card, s.turn);
    if (s.gate == GATE_TURN)
        want_again(card, s.turn);
    if (s.gate == GATE_CLOSED && is_away(card, seen))
        return GATE_TURN;
    if (s.gate == GATE_CLOSED)
        add(&cards[card].entering, UINT32_MAX);
    return s.gate;
}

static uint32_t pass(int card)
{
    struct patience p = {0};
    uint32_t turn = 0, seen = beat(), gate = try_to_pass(card, seen, &turn);
    while (gate == GATE_CLOSED && wait_closed(&p, card, seen, turn)) {
        seen = beat();
        gate = try_to_pass(card, seen, &turn);
    }
    if (gate == GATE_CLOSED)
        add(&cards[card].entering, 1);
    if (p.waits)
        add(&cards[card].waiting, UINT32_MAX);
    return gate;
}

static bool is_bounded(int card)
{
    return gate_state(card).gate == GATE_TURN;
}

/* The process is not taken for idle meanwhile. */
static void hold(const struct gate_pass *g)
{
    uint64_t early = is_bounded(g->card) ? flight_early(g->context, g->stream) : 0;
    if (early < RAW_LOOK_NS)
        return;
    add(&cards[g->card].waiting, 1);
    raw_sleep(early);
    add(&cards[g->card].waiting, UINT32_MAX);
}

void gate_enter(struct gate_pass *g, CUstream stream)
{
    struct here here;
    int saved = errno;
    *g = (struct gate_pass){.card = -1, .stream = stream};
    if (!streams_is_captured(stream) && here_now(&here) == CUDA_SUCCESS && here.card >= 0) {
        g->card = here.card;
        g->context = here.context;
        gate_serve(g->card);
        hold(g);
        g->bounded = pass(g->card) != GATE_OPEN;
        add(&cards[g->card].launches, 1);
    }
    errno = saved;
}

/* Work counts as entering only until the card has it: a thread that waits here, for older work, holds
 * up nobody who closes the gate. */
CUresult gate_leave(const struct gate_pass *g, CUresult rc)
{
    if (g->card < 0)
        return rc;
    int saved = errno;
    bool is_given = g->bounded && rc == CUDA_SUCCESS;
    struct flight_bound bound = {0};
    if (is_given)
        bound = flight_add(g->card, g->context, g->stream);
    add(&cards[g->card].entering, UINT32_MAX);
    if (bound.oldest != NULL)
        flight_wait(g->context, g->stream, &bound, is_bounded, g->card);
    errno = saved;
    return rc;
}

/* --- Answering --- */

static bool is_turn(int card, uint32_t turn)
{
    return gate_state(card).turn == turn;
}

/* Waits until work that had passed the gate is given to the card, and until the card has done it.
 * False: the next turn came first. */
static bool drain(int card, uint32_t turn)
{
    uint32_t entering = 0;
    uint64_t look = RAW_LOOK_NS;
    while ((entering = load(&cards[card].entering)) != 0 && is_turn(card, turn))
        wait_for_change(&cards[card].entering, entering, &short_time);
    enum flight_look which = FLIGHT_LOOK_FIRST;
    while (is_turn(card, turn) && !flight_is_empty(card, which)) {
        which = FLIGHT_LOOK_AGAIN;
        raw_look(&look);
    }
    return is_turn(card, turn);
}

struct server {
    int card;
    uint32_t answered; /* the closed turn that was answered last */
    uint32_t launches; /* as they were when one last looked */
    uint32_t before;   /* ... and as they were when the gate was closed last */
    bool is_drained;   /* the answer was DRAINED: perhaps there is more to do */
    bool is_idle;  /* at the last look: nothing was launched since the one before, or in flight */
    bool was_used; /* something was launched between the last two closings */
    uint32_t returned; /* the turn that was given back in order to have it with other cards */
};

static bool is_used(const struct server *s)
{
    return load(&cards[s->card].launches) != s->before;
}

/* --- Several cards ---
 *
 * A thread that waits at one card's gate will go on with the cards that it has used lately. They are
 * wanted until then, so that it has them all at the same time: a kernel that waits for those on other
 * cards would work on none of them. */

enum elsewhere { NOBODY_WAITS, SOMEBODY_PASSES, SOMEBODY_WAITS };

static enum elsewhere look_elsewhere(int card)
{
    enum elsewhere found = NOBODY_WAITS;
    for (int i = 0; i < REGION_MAX_CARDS; i++) {
        if (i == card || load(&cards[i].waiting) == 0)
            continue;
        if (gate_state(i).gate == GATE_CLOSED)
            return SOMEBODY_WAITS;
        found = SOMEBODY_PASSES;
    }
    return found;
}

/* False: nobody who has used this card waits at another one's gate. */
static bool wait_for_others(struct server *s, uint32_t turn)
{
    enum elsewhere other = s->was_used || is_used(s) ? look_elsewhere(s->card) : NOBODY_WAITS;
    if (other == SOMEBODY_WAITS && s->returned != turn && share_tell(SHARE_DRAINED, s->card, turn))
        s->returned = turn;
    return other != NOBODY_WAITS;
}

/* --- --- */

static bool has_launched(struct server *s)
{
    uint32_t launches = load(&cards[s->card].launches);
    bool more = launches != s->launches;
    s->launches = launches;
    return more || load(&cards[s->card].waiting) != 0;
}

/* A program that has given the card work will have more, as a rule, as soon as that is done:
 * whether it is idle is told a little later. False: the agent did not hear it. True, too, where the
 * next turn came first: it is answered instead. */
static bool answer_closed(struct server *s, uint32_t turn)
{
    if (!drain(s->card, turn))
        return true;
    uint32_t launches = load(&cards[s->card].launches);
    s->was_used = is_used(s);
    s->before = launches;
    s->is_drained = launches != 0 || load(&cards[s->card].waiting) != 0;
    return share_tell(s->is_drained ? SHARE_DRAINED : SHARE_IDLE, s->card, turn);
}

/* True while one has to look again soon. */
static bool watch_closed(struct server *s, uint32_t turn)
{
    if (s->answered != turn) {
        if (!answer_closed(s, turn))
            return true;
        s->answered = turn;
        return s->is_drained;
    }
    if (s->is_drained && s->was_used && look_elsewhere(s->card) != NOBODY_WAITS)
        return true;
    if (s->is_drained && load(&cards[s->card].waiting) == 0)
        (void)share_tell(SHARE_IDLE, s->card, turn);
    s->is_drained = false;
    return false;
}

static bool has_work(struct server *s)
{
    return has_launched(s) || load(&cards[s->card].entering) != 0 ||
           !flight_is_empty(s->card, FLIGHT_LOOK);
}

/* It is noted before one looks again: who launches meanwhile either is seen here, or sees it and
 * says that there is work (want_again). */
static void give_turn_back(int card, uint32_t turn)
{
    uint32_t said = turn;
    uint32_t launches = load(&cards[card].launches);
    store(&cards[card].idle, turn);
    bool more = load(&cards[card].entering) != 0 || load(&cards[card].launches) != launches;
    if (!more)
        (void)share_tell(SHARE_IDLE, card, turn);
    else
        (void)__atomic_compare_exchange_n(&cards[card].idle, &said, NO_TURN, false,
                                          __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
}

/* One look may fall between two pieces of a program that waits for each: two in a row are believed. */
static const struct timespec *watch_turn(struct server *s, uint32_t turn)
{
    bool was_idle = s->is_idle;
    s->is_idle = load(&cards[s->card].idle) != turn && !has_work(s) && is_turn(s->card, turn);
    if (was_idle && s->is_idle && !wait_for_others(s, turn))
        give_turn_back(s->card, turn);
    return s->is_idle ? &half_time : &idle_time;
}

/* How long until the next look; NULL: until something changes. */
static const struct timespec *serve_once(struct server *s)
{
    const struct gate_state g = gate_state(s->card);
    if (g.gate == GATE_TURN)
        return watch_turn(s, g.turn);
    s->is_idle = false;
    return g.gate == GATE_CLOSED && watch_closed(s, g.turn) ? &idle_time : NULL;
}

static void *serve(void *card)
{
    struct server s = {.card = (int)(intptr_t)card, .answered = NO_TURN, .returned = NO_TURN};
    (void)share_tell(SHARE_SERVES, s.card, /* turn= */ 0);
    /* Looks at the card are 20 microseconds apart, and the kernel's usual slack is 50. */
    (void)prctl(PR_SET_TIMERSLACK, 1);
    /* A capture in another thread is not ended by what this one asks. */
    int relaxed = CU_STREAM_CAPTURE_MODE_RELAXED;
    (void)also.cuThreadExchangeStreamCaptureMode(&relaxed);
    for (;;) {
        uint32_t seen = beat();
        wait_for_change(share_beat(), seen, serve_once(&s));
    }
    return NULL;
}

void gate_serve(int card)
{
    if (card < 0 || __atomic_load_n(&cards[card].served, __ATOMIC_RELAXED) ||
        __atomic_exchange_n(&cards[card].served, true, __ATOMIC_SEQ_CST))
        return;
    sigset_t all, old;
    (void)sigfillset(&all);
    (void)sigprocmask(SIG_SETMASK, &all, &old);
    if (!new_thread(serve, (void *)(intptr_t)card))
        __atomic_store_n(&cards[card].served, false, __ATOMIC_SEQ_CST);
    (void)sigprocmask(SIG_SETMASK, &old, NULL);
}
