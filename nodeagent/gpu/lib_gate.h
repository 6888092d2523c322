/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/auto.h"
#include "base/err.h"

#include "nodeagent/gpu/gpu.h"

/*
 * The order of the threads that call one vendor's library, which has one session in this process.
 * Verbs run beside each other. The session is opened and ended by a thread that is alone in the
 * library. Resets run beside each other, with the session ended and no verb in the library.
 *
 *  - A verb never waits for another verb, unless the session must be opened anew.
 *  - A reset that waits keeps later verbs out, so that verbs cannot put it off for ever. After a
 *    group of resets the verbs that waited go first, so that resets cannot put them off either.
 *  - Each wait is bounded, because a call of another thread may never return. Then the waiting
 *    thread gets ERR_UNAVAILABLE, whose text names that call, and those that it kept out go on.
 *
 * A card in the hands of one thread is a struct lib_hold.
 *
 * Threads: any. A thread is in one gate once at most. Every function but lib_gate_leave may block.
 */
struct lib_gate;

/* Whether a session serves the next verb. */
enum lib_session {
    LIB_SESSION_READY,
    LIB_SESSION_WORN, /* it serves, and is opened anew as soon as no verb is in the library */
    LIB_SESSION_NONE, /* it does not serve, or there is none */
};

/* The session of a back end. */
struct lib_gate_session {
    const char *vendor; /* for messages: "NVIDIA" */
    /* Asked with the gate's lock held: reads atomics only. */
    enum lib_session (*state)(const void *arg);
    /* Opens a session, after ending the one before. Called by a thread that is alone. */
    int (*open)(void *arg, struct err *e);
    /* Ends the session, if there is one, before resets. Called by a thread that is alone. NULL:
     * the library has no sessions. */
    void (*end)(void *arg);
    void *arg;
};

/* Bounds of the waits, in milliseconds. */
struct lib_gate_limits {
    int64_t call_ms;  /* for a verb to leave the library; a longer stay counts as a hang */
    int64_t open_ms;  /* for the opening of a session */
    int64_t reset_ms; /* for one reset */
    int64_t group_ms; /* how long others may join resets that run; later ones wait for verbs */
};

/* s is copied. limits NULL: those of hardware. */
struct lib_gate *lib_gate_new(const struct lib_gate_session *s,
                              const struct lib_gate_limits *limits);
/* Nobody is inside. NULL allowed; returns NULL. */
struct lib_gate *lib_gate_free(struct lib_gate *g);

/* A thread's stay in the library; zeroed before. It stays at its address meanwhile. */
struct lib_pass {
    struct lib_gate *gate; /* NULL: outside */
    struct lib_pass *next;
    const struct gpu_activity *of; /* the thread's */
    int64_t since_mono_ms;
    bool resets;
};

/* Enters for a verb, with a session that serves; opens one where there is none. Errors of
 * session.open; ERR_UNAVAILABLE: another thread's call does not return. */
int lib_gate_enter(struct lib_gate *g, struct lib_pass *p, struct err *e) MUST_CHECK;
/* The same, except that it does not wait for resets: *ret_closed is true when there are some, and
 * then the thread is outside. */
int lib_gate_enter_unless_reset(struct lib_gate *g, struct lib_pass *p, bool *ret_closed,
                                struct err *e) MUST_CHECK;
/* Enters for a verb without waiting. ERR_UNAVAILABLE: no session serves, or resets run or wait. */
int lib_gate_enter_at_once(struct lib_gate *g, struct lib_pass *p, struct err *e) MUST_CHECK;
/* Enters for a reset, from outside: waits for the verbs, and ends the session. */
int lib_gate_enter_reset(struct lib_gate *g, struct lib_pass *p, struct err *e) MUST_CHECK;
/* Ends a stay of either kind; nothing when the thread is outside. */
void lib_gate_leave(struct lib_pass *p);
AUTO_DEFINE(lib_pass, struct lib_pass, lib_gate_leave)
#define auto_lib_pass AUTO(lib_pass)

/* A glance at the gate, for tests. */
struct lib_gate_counts {
    unsigned verbs, resets;                 /* inside */
    unsigned waiting_verbs, waiting_resets; /* outside */
};
struct lib_gate_counts lib_gate_count(struct lib_gate *g);

/* Who has a card in hand; zeroed: nobody. Guarded by the mutex of its lib_holds. */
struct lib_hold {
    const struct gpu_activity *by; /* the thread's; NULL: nobody */
    unsigned waiting;              /* threads; the hold stays while there are some */
};

/* The mutex of a back end's table of cards. It is never held during a call into the library. */
struct lib_holds {
    pthread_mutex_t mu;
    pthread_cond_t freed;
};

void lib_holds_init(struct lib_holds *hs);
void lib_holds_done(struct lib_holds *hs);

/* All of these are called with hs->mu held. */

/* Takes a card that nobody has in hand. False: somebody has. */
bool lib_hold_try(struct lib_hold *h) MUST_CHECK;
/* Waits for a card; frees the mutex meanwhile. ERR_UNAVAILABLE: the other thread's call does not
 * return within limit_ms (0: that of hardware). */
int lib_hold_take(struct lib_holds *hs, struct lib_hold *h, const char *uuid, int64_t limit_ms,
                  struct err *e) MUST_CHECK;
void lib_hold_give(struct lib_holds *hs, struct lib_hold *h);
/* ERR_UNAVAILABLE with what ("card X is in use by another thread"), and the call that the thread
 * that has it is in. */
int lib_hold_refuse(const struct lib_hold *h, const char *what, struct err *e);
