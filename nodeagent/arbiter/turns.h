/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "limiter/region.h"

/*
 * Who may put work on a card when: one container at a time, for a turn, while several want it. Pure
 * but for what it remembers: the caller has the clock, tells what happens, and carries out what
 * changes. Docs: docs/adr/0051.
 *
 * A share is one container; a claim is its part of one card. While one claim of a card is active and
 * not capped, its gate is open and no call is wanted. Otherwise the active claims take turns, in the
 * order of what each was charged, divided by its weight. Charged is the time from the grant until
 * every member (process) has said that the card has done its work, so that whoever overruns waits
 * longer. Times are nanoseconds of any steady clock.
 *
 * One thread at a time.
 */
struct turns;

struct turns_claim {
    unsigned card;     /* of the node, below TURNS_MAX_CARDS */
    unsigned percent;  /* 0: no guarantee */
    unsigned priority; /* 0 high, 1 low */
    bool is_capped;    /* never more than its percent, also alone */
};

enum { TURNS_MAX_CARDS = 64, TURNS_MAX_SHARES = 2048 };

struct turns *turns_new(void);
struct turns *turns_free(struct turns *t);

/* A container with claims on n cards, 1 to REGION_MAX_CARDS, each on another one. Its claims are idle. */
void turns_add(struct turns *t, unsigned share, const struct turns_claim *claims, unsigned n,
               int64_t now);
/* Its percents and priorities from now on; the cards are the same. */
void turns_change(struct turns *t, unsigned share, const struct turns_claim *claims);
void turns_remove(struct turns *t, unsigned share);

/* What a member of a share says, or that it has ended. Unknown shares, members beyond
 * REGION_MAX_PROCESSES and claims that there are none are passed over. */
void turns_serve(struct turns *t, unsigned share, unsigned claim, unsigned member);
void turns_want(struct turns *t, unsigned share, unsigned claim, unsigned member, int64_t now);
void turns_answer(struct turns *t, unsigned share, unsigned claim, unsigned member, uint32_t turn,
                  bool is_idle);
void turns_gone(struct turns *t, unsigned share, unsigned member);

/* Decides, now that some of that has happened or time has passed. Returns when it wants to be called
 * again though nothing happens; -1: never. */
int64_t turns_step(struct turns *t, int64_t now);

/* What is to be carried out. */
struct turns_change {
    unsigned share, claim;
    enum share_gate gate;
    uint32_t turn;
    int64_t ends; /* of GATE_TURN */
};
/* Takes the next one. False: there is none. */
bool turns_next_change(struct turns *t, struct turns_change *ret);

/* What a claim has been charged in all, and how often it did not finish in time. */
struct turns_sums {
    int64_t held_ns;
    uint64_t overruns;
};
struct turns_sums turns_sums(const struct turns *t, unsigned share, unsigned claim);
