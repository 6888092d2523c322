/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "nodeagent/arbiter/turns_state.h"

/*
 * Who is to have a card next. On one card: the higher priority; then the greater deficit; then who
 * has waited longer. A container that needs turns on several cards has them at the same time, and
 * begins when it is the next on each of them: two that had one each, and waited for the other's,
 * would wait for ever. Its place in the order is the same everywhere, by the least of its deficits,
 * so that of all that wait for several cards one is always before the others. Pure.
 */

/* Its gate is not open just because it is alone. */
bool choice_needs_turn(const struct claim *c);
/* The claim is of low priority, and a process of a container of high priority is on the card: the
 * claim's work in flight is to be bounded also while it is alone. */
bool choice_must_yield(const struct claim *c);
/* Needs turns on several cards. */
bool choice_is_gang(const struct share *s);

/* The next one on the card, of those that wait and whose other cards can be had with it: from others
 * that have them, if they come later. NULL: none. */
struct claim *choice_next(const struct card *card, int64_t now);
/* Is a to have the card, and b to wait? */
bool choice_is_before(const struct claim *a, const struct claim *b, int64_t now);
/* ... so that the other's turn ends at once. */
bool choice_is_urgent(const struct claim *a, const struct claim *b, int64_t now);

/* The claim has waited for so long that it has a turn before those of high priority. */
bool choice_is_overdue(const struct claim *c, int64_t now);
