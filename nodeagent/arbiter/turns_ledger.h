/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "nodeagent/arbiter/turns_state.h"

/*
 * The accounts of turns.h. While several claims are active on a card, its time is due to them by
 * their weights, and charged to whoever works on it: the difference is a claim's deficit. Claims of
 * one priority have one account among them. Pure; times as in turns.h.
 */

/* Charges the card's time since the last step to those who worked on it then. Before anything else
 * changes. */
void ledger_charge(struct card *card, int64_t now);
/* Who works on it from now on. After everything else. */
void ledger_watch(struct card *card, int64_t now);
/* Who takes part from now on, and with which weight: after claims became active, idle or throttled,
 * or were told other percents. */
void ledger_weigh(struct card *card);
/* The claim is active again: what it had too little or too much of fades while it is idle. */
void ledger_return(struct claim *c, int64_t now);

/* How long a turn is, on the average, while so many cards are wanted by several claims. */
int64_t ledger_quantum(unsigned n_contended);
/* When its turn is to end, if it begins now. */
int64_t ledger_ends(const struct claim *c, int64_t now);

/* Has it a bound that holds also when it is alone? */
bool ledger_is_capped(const struct claim *c);
/* A capped claim has had its part of the present window. */
bool ledger_is_throttled(const struct claim *c);
/* When it has some again. */
int64_t ledger_throttled_until(const struct claim *c);
