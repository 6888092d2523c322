/* SPDX-License-Identifier: Apache-2.0 */
#include "nodeagent/arbiter/arbiter.h"

#include <assert.h>
#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "base/xalloc.h"

#include "nodeagent/arbiter/members.h"
#include "nodeagent/arbiter/turns.h"

#define US_NS   INT64_C(1000)
#define BEAT_NS INT64_C(200000000) /* of containers that wait: five times a second (region.h) */

enum { EVENTS = 32, EXPIRED = 0 };

/* What an event of the epoll is about, besides the members. */
#define OF_TIMER UINT64_MAX
#define OF_KICK  (UINT64_MAX - 1)

struct container {
    struct terms *terms;
    unsigned claims[REGION_MAX_CARDS]; /* of each claim, the index of its card in terms */
    unsigned cards[REGION_MAX_CARDS];  /* ... and the node's number of that card */
    unsigned n;
    struct members *members;
    bool waits; /* a gate is closed, or it is its turn: it is to hear the beat */
};

struct arbiter {
    const struct clock *clock;
    int timer, kick;
    pthread_mutex_t mu;        /* guards what follows */
    struct member_watch watch; /* its epoll is everybody's, and stays */
    struct turns *turns;
    struct container *containers[ARBITER_MAX_SLOTS];
    unsigned n_waiting;                 /* of these */
    uint8_t cards[TURNS_MAX_CARDS][16]; /* UUIDs; a card keeps its number */
    unsigned n_cards;
    int64_t beaten; /* when waiting containers were last told that the agent is there */
    int64_t armed;  /* what the timer is set to; -1: nothing; EXPIRED: it is to be set again */
};

static_assert((int)ARBITER_MAX_SLOTS <= (int)TURNS_MAX_SHARES, "a share for each slot");

static int64_t now_ns(const struct arbiter *a)
{
    return clock_mono_us(a->clock) * US_NS;
}

/* --- Life --- */

static int watch(struct arbiter *a, int fd, uint64_t about, struct err *e)
{
    struct epoll_event ev = {.events = EPOLLIN, .data.u64 = about};
    if (fd < 0 || epoll_ctl(a->watch.epoll, EPOLL_CTL_ADD, fd, &ev) < 0)
        return err_set_errno(e, errno, "arbiter of cards");
    return 0;
}

static int open_all(struct arbiter *a, struct err *e)
{
    a->watch.epoll = epoll_create1(EPOLL_CLOEXEC);
    if (a->watch.epoll < 0)
        return err_set_errno(e, errno, "arbiter of cards");
    a->timer = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
    TRY(watch(a, a->timer, OF_TIMER, e));
    a->kick = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    return watch(a, a->kick, OF_KICK, e);
}

/* Half of the agent's descriptors are for the rest of it. */
static unsigned most_watched(void)
{
    struct rlimit files;
    if (getrlimit(RLIMIT_NOFILE, &files) < 0 || files.rlim_cur > INT_MAX)
        return INT_MAX / 2;
    return (unsigned)files.rlim_cur / 2;
}

int arbiter_new(const struct clock *clk, struct arbiter **ret, struct err *e)
{
    auto_arbiter struct arbiter *a = xcalloc(1, sizeof(*a));
    a->clock = clk;
    a->watch = (struct member_watch){.epoll = -1, .most = most_watched()};
    a->timer = a->kick = -1;
    a->armed = -1;
    a->turns = turns_new();
    (void)pthread_mutex_init(&a->mu, NULL);
    TRY(open_all(a, e));
    *ret = TAKE(a);
    return 0;
}

static struct container *container_free(struct container *c)
{
    if (!c)
        return NULL;
    members_free(c->members);
    (void)munmap(c->terms, sizeof(*c->terms));
    free(c);
    return NULL;
}

/* --- Gates --- */

/* NOLINTNEXTLINE(readability-non-const-parameter): the builtin writes there */
static void store32(uint32_t *word, uint32_t value)
{
    __atomic_store_n(word, value, __ATOMIC_SEQ_CST);
}

static bool is_waiting(const struct container *c)
{
    for (unsigned i = 0; i < c->n; i++) {
        uint32_t gate = c->terms->cards[c->claims[i]].gate;
        if (gate == GATE_CLOSED || gate == GATE_TURN)
            return true;
    }
    return false;
}

static void set_waits(struct arbiter *a, struct container *c, bool waits)
{
    a->n_waiting += waits;
    a->n_waiting -= c->waits;
    c->waits = waits;
}

static uint32_t count_heeded(const struct terms *t)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < t->n_cards && i < REGION_MAX_CARDS; i++)
        n += t->cards[i].gate != GATE_OPEN;
    return n;
}

/* Those that wait look at the gates again. */
static void beat(struct terms *t)
{
    store32(&t->beat, t->beat + 1);
    (void)syscall(SYS_futex, &t->beat, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

static void write_gate(struct terms *t, unsigned card, const struct turns_change *c)
{
    const struct terms_card draft = {.gate = c->gate, .turn = c->turn};
    struct terms_card *at = &t->cards[card];
    __atomic_store_n(&at->turn_ends, (uint64_t)c->ends, __ATOMIC_SEQ_CST);
    __atomic_store_n(&at->gate_and_turn, draft.gate_and_turn, __ATOMIC_SEQ_CST);
    store32(&t->heed, count_heeded(t));
    beat(t);
}

/* A gate that is open already is not told anew. */
static void open_gates(struct terms *t)
{
    bool changed = t->heed != 0;
    for (uint32_t i = 0; i < REGION_MAX_CARDS; i++) {
        changed = changed || t->cards[i].gate != GATE_OPEN;
        store32(&t->cards[i].gate, GATE_OPEN);
    }
    store32(&t->heed, 0);
    if (changed)
        beat(t);
}

/* Nobody is to wait for what nobody decides any more. */
static void let_go(struct arbiter *a, unsigned slot)
{
    struct container *c = a->containers[slot];
    if (!c)
        return;
    open_gates(c->terms);
    set_waits(a, c, false);
    a->containers[slot] = container_free(c);
}

struct arbiter *arbiter_free(struct arbiter *a)
{
    if (!a)
        return NULL;
    for (unsigned i = 0; i < ARBITER_MAX_SLOTS; i++)
        let_go(a, i);
    turns_free(a->turns);
    for (const int *fd = (const int[]){a->watch.epoll, a->timer, a->kick, -1}; *fd >= 0; fd++)
        (void)close(*fd);
    (void)pthread_mutex_destroy(&a->mu);
    free(a);
    return NULL;
}

/* --- Containers; locked --- */

static unsigned number_of(struct arbiter *a, const uint8_t uuid[16])
{
    for (unsigned i = 0; i < a->n_cards; i++)
        if (memcmp(a->cards[i], uuid, 16) == 0)
            return i;
    if (a->n_cards < TURNS_MAX_CARDS)
        memcpy(a->cards[a->n_cards], uuid, 16);
    return a->n_cards < TURNS_MAX_CARDS ? a->n_cards++ : TURNS_MAX_CARDS;
}

/* The cards of a container on which it takes turns. */
static unsigned list_claims(struct arbiter *a, struct container *c, struct turns_claim *ret)
{
    for (uint32_t i = 0; i < c->terms->n_cards && i < REGION_MAX_CARDS; i++) {
        const struct terms_card *card = &c->terms->cards[i];
        unsigned number = number_of(a, card->uuid);
        if (card->compute_level != LEVEL_LIBRARY || number == TURNS_MAX_CARDS)
            continue;
        ret[c->n] = (struct turns_claim){.card = number,
                                         .percent = card->percent,
                                         .priority = card->priority,
                                         .is_capped = card->is_capped != 0,
                                         .turn = card->turn};
        c->cards[c->n] = number;
        c->claims[c->n++] = i;
    }
    return c->n;
}

/* Its cards; and not only the numbers that they have in its terms. */
static bool is_same(const struct container *old, const struct container *c)
{
    return old && old->n == c->n && memcmp(old->claims, c->claims, sizeof(old->claims)) == 0 &&
           memcmp(old->cards, c->cards, sizeof(old->cards)) == 0;
}

static void put(struct arbiter *a, unsigned slot, struct container *c)
{
    struct turns_claim claims[REGION_MAX_CARDS];
    struct container *old = a->containers[slot];
    unsigned n = list_claims(a, c, claims);
    a->containers[slot] = c;
    if (n == 0)
        turns_remove(a->turns, slot);
    else if (is_same(old, c))
        turns_change(a->turns, slot, claims);
    else
        turns_add(a->turns, slot, claims, n, now_ns(a));
    if (old) {
        members_swap(old->members, c->members);
        set_waits(a, old, false);
    }
    if (n == 0)
        open_gates(c->terms);
    set_waits(a, c, is_waiting(c));
}

/* --- Waiting --- */

static void kick(const struct arbiter *a)
{
    const uint64_t one = 1;
    ssize_t n = write(a->kick, &one, sizeof(one));
    (void)n; /* it is full: somebody is about to look */
}

static void take_kick(const struct arbiter *a)
{
    uint64_t count = 0;
    ssize_t n = read(a->kick, &count, sizeof(count));
    (void)n; /* somebody has read it */
}

/* at: -1 never. */
static void set_timer(struct arbiter *a, int64_t at)
{
    struct itimerspec spec = {0};
    if (at == a->armed)
        return;
    a->armed = at;
    if (at >= 0) {
        int64_t ns = at > 0 ? at : 1;
        spec.it_value.tv_sec = (time_t)(ns / 1000000000);
        spec.it_value.tv_nsec = (long)(ns % 1000000000);
    }
    (void)timerfd_settime(a->timer, TFD_TIMER_ABSTIME, &spec, NULL);
}

/* --- For any thread --- */

/* An event about a container's first member; its others follow. */
static uint64_t about(unsigned slot)
{
    return (uint64_t)slot << 32U;
}

void arbiter_put(struct arbiter *a, unsigned slot, struct terms *take_terms)
{
    struct container *c = xcalloc(1, sizeof(*c));
    assert(slot < ARBITER_MAX_SLOTS);
    *c = (struct container){.terms = take_terms, .members = members_new(&a->watch, about(slot))};
    HOLD(&a->mu);
    struct container *old = a->containers[slot];
    put(a, slot, c);
    container_free(old);
    kick(a);
}

void arbiter_drop(struct arbiter *a, unsigned slot)
{
    assert(slot < ARBITER_MAX_SLOTS);
    HOLD(&a->mu);
    turns_remove(a->turns, slot);
    let_go(a, slot);
    kick(a);
}

static int claim_of(const struct container *c, unsigned card)
{
    for (unsigned i = 0; i < c->n; i++)
        if (c->claims[i] == card)
            return (int)i;
    return -1;
}

bool arbiter_sums(struct arbiter *a, unsigned slot, unsigned card, struct arbiter_sums *ret)
{
    HOLD(&a->mu);
    const struct container *c = slot < ARBITER_MAX_SLOTS ? a->containers[slot] : NULL;
    int claim = c ? claim_of(c, card) : -1;
    if (claim < 0)
        return false;
    const struct turns_sums s = turns_sums(a->turns, slot, (unsigned)claim);
    *ret = (struct arbiter_sums){s.held_ns, s.throttled_ns, s.overruns};
    return true;
}

/* --- What is said; locked --- */

/* False: it has ended, and is no member any more. */
static bool meet(struct arbiter *a, unsigned slot, struct container *c, pid_t pid, unsigned member)
{
    enum member_news news = members_meet(c->members, member, pid);
    if (news == MEMBER_OTHER)
        turns_gone(a->turns, slot, member);
    return news != MEMBER_ENDED;
}

static void hear(struct arbiter *a, unsigned slot, unsigned claim, const struct share_message *m)
{
    switch (m->word) {
    case SHARE_SERVES:
        turns_serve(a->turns, slot, claim, m->slot);
        break;
    case SHARE_WANT:
        turns_want(a->turns, slot, claim, m->slot);
        break;
    case SHARE_DRAINED:
    case SHARE_IDLE:
        turns_answer(a->turns, slot, claim, m->slot, m->turn, m->word == SHARE_IDLE);
        break;
    default:
        break;
    }
}

void arbiter_hear(struct arbiter *a, unsigned slot, const struct ucred *from,
                  const struct share_message *m)
{
    HOLD(&a->mu);
    struct container *c = slot < ARBITER_MAX_SLOTS ? a->containers[slot] : NULL;
    int claim = c && from->pid > 0 && m->slot < REGION_MAX_PROCESSES ? claim_of(c, m->card) : -1;
    if (claim < 0)
        return;
    if (meet(a, slot, c, from->pid, m->slot))
        hear(a, slot, (unsigned)claim, m);
}

/* --- Steps; locked --- */

static void forget(struct arbiter *a, uint64_t what)
{
    unsigned slot = (unsigned)(what >> 32U), member = (unsigned)(what & UINT32_MAX);
    struct container *c = slot < ARBITER_MAX_SLOTS ? a->containers[slot] : NULL;
    if (!c || !members_leave(c->members, member))
        return;
    turns_gone(a->turns, slot, member);
}

static void take_events(struct arbiter *a)
{
    struct epoll_event ready[EVENTS];
    int n = epoll_wait(a->watch.epoll, ready, EVENTS, /* timeout= */ 0);
    for (int i = 0; i < n; i++) {
        if (ready[i].data.u64 == OF_TIMER)
            a->armed = EXPIRED; /* which ends, too, that it is readable */
        else if (ready[i].data.u64 == OF_KICK)
            take_kick(a);
        else
            forget(a, ready[i].data.u64);
    }
}

static void beat_all(struct arbiter *a)
{
    for (unsigned i = 0; i < ARBITER_MAX_SLOTS; i++)
        if (a->containers[i] && a->containers[i]->waits)
            beat(a->containers[i]->terms);
}

/* Returns when the next beat is due; -1: nobody waits. */
static int64_t keep_beat(struct arbiter *a, int64_t now)
{
    if (a->n_waiting == 0)
        return -1;
    if (now - a->beaten >= BEAT_NS) {
        beat_all(a);
        a->beaten = now;
    }
    return a->beaten + BEAT_NS;
}

static int64_t sooner(int64_t a, int64_t b)
{
    return a < 0 || (b >= 0 && b < a) ? b : a;
}

void arbiter_step(struct arbiter *a)
{
    struct turns_change change;
    HOLD(&a->mu);
    take_events(a);
    int64_t now = now_ns(a);
    int64_t next = turns_step(a->turns, now);
    while (turns_next_change(a->turns, &change)) {
        struct container *c = a->containers[change.share];
        write_gate(c->terms, c->claims[change.claim], &change);
        set_waits(a, c, is_waiting(c));
    }
    set_timer(a, sooner(next, keep_beat(a, now)));
}

int arbiter_fd(const struct arbiter *a)
{
    return a->watch.epoll;
}
