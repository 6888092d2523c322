/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The common part of the simulated libraries in one process: the open state, the faults of the
 * environment, and the course of each call.
 *
 * A call is
 *
 *    if (!turn_begin(&t, &session, call))             not initialised
 *    rc = turn_play(&t, card, &fault) ? ... : 0;      counts it, plays faults and latency, unlocked
 *    turn_lock(&t);                                   t.hw: a draft in a call of class MUTATING
 *    turn_end(&t, rc);                                commits the draft of a call that succeeded
 *
 * The objects of a call (handles or indices), its arguments and its return codes are the library's;
 * 0 is success in all of them. Each library has one struct session.
 */
#pragma once

#include <pthread.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>

#include "sim/state.h"

#define SESSION_ENV_FAULTS 8

/*
 * Guarded by mu, except `state`, which guards itself; the state's lock is taken before mu. The
 * state stays open while a client is initialised or a call is under way: a thread may hang in a
 * call while another shuts down.
 */
struct session {
    pthread_mutex_t mu;
    unsigned int refs, in_flight;
    struct state state;
    void (*on_close)(void); /* called with mu held, when the state was closed; may be NULL */
    struct fault env_faults[SESSION_ENV_FAULTS];
    size_t env_fault_count;
    char env_fault_text[256];
};

/* Opens the state that the environment names, at the first of several calls; 0 or state_open's
 * code. */
int session_open(struct session *s);

/*
 * Closes and opens an open session in one step, so that no other thread's call meets it closed. A
 * state in which a call is under way stays as it is. On an error the session is closed.
 */
int session_reopen(struct session *s);

/* The counterpart, which closes it at the last call; false when it is not open. */
bool session_close(struct session *s);

/*
 * A forked child shares the parent's open file and its lock, which then excludes nothing between
 * the two. So it starts without a session: call this in the child.
 */
void session_forget(struct session *s);

/* One call under way. Used by the caller's thread only. */
struct turn {
    struct session *session; /* NULL: not begun */
    struct hw *hw;           /* from turn_lock to turn_end; a query only reads it */
    bool locked, draft, dies;
    struct log_record record;
};

/* Takes part in the session; false when it is not initialised. */
bool turn_begin(struct turn *t, struct session *s, unsigned int call);

/*
 * Counts the call, which concerns that card (HW_NONE: none), and plays its faults and latency: a
 * kill does not return, a hang and the latency take their time. True when the call must fail; *ret
 * has the failure.
 */
bool turn_play(struct turn *t, uint32_t card, struct fault *ret);

/* Takes the state's lock. */
void turn_lock(struct turn *t);

/* Ends a turn after turn_begin: commits, logs, unlocks, plays kill-after. Keeps errno. */
void turn_end(struct turn *t, int rc);

/* Notes the arguments for the log. */
__attribute__((format(printf, 2, 0))) void turn_args(struct turn *t, const char *format,
                                                     va_list args);
