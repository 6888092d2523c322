/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stddef.h>

#include "nodeagent/arbiter/member_set.h"
#include "nodeagent/arbiter/turns_types.h"

/*
 * What turns.h remembers, for the files that decide: turns_ledger (who was charged what), turns_gate
 * (what a gate asks of its members), turns_choice (who is next), turns (the order of all that).
 */

#define TURNS_US INT64_C(1000)
#define TURNS_MS INT64_C(1000000)

enum { TURNS_HIGH, TURNS_LOW, TURNS_CLASSES };

/* A container's part of one card. */
struct claim {
    struct share *share;
    struct card *card;
    struct turns_claim spec;

    enum share_gate gate;
    uint32_t turn;
    int64_t ends; /* of GATE_TURN */

    /* Its members: have a context on the card, and answer when the gate is closed; ... */
    struct member_set serving;
    /* ... of these, at GATE_TURN, those that have not said IDLE, and at other gates, those that may
     * have more to do, ... */
    struct member_set busy;
    /* ... and at GATE_CLOSED, those that have said that work waits; ... */
    struct member_set waits;
    struct member_set owing; /* ... have not answered since the gate was closed; ... */
    struct member_set
        late; /* ... did not in time, and are not waited for until they are heard of. */

    bool is_active;   /* has work for the card, as far as is known */
    bool is_running;  /* ... and may have a turn now */
    bool has_arrived; /* became active in this step */
    bool is_working;  /* since the last step, and is charged for it ... */
    bool is_stray;    /* ... because of late members alone */
    bool gives_back;  /* its turn, in order to have it together with other cards' */
    bool had_turn;    /* owing: the gate was closed after a turn */
    int64_t closed;   /* owing: since when */
    int64_t strays;   /* late ones count as working until then */
    int64_t granted;  /* its turn, since when */
    int64_t waiting;  /* for a turn, since when; TURNS_NEVER: it is not */
    int64_t idle;     /* since when */

    int64_t weight;  /* among the claims that the card's time is divided among */
    int64_t deficit; /* the card's time that it should have had so far, beyond what it had */
    int64_t window;  /* of a capped one: when the present one began, ... */
    int64_t used;    /* ... and what it was charged in it */
    struct turns_sums sums;

    bool is_changed;
    struct claim *next_changed;
};

struct share {
    unsigned id, n;
    struct claim claims[];
};

struct card {
    struct claim **claims; /* on it; owned array, borrowed items */
    size_t n;
    struct claim *holder; /* has the turn; NULL: nobody */
    struct share *kept;   /* the card stays free for it until its other cards are */
    bool holds_floor;     /* the holder is of low priority and had to have a turn */
    bool is_due;          /* something was said, or is to be done, in this step */
    int64_t next;         /* when it is due by itself; TURNS_NEVER: it is not */
    int64_t charged;      /* up to when its time has been charged */
    int64_t contended;    /* when two were active last */
    int64_t quantum;      /* how long a turn is, on the average */
    int64_t low;          /* since when those of low priority wait; TURNS_NEVER: they do not */
    unsigned n_active;
    unsigned n_running[TURNS_CLASSES]; /* that may have a turn now */
    int64_t weights[TURNS_CLASSES];    /* of these */
};

struct turns {
    struct share *shares[TURNS_MAX_SHARES];
    struct card cards[TURNS_MAX_CARDS];
    struct claim *changed, **last_changed; /* in the order in which they changed */
};

#define TURNS_NEVER INT64_MAX
