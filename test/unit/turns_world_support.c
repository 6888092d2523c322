/* SPDX-License-Identifier: Apache-2.0 */
#include "test/unit/turns_world_support.h"

#include <criterion/criterion.h>
#include <stdlib.h>

#define NO_TURN UINT32_MAX

#define IDLE_TIME MS

/* --- Making --- */

struct world *world_new(uint64_t seed)
{
    struct world *w = calloc(1, sizeof(*w));
    cr_assert(w);
    rng_init(&w->rng, seed);
    w->t = turns_new();
    w->now = w->start = w->forgotten = 1000 * SEC;
    w->next = -1;
    return w;
}

void world_free(struct world *w)
{
    turns_free(w->t);
    free(w);
}

void world_share(struct world *w, unsigned share, const struct turns_claim *claims, unsigned n)
{
    turns_add(w->t, share, claims, n, w->now);
}

struct process *world_process(struct world *w, unsigned share, unsigned claim, unsigned card,
                              int64_t piece)
{
    cr_assert(w->n < WORLD_PROCESSES);
    struct process *p = &w->processes[w->n];
    int in_a_ms = (int)(MS / piece);
    *p = (struct process){.share = share,
                          .claim = claim,
                          .member = w->n,
                          .card = card,
                          .piece = piece,
                          .gap = -1,
                          .depth = in_a_ms < 2    ? 2
                                   : in_a_ms > 63 ? 63
                                                  : in_a_ms,
                          .queue = 64,
                          .peer = -1,
                          .gate = GATE_TELL,
                          .told = NO_TURN,
                          .said_idle = NO_TURN,
                          .answered = NO_TURN,
                          .drained_at = FOREVER,
                          .ready_at = w->now,
                          .busy_at = w->now,
                          .asked_at = w->now};
    w->n++;
    turns_serve(w->t, share, claim, p->member);
    return p;
}

struct process *world_worker(struct world *w, unsigned share, unsigned percent, int64_t piece)
{
    const struct turns_claim claim = {.card = 0, .percent = percent};
    world_share(w, share, &claim, 1);
    return world_process(w, share, 0, 0, piece);
}

/* --- Messages --- */

static void post(struct world *w, const struct process *p, int word, uint32_t turn)
{
    if (word != IS_GONE && rng_below(&w->rng, 1000) < w->loss)
        return;
    cr_assert(w->n_messages < WORLD_MESSAGES, "a flood");
    struct message *m = &w->messages[w->n_messages++];
    *m = (struct message){.at = w->now + 20 * US + (int64_t)rng_below(&w->rng, 60) * US,
                          .word = word,
                          .process = (unsigned)(p - w->processes),
                          .turn = turn};
    if (w->n_messages > 1 && m[-1].at > m->at) /* they come in the order in which they went */
        m->at = m[-1].at;
}

static void deliver(struct world *w, const struct message *m)
{
    const struct process *p = &w->processes[m->process];
    switch (m->word) {
    case SAYS_WANT:
        turns_want(w->t, p->share, p->claim, p->member);
        break;
    case SAYS_DRAINED:
    case SAYS_IDLE:
        turns_answer(w->t, p->share, p->claim, p->member, m->turn, m->word == SAYS_IDLE);
        break;
    case IS_GONE:
        turns_gone(w->t, p->share, p->member);
        break;
    }
}

static bool deliver_due(struct world *w)
{
    unsigned n = 0;
    while (n < w->n_messages && w->messages[n].at <= w->now)
        deliver(w, &w->messages[n++]);
    for (unsigned i = n; i < w->n_messages; i++)
        w->messages[i - n] = w->messages[i];
    w->n_messages -= n;
    return n > 0;
}

/* --- Processes --- */

static bool lives(const struct process *p)
{
    return !p->is_dead && !p->is_stopped;
}

static bool has_work(const struct world *w, const struct process *p)
{
    int64_t cycle = p->works + p->rests;
    return p->rests == 0 || (w->now - w->start + p->phase) % cycle < p->works;
}

static bool could_give(const struct world *w, const struct process *p)
{
    return lives(p) && has_work(w, p) && w->now >= p->ready_at &&
           p->in_flight < (p->gap >= 0            ? 1
                           : p->gate == GATE_OPEN ? p->queue
                                                  : p->depth);
}

static void want(struct world *w, struct process *p)
{
    if (p->told == p->turn)
        return;
    p->told = p->turn;
    post(w, p, SAYS_WANT, p->turn);
}

/* False: it has to wait. */
static bool pass(struct world *w, struct process *p)
{
    if (p->gate == GATE_TELL || p->gate == GATE_CLOSED)
        want(w, p);
    if (p->gate == GATE_TURN && p->said_idle == p->turn) {
        p->said_idle = NO_TURN;
        post(w, p, SAYS_WANT, p->turn);
    }
    if (!p->waits)
        p->asked_at = w->now;
    p->waits = p->gate == GATE_CLOSED;
    return !p->waits;
}

static void give(struct world *w, struct process *p)
{
    int64_t waited = w->now - p->asked_at;
    if (waited > p->longest_wait)
        p->longest_wait = waited;
    if (p->in_flight++ == 0)
        p->left = p->piece;
    p->busy_at = w->now;
    p->ready_at = p->gap >= 0 ? FOREVER : w->now;
}

static void launch(struct world *w, struct process *p)
{
    while (could_give(w, p) && pass(w, p))
        give(w, p);
    p->waits = p->waits && could_give(w, p);
}

/* Both pieces are given, or neither. */
static void launch_pair(struct world *w, struct process *p, struct process *q)
{
    while (could_give(w, p) && could_give(w, q)) {
        bool first = pass(w, p), second = pass(w, q);
        if (!first || !second)
            return;
        give(w, p);
        give(w, q);
    }
    p->waits = q->waits = false;
}

static void serve_closed(struct world *w, struct process *p)
{
    if (p->answered != p->turn && p->in_flight == 0) {
        p->answered = p->turn;
        p->drained_at = p->seq > 0 || p->waits ? w->now : FOREVER;
        post(w, p, p->drained_at != FOREVER ? SAYS_DRAINED : SAYS_IDLE, p->turn);
    }
    if (p->answered == p->turn && p->drained_at != FOREVER && w->now - p->drained_at >= IDLE_TIME) {
        if (!p->waits)
            post(w, p, SAYS_IDLE, p->turn);
        p->drained_at = FOREVER;
    }
}

static void serve(struct world *w, struct process *p)
{
    if (!lives(p) || p->is_mute)
        return;
    if (p->gate == GATE_CLOSED)
        serve_closed(w, p);
    if (p->gate == GATE_TURN && p->said_idle != p->turn && p->in_flight == 0 &&
        w->now - p->busy_at >= IDLE_TIME) {
        p->said_idle = p->turn;
        post(w, p, SAYS_IDLE, p->turn);
    }
}

void world_pause(struct world *w, struct process *p)
{
    p->works = 0;
    p->rests = 1000 * SEC;
    p->phase = w->start - w->now;
    while (p->phase < 0)
        p->phase += p->rests;
}

void world_abandon(struct world *w, unsigned share)
{
    for (unsigned i = 0; i < w->n; i++) {
        struct process *p = &w->processes[i];
        if (p->share != share)
            continue;
        p->is_dead = p->is_abandoned = true;
        p->in_flight = 0;
        p->waits = false;
    }
}

void world_forget(struct world *w)
{
    w->forgotten = w->now;
    for (unsigned i = 0; i < w->n; i++) {
        w->processes[i].done = w->processes[i].longest_wait = 0;
        w->processes[i].pieces = 0;
    }
    for (unsigned i = 0; i < WORLD_CARDS; i++)
        w->busy[i] = w->together[i] = w->wanted[i] = 0;
}

void world_kill(struct world *w, struct process *p)
{
    p->is_dead = true;
    p->in_flight = 0;
    p->waits = false;
    post(w, p, IS_GONE, 0);
}

/* --- The agent --- */

static void apply(struct world *w, const struct turns_change *c)
{
    for (unsigned i = 0; i < w->n; i++) {
        struct process *p = &w->processes[i];
        if (p->share != c->share || p->claim != c->claim)
            continue;
        if (p->turn != c->turn)
            p->busy_at = w->now;
        p->gate = c->gate;
        p->turn = c->turn;
    }
}

/* At most one container's gate lets work through to a contended card. */
static void check_gates(const struct world *w)
{
    for (unsigned card = 0; card < WORLD_CARDS; card++) {
        int open = -1, turn = -1;
        for (unsigned i = 0; i < w->n; i++) {
            const struct process *p = &w->processes[i];
            if (p->card != card || p->is_abandoned)
                continue;
            int *one = p->gate == GATE_OPEN ? &open : p->gate == GATE_TURN ? &turn : NULL;
            cr_assert(!one || *one < 0 || *one == (int)p->share, "card %u has two holders", card);
            if (one)
                *one = (int)p->share;
        }
        cr_assert(open < 0 || turn < 0, "card %u is open and has a holder", card);
    }
}

static void step(struct world *w)
{
    struct turns_change c;
    w->steps++;
    w->next = turns_step(w->t, w->now);
    while (turns_next_change(w->t, &c)) {
        w->changes++;
        apply(w, &c);
    }
    cr_assert(w->next < 0 || w->next > w->now, "it wants to be called at once");
    check_gates(w);
}

/* --- Cards --- */

static bool is_on_card(const struct process *p)
{
    return p->in_flight > 0;
}

/* It waits on the card for the piece of its peer. */
static bool spins(const struct world *w, const struct process *p)
{
    const struct process *peer = p->peer < 0 ? NULL : &w->processes[p->peer];
    return peer && (peer->seq < p->seq || (peer->seq == p->seq && !is_on_card(peer)));
}

static int64_t parts(const struct world *w, unsigned card)
{
    int64_t n = 0;
    for (unsigned i = 0; i < w->n; i++)
        n += w->processes[i].card == card && is_on_card(&w->processes[i]);
    return n;
}

static void account(struct world *w, unsigned card, int64_t time)
{
    int first = -1;
    bool together = false, wanted = false;
    for (unsigned i = 0; i < w->n; i++) {
        const struct process *p = &w->processes[i];
        if (p->card != card)
            continue;
        wanted = wanted || p->waits || is_on_card(p);
        if (!is_on_card(p))
            continue;
        together = together || (first >= 0 && first != (int)p->share);
        first = (int)p->share;
    }
    w->busy[card] += first >= 0 ? time : 0;
    w->together[card] += together ? time : 0;
    w->wanted[card] += wanted ? time : 0;
}

static void finish(struct world *w, struct process *p)
{
    p->pieces++;
    p->seq++;
    p->in_flight--;
    p->left = p->piece;
    p->busy_at = w->now;
    if (p->gap >= 0)
        p->ready_at = w->now + p->gap;
}

static void work(struct world *w, int64_t time)
{
    int64_t n[WORLD_CARDS];
    bool still[WORLD_PROCESSES];
    for (unsigned card = 0; card < WORLD_CARDS; card++) {
        n[card] = parts(w, card);
        account(w, card, time);
    }
    for (unsigned i = 0; i < w->n; i++)
        still[i] = !is_on_card(&w->processes[i]) || spins(w, &w->processes[i]);
    for (unsigned i = 0; i < w->n; i++) {
        struct process *p = &w->processes[i];
        if (!is_on_card(p))
            continue;
        p->done += time / n[p->card];
        if (!still[i])
            p->left -= time / n[p->card];
        if (!still[i] && p->left <= 0)
            finish(w, p);
    }
}

/* --- Time --- */

static void no_later(int64_t *at, int64_t when)
{
    if (when < *at)
        *at = when;
}

static int64_t next_of(const struct world *w, const struct process *p)
{
    int64_t at = FOREVER;
    if (is_on_card(p) && !spins(w, p))
        no_later(&at, w->now + p->left * parts(w, p->card));
    if (!lives(p))
        return at;
    if (p->ready_at > w->now)
        no_later(&at, p->ready_at);
    if (p->rests > 0) {
        int64_t in_cycle = (w->now - w->start + p->phase) % (p->works + p->rests);
        no_later(&at, w->now + (in_cycle < p->works ? p->works : p->works + p->rests) - in_cycle);
    }
    if (p->gate == GATE_TURN && p->in_flight == 0 && p->said_idle != p->turn && !p->is_mute)
        no_later(&at, p->busy_at + IDLE_TIME);
    if (p->gate == GATE_CLOSED && p->answered == p->turn && p->drained_at != FOREVER)
        no_later(&at, p->drained_at + IDLE_TIME);
    return at;
}

static int64_t next_time(const struct world *w, int64_t until)
{
    int64_t at = until;
    if (w->next >= 0)
        no_later(&at, w->next);
    if (w->n_messages > 0)
        no_later(&at, w->messages[0].at);
    for (unsigned i = 0; i < w->n; i++)
        no_later(&at, next_of(w, &w->processes[i]));
    return at > w->now ? at : w->now + 1;
}

static void act(struct world *w)
{
    for (unsigned i = 0; i < w->n; i++) {
        struct process *p = &w->processes[i];
        if (p->peer < 0)
            launch(w, p);
        else if (p->peer > (int)i)
            launch_pair(w, p, &w->processes[p->peer]);
    }
    for (unsigned i = 0; i < w->n; i++)
        serve(w, &w->processes[i]);
}

void world_run(struct world *w, int64_t time)
{
    int64_t until = w->now + time;
    step(w);
    act(w);
    while (w->now < until) {
        int64_t time_left = next_time(w, until) - w->now;
        w->now += time_left;
        work(w, time_left);
        if (deliver_due(w) || (w->next >= 0 && w->now >= w->next))
            step(w);
        act(w);
    }
}

double world_percent(const struct world *w, const struct process *p)
{
    return (double)p->done * 100 / (double)(w->now - w->forgotten);
}
