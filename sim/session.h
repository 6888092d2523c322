/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the simulated libraries of all vendors share of a process's side: the state that it has
 * open, the faults of its environment, and the way that each call takes.
 *
 * A call is
 *
 *     if (!turn_begin(&t, &session, call))             not initialised
 *     rc = turn_play(&t, card, &fault) ? ... : 0;      counts it, plays faults and latency,
 * unlocked turn_lock(&t);                                   t.hw: a draft in a call of class
 * MUTATING turn_end(&t, rc);                                commits the draft of a call that went
 * well
 *
 * What a call is about (handles or indices), its arguments and its return codes are the library's;
 * 0 is success in all of them. Each library holds one struct session.
 */
#pragma once

#include <pthread.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>

#include "sim/state.h"

#define SESSION_ENV_FAULTS 8

/*
 * Guarded by mu, apart from `state`, which guards itself; where both are held the state's lock was
 * taken first. The state stays open while somebody is initialised or a call is under way: a thread
 * may hang in a call while another shuts down.
 */
struct session {
    pthread_mutex_t mu;
    unsigned int refs, in_flight;
    struct state state;
    void (*on_close)(void); /* with mu held, when the state was closed; may be NULL */
    struct fault env_faults[SESSION_ENV_FAULTS];
    size_t env_fault_count;
    char env_fault_text[256];
};

/* Opens the state that the environment names, at the first of several; 0 or state_open's code. */
int session_open(struct session *s);

/* The counterpart, which closes it at the last; false when nobody has it open. */
bool session_close(struct session *s);

/*
 * A forked child shares the parent's open file, and with it the lock, which then excludes nothing
 * between the two. So it starts without a session: to be called in the child.
 */
void session_forget(struct session *s);

/* One call on its way. One thread: the caller's. */
struct turn {
    struct session *session; /* NULL: not begun */
    struct hw *hw;           /* from turn_lock to turn_end; a query only reads it */
    bool locked, draft, dies;
    struct log_record record;
};

/* Takes part in the session; false when nobody has initialised it. */
bool turn_begin(struct turn *t, struct session *s, unsigned int call);

/*
 * Counts the call, which concerns that card (HW_NONE: none), and plays what is on order for it: a
 * kill does not come back, a hang and the latency take their time. True when it is to fail, *ret
 * then says how.
 */
bool turn_play(struct turn *t, uint32_t card, struct fault *ret);

/* Takes the state's lock. */
void turn_lock(struct turn *t);

/* Ends a turn that was begun: commits, logs, unlocks, plays kill-after. Keeps errno. */
void turn_end(struct turn *t, int rc);

/* Notes the arguments for the log. */
__attribute__((format(printf, 2, 0))) void turn_args(struct turn *t, const char *format,
                                                     va_list args);
