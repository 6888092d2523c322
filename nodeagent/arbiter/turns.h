/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "nodeagent/arbiter/turns_types.h"

/*
 * Who may put work on a card when: one container at a time, for a turn, while several want it. Pure
 * but for what it remembers: the caller has the clock, tells what happens, and carries out what
 * changes. Why so: docs/adr/0052-turns-on-a-card.md and 0053-who-is-next.md.
 *
 * A share is one container; a claim is its part of one card; a member is one of its processes, and
 * known once it serves: has a context on the card. While one claim of a card is active and not
 * capped, its gate is open and turns_step need not be called again. Otherwise the active claims take
 * turns; and one of low priority has a turn without an end while it is alone, if a process of high
 * priority serves. The card's time is due to them by their weights, and charged to the one that has
 * the turn, from the grant until each of its members has said that the card has done its work: who
 * overruns waits longer. Times are nanoseconds of any steady clock.
 *
 * One thread at a time. Whatever members say, or leave out, no gate stays closed for ever.
 */
struct turns;

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
void turns_want(struct turns *t, unsigned share, unsigned claim, unsigned member);
/* An answer that is not idle, about a turn that is not over, gives the turn back on all cards of the
 * container: a thread of the member waits for another one of them. */
void turns_answer(struct turns *t, unsigned share, unsigned claim, unsigned member, uint32_t turn,
                  bool is_idle);
void turns_gone(struct turns *t, unsigned share, unsigned member);

/* Decides, now that some of that has happened or time has passed. Returns when it wants to be called
 * again though nothing happens; -1: never. */
int64_t turns_step(struct turns *t, int64_t now);

/* Takes what is to be carried out next, in this order. False: there is nothing. */
bool turns_next_change(struct turns *t, struct turns_change *ret);

/* Zero for claims that there are none. */
struct turns_sums turns_sums(const struct turns *t, unsigned share, unsigned claim);
