/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/rng.h"

#include "nodeagent/arbiter/turns.h"

/*
 * A world for tests of turns.h, in a time of its own: cards that divide their time among the
 * processes that have given them work, and processes that follow the gates as the limiter does
 * (limiter/gate.c): a bounded number of pieces in flight while the card is contended, none while the
 * gate is closed, WANT once a turn, an answer to each closing, IDLE after a millisecond without work.
 * What they say arrives some microseconds later, or not at all.
 *
 * Time is in nanoseconds. Everything is decided by the seed.
 */

#define US      INT64_C(1000)
#define MS      INT64_C(1000000)
#define SEC     INT64_C(1000000000)
#define FOREVER INT64_MAX

enum { WORLD_CARDS = 16, WORLD_PROCESSES = 64, WORLD_MESSAGES = 1024 };

/* One process of a container on one card. What stands before `gate` is set by the test, and may
 * change while the world runs. */
struct process {
    unsigned share, claim, member, card;
    int64_t piece; /* of the card's time that a piece of work takes */
    int64_t gap;   /* >= 0: it waits for each piece, and then so long; -1: it waits for none */
    int depth;     /* in flight while its gate is not open */
    int queue;     /* in flight while it is */
    int64_t works, rests; /* it has work for so long, then none for so long; rests 0: always */
    int64_t phase;        /* of these */
    int peer;             /* its pieces are given with this one's, and work beside them; -1: none */
    bool is_dead, is_stopped, is_mute, is_abandoned;
    /* as the gate stands */
    enum share_gate gate;
    uint32_t turn;
    /* its own */
    uint32_t told, said_idle, answered;
    int64_t drained_at; /* it said so, and looks again whether it is idle */
    bool waits;
    int in_flight;
    uint64_t pieces, seq; /* those that the card has done; seq: also the forgotten ones */
    int64_t left;         /* of the piece that the card does for it */
    int64_t ready_at;     /* when it has the next piece */
    int64_t busy_at;      /* when it last had work */
    int64_t asked_at;     /* for the next one to be let through */
    /* what became of it */
    int64_t done;         /* the card's time */
    int64_t longest_wait; /* at a closed gate */
};

struct message {
    int64_t at;
    enum { SAYS_WANT, SAYS_DRAINED, SAYS_IDLE, IS_GONE } word;
    unsigned process;
    uint32_t turn;
};

struct world {
    struct turns *t;
    struct rng rng;
    int64_t now, start, next;
    int64_t forgotten; /* what is counted is since then */
    unsigned loss;     /* of a thousand messages */
    struct process processes[WORLD_PROCESSES];
    unsigned n;
    struct message messages[WORLD_MESSAGES];
    unsigned n_messages;
    uint64_t steps, changes;
    int64_t busy[WORLD_CARDS];     /* a process had work on the card */
    int64_t together[WORLD_CARDS]; /* processes of several containers had */
    int64_t wanted[WORLD_CARDS];   /* a process had work for it, or on it */
};

struct world *world_new(uint64_t seed);
void world_free(struct world *w);

/* A container whose claims are these. */
void world_share(struct world *w, unsigned share, const struct turns_claim *claims, unsigned n);
/* A process of it on the card of a claim, which always has work. */
struct process *world_process(struct world *w, unsigned share, unsigned claim, unsigned card,
                              int64_t piece);
/* A container with one process on card 0. */
struct process *world_worker(struct world *w, unsigned share, unsigned percent, int64_t piece);

void world_run(struct world *w, int64_t time);
/* Forgets what was done until now, and how long one waited. */
void world_forget(struct world *w);
/* It has no work for a thousand seconds. */
void world_pause(struct world *w, struct process *p);
/* Ends it. It is noticed a little later. */
void world_kill(struct world *w, struct process *p);
/* Its container was removed: its processes are the agent's no more. */
void world_abandon(struct world *w, unsigned share);
/* What the process had of the time since then, in percent. */
double world_percent(const struct world *w, const struct process *p);
