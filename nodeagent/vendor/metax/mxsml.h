/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <errno.h>

#include "nodeagent/gpu/gpu.h"
#include "nodeagent/gpu/lib_gate.h"
#include "nodeagent/vendor/metax/mxsml_lib.h"

/*
 * The inner state of MetaX's back end. The library has neither sessions nor handles: it numbers the
 * cards when it is initialised. After an error on a card the back end initialises it again, because
 * the numbers may have changed.
 *
 * Threads: nothing that is known of the library says that its calls must not run beside each other.
 * They do here, each thread with another card in hand, and inside the library's gate. The library
 * is initialised by a thread that is alone in it. A verb reads the UUID
 * of the card at its last number, and searches the others only when that is another card's.
 *
 * Cleave's own slices have an alias with the prefix below; the rest of the alias is the name in the
 * plan (sgpu_is_alias). All other slices are foreign.
 */
#define MXSML_OURS "cleave."

/* The identity of a card. Guarded by mxsml.holds, but UUID and bus id, which never change. */
struct mxsml_known {
    struct lib_hold hold;
    struct gpu_card card;     /* only its identity is valid */
    struct mxsml_info info;   /* as last reported */
    unsigned dev;             /* its last number; UINT_MAX: another card has that number now */
    unsigned epoch;           /* of the session in which it had that number */
    struct lib_hold measured; /* by the thread that measures it, which has no card in hand */
    unsigned kernels_vfs;     /* number of its virtual functions in the kernel at the last look */
};

struct mxsml {
    /* immutable */
    struct gpu gpu; /* first: a struct gpu * is a struct mxsml * */
    char *library, *proc_root, *sys_root;
    struct lib_gate *gate;
    /* of the thread that is alone in the gate; those inside read it */
    struct mxsml_lib lib; /* empty until the library is found */
    /* atomics */
    atomic_uint epoch; /* number of initialisations so far */
    atomic_bool open;  /* initialised */
    atomic_bool stale; /* to be initialised again before the next use */
    /* guarded by holds */
    struct lib_holds holds;
    char driver[MXSML_VERSION_BYTES + 1];
    char maca[MXSML_VERSION_BYTES + 1];
    struct gpu_topology topology; /* as last asked */
    unsigned n_shown; /* cards of the last reading, by index; NULL: one that is not identified */
    const struct mxsml_known *shown[GPU_MAX_CARDS];
    size_t n_known;
    struct mxsml_known *known[GPU_MAX_CARDS]; /* owned; includes cards that no longer answer */
};

/* Enters the library; initialises it unless that is done, and again when the hardware may have
 * changed. *ret_closed (NULL: waits for resets): as lib_gate_enter_unless_reset. ERR_NOT_FOUND: no
 * library, or no card; ERR_UNAVAILABLE, as lib_gate_enter. */
int mxsml_enter(struct mxsml *m, struct lib_pass *p, bool *ret_closed, struct err *e) MUST_CHECK;

/* A verb's stay in the library with one card in hand. */
struct mxsml_turn {
    struct lib_pass pass;
    struct mxsml *m;
    struct mxsml_known *known; /* in hand; NULL: none */
    unsigned dev;              /* its number */
    unsigned epoch;            /* of the session in which it has that number */
    struct mxsml_info info;    /* of it, as reported in this turn */
};

/* Enters, and takes the card in hand. Errors as mxsml_find_one; ERR_UNAVAILABLE: also when another
 * thread does not give it back. */
int mxsml_turn_begin(struct mxsml_turn *t, struct mxsml *m, const char *uuid,
                     struct err *e) MUST_CHECK;
/* Takes the card in hand for a reset, from outside of the library: a verb's turn would wait for the
 * resets that run. Enters for a moment when its number is not known. Errors as mxsml_turn_begin's.
 */
int mxsml_turn_begin_reset(struct mxsml_turn *t, struct mxsml *m, const char *uuid,
                           struct err *e) MUST_CHECK;
void mxsml_turn_end(struct mxsml_turn *t);
AUTO_DEFINE(mxsml_turn, struct mxsml_turn, mxsml_turn_end)
#define auto_mxsml_turn AUTO(mxsml_turn)
/* Turns a return code into 0 or -kind, and notes the codes after which the numbers cannot be
 * trusted. */
int mxsml_check(struct mxsml *m, const char *call, mxsml_ret rc, int saved_errno,
                struct err *e) MUST_CHECK;
/* Checks that a value of the library is possible. An impossible one is ERR_PROTOCOL, or is cut to
 * what fits. info: of the card at the index. slice: the slice's number; c has the slices that were
 * read before it; an illegal UUID, or another slice's, becomes "". */
int mxsml_sound_info(unsigned index, struct mxsml_info *info, struct err *e) MUST_CHECK;
int mxsml_sound_sharing(unsigned toggle, unsigned sched_class, unsigned timeslice_ms,
                        struct err *e) MUST_CHECK;
/* Returns 0, not reported, for memory that no card has. */
unsigned mxsml_sound_memory(uint64_t mib);
int mxsml_sound_slice(const struct gpu_card *c, unsigned id, struct mxsml_slice *s,
                      struct err *e) MUST_CHECK;
/* The slice that a process is in; -1 (the whole card) when the card shows no such slice. */
int mxsml_sound_slice_of(const struct gpu_card *c, int slice_id);

/* Calls a function of the table; a missing one answers MXSML_NO_FUNCTION. errno is the call's. */
#define MXSML_CALL(m, fn, ...)                                                                     \
    ({                                                                                             \
        mxsml_ret mxsml_rc_ = MXSML_NO_FUNCTION;                                                   \
        if ((m)->lib.fn) {                                                                         \
            gpu_call_begin(mxsml_names.fn);                                                        \
            errno = 0;                                                                             \
            mxsml_rc_ = (m)->lib.fn(__VA_ARGS__);                                                  \
            gpu_call_end();                                                                        \
        }                                                                                          \
        mxsml_rc_;                                                                                 \
    })
/* The same as a fallible call. */
#define MXSML_DO(m, e, fn, ...)                                                                    \
    ({                                                                                             \
        mxsml_ret mxsml_ret_ = MXSML_CALL(m, fn, __VA_ARGS__);                                     \
        mxsml_check(m, mxsml_names.fn, mxsml_ret_, errno, e);                                      \
    })

/* The processes that the library lists for a device. Caller frees the items. n may be more than there
 * was room for, which is nonsense when the call succeeds. */
struct mxsml_process_list {
    struct mxsml_process *items;
    unsigned n, room;
};
mxsml_ret mxsml_ask_processes(struct mxsml *m, unsigned dev, struct mxsml_process_list *ret);

/* The verbs of gpu_ops; see there. */
int mxsml_op_read(struct gpu *g, struct gpu_inventory *ret, struct err *e);
int mxsml_op_read_card(struct gpu *g, const char *uuid, struct gpu_card *ret, struct err *e);
int mxsml_op_mode_set(struct gpu *g, const char *uuid, enum gpu_mode mode,
                      enum gpu_mode_result *ret, struct err *e);
int mxsml_op_measure(struct gpu *g, const char *uuid, uint64_t wanted, struct telemetry_card *ret,
                     struct err *e);
int mxsml_op_reset(struct gpu *g, const char *uuid, struct err *e);
int mxsml_op_slice_create(struct gpu *g, const char *uuid, const struct sgpu_want *want,
                          unsigned *ret_id, struct err *e);
int mxsml_op_slice_destroy(struct gpu *g, const char *uuid, unsigned id, struct err *e);
int mxsml_op_qos_set(struct gpu *g, const char *uuid, int qos, struct err *e);
int mxsml_op_timeslice_set(struct gpu *g, const char *uuid, unsigned ms, struct err *e);
