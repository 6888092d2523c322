/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "nodeagent/arbiter/turns_state.h"

/*
 * The gates of turns.h, and what they ask of the members. Each change is noted for
 * turns_next_change, in the order in which they are made: who makes way comes before who follows.
 */

/* A new claim's gate is told at first, whatever it was. */
void gate_begin(struct turns *t, struct claim *c);

/* Work goes on, and nothing is asked; and the same, but who has some says so. A holder is none from
 * then on. */
void gate_open(struct turns *t, struct claim *c);
void gate_tell(struct turns *t, struct claim *c);
/* The claim has the card from now on. */
void gate_grant(struct turns *t, struct claim *c, int64_t ends, int64_t now);
/* Its turn, if it is its turn, lasts until then instead. */
void gate_extend(struct turns *t, struct claim *c, int64_t ends);
/* Nothing of it is on the card, and for a moment nothing may be put there. */
void gate_rest(struct turns *t, struct claim *c);
/* Its members are asked to say when they have finished. A holder is none from now on. */
void gate_close(struct turns *t, struct claim *c, int64_t now);

/* A member will answer from now on. */
void gate_serve(struct claim *c, unsigned member);
/* A member has work. */
void gate_want(struct claim *c, unsigned member);
/* A member has finished, and has no more to do (is_idle), as it says of this turn. */
void gate_answer(struct claim *c, unsigned member, uint32_t turn, bool is_idle);
void gate_gone(struct claim *c, unsigned member);

/* Those that have not answered for too long are not waited for. */
void gate_expire(struct claim *c, int64_t now);
/* Has somebody to answer before the card is free? */
bool gate_is_owing(const struct claim *c);
/* When gate_expire is due, or late members count as finished; TURNS_NEVER: not. */
int64_t gate_due(const struct claim *c, int64_t now);

/* Has the claim work for the card, as far as its members say? */
bool gate_has_work(const struct claim *c);
