/* SPDX-License-Identifier: Apache-2.0 */
#include "nodeagent/arbiter/turns_gate.h"

#include <assert.h>

/* Who has not finished by then does not stop the others, and is charged for so long, at most. */
#define DRAIN (200 * TURNS_MS)
#define STRAY (1000 * TURNS_MS)

/* --- Changes --- */

static void note_change(struct turns *t, struct claim *c)
{
    if (c->is_changed)
        return;
    c->is_changed = true;
    c->next_changed = NULL;
    *t->last_changed = c;
    t->last_changed = &c->next_changed;
}

static void set_gate(struct turns *t, struct claim *c, enum share_gate gate, int64_t ends)
{
    c->gate = gate;
    c->ends = ends;
    c->turn++;
    c->gives_back = false;
    member_set_empty(&c->waits);
    note_change(t, c);
}

static void leave_turn(struct claim *c)
{
    if (c->card->holder == c)
        c->card->holder = NULL;
}

void gate_begin(struct turns *t, struct claim *c)
{
    set_gate(t, c, GATE_TELL, 0);
}

void gate_open(struct turns *t, struct claim *c)
{
    if (c->gate == GATE_OPEN)
        return;
    leave_turn(c);
    member_set_empty(&c->owing);
    c->waiting = TURNS_NEVER;
    set_gate(t, c, GATE_OPEN, 0);
}

void gate_tell(struct turns *t, struct claim *c)
{
    if (c->gate == GATE_TELL)
        return;
    leave_turn(c);
    c->waiting = TURNS_NEVER;
    set_gate(t, c, GATE_TELL, 0);
}

/* Every member says IDLE by itself when it has no work, also one that had none before. */
void gate_grant(struct turns *t, struct claim *c, int64_t ends, int64_t now)
{
    const struct member_set prompt = member_set_without(&c->serving, &c->late);
    assert(!c->card->holder);
    c->card->holder = c;
    c->granted = now;
    c->waiting = TURNS_NEVER;
    member_set_empty(&c->owing);
    member_set_add(&c->busy, &c->waits);
    member_set_add(&c->busy, &prompt);
    set_gate(t, c, GATE_TURN, ends);
}

void gate_extend(struct turns *t, struct claim *c, int64_t ends)
{
    if (c->gate != GATE_TURN || c->ends == ends)
        return;
    c->ends = ends;
    note_change(t, c);
}

void gate_rest(struct turns *t, struct claim *c)
{
    if (c->gate == GATE_CLOSED)
        return;
    leave_turn(c);
    set_gate(t, c, GATE_CLOSED, 0);
}

void gate_close(struct turns *t, struct claim *c, int64_t now)
{
    if (c->gate == GATE_CLOSED)
        return;
    leave_turn(c);
    c->had_turn = c->gate == GATE_TURN;
    c->owing = member_set_without(&c->serving, &c->late);
    member_set_empty(&c->busy);
    c->closed = c->waiting = now;
    set_gate(t, c, GATE_CLOSED, 0);
}

/* --- What members say --- */

void gate_serve(struct claim *c, unsigned member)
{
    member_set_put(&c->serving, member);
    if (c->gate == GATE_TURN)
        member_set_put(&c->busy, member);
}

/* Who was late once lives, and is waited for again. */
void gate_want(struct claim *c, unsigned member)
{
    member_set_drop(&c->late, member);
    member_set_put(&c->serving, member);
    member_set_put(c->gate == GATE_CLOSED ? &c->waits : &c->busy, member);
}

/* An answer of an earlier turn says that its work is done, and nothing of the present turn. At a
 * closed gate WANT and IDLE may come from two threads, and the work of the first waits. Who finished
 * may have more to do in a moment; of one that was idle before its gate was closed that means nothing. */
void gate_answer(struct claim *c, unsigned member, uint32_t turn, bool is_idle)
{
    member_set_drop(&c->late, member);
    if (turn != c->turn)
        return;
    if (!is_idle && c->gate == GATE_TURN)
        c->gives_back = c->share->n > 1;
    else if (is_idle)
        member_set_drop(&c->busy, member);
    else if (member_set_has(&c->owing, member))
        member_set_put(&c->busy, member);
    member_set_drop(&c->owing, member);
}

void gate_gone(struct claim *c, unsigned member)
{
    member_set_drop(&c->serving, member);
    member_set_drop(&c->busy, member);
    member_set_drop(&c->waits, member);
    member_set_drop(&c->owing, member);
    member_set_drop(&c->late, member);
}

/* --- Answers that do not come --- */

bool gate_is_owing(const struct claim *c)
{
    return !member_set_is_empty(&c->owing);
}

void gate_expire(struct claim *c, int64_t now)
{
    if (!gate_is_owing(c) || now - c->closed < DRAIN)
        return;
    c->sums.overruns += c->had_turn;
    c->strays = c->closed + STRAY;
    member_set_add(&c->late, &c->owing);
    member_set_empty(&c->owing);
}

int64_t gate_due(const struct claim *c, int64_t now)
{
    if (gate_is_owing(c))
        return c->closed + DRAIN;
    return now < c->strays && !member_set_is_empty(&c->late) ? c->strays : TURNS_NEVER;
}

bool gate_has_work(const struct claim *c)
{
    if (c->gate == GATE_OPEN)
        return !member_set_is_empty(&c->serving);
    return !member_set_is_empty(&c->busy) || !member_set_is_empty(&c->waits) || gate_is_owing(c);
}
