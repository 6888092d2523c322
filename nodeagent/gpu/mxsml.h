/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <errno.h>

#include "nodeagent/gpu/gpu.h"
#include "nodeagent/gpu/mxsml_lib.h"

/*
 * MetaX's cards. The library has no session that ends and no handles: cards are named by indices,
 * which it hands out when it is initialised; trouble with one has it look at the hardware again.
 * One thread.
 *
 * A slice of ours is known by its alias in the driver, which has the prefix below; the rest of the
 * alias is what the plan calls it (sgpu_is_alias). All other slices are foreign.
 */
#define MXSML_OURS "cleave."

/* Who a card is. */
struct mxsml_known {
    struct gpu_card card; /* its identity */
    unsigned dev;         /* where it was last; UINT_MAX: another is there now */
    unsigned kernels_vfs; /* virtual functions that the kernel had of it when it was looked last */
};

struct mxsml {
    struct gpu gpu;       /* first: a struct gpu * is a struct mxsml * */
    struct mxsml_lib lib; /* empty until it is found */
    char *library, *proc_root, *sys_root;
    bool open;  /* initialised */
    bool stale; /* the hardware must be looked at again before the next use */
    char driver[MXSML_VERSION_BYTES + 1];
    char maca[MXSML_VERSION_BYTES + 1];
    size_t n_known;
    struct mxsml_known *known[GPU_MAX_CARDS]; /* owned; also cards that fell silent */
};

/* Initialises the library unless that is done, and again where the hardware may have changed.
 * ERR_NOT_FOUND: no library, or no card. */
int mxsml_ensure(struct mxsml *m, struct err *e) MUST_CHECK;
/* The judgement on an answer: 0 or -kind, noting those after which indices cannot be trusted. */
int mxsml_check(struct mxsml *m, const char *call, mxsml_ret rc, int saved_errno,
                struct err *e) MUST_CHECK;
/* The index of a card now. Errors as of mxsml_find_one. */
int mxsml_index_of(struct mxsml *m, const char *uuid, unsigned *ret, struct err *e) MUST_CHECK;

/* Is what the library said something that can be? What cannot be is ERR_PROTOCOL, or cut to what
 * fits. info: of the card at the index. slice: of this number, on a card whose other slices are in
 * c so far; a UUID that is none, or another slice's, is "". */
int mxsml_sound_info(unsigned index, struct mxsml_info *info, struct err *e) MUST_CHECK;
int mxsml_sound_sharing(unsigned toggle, unsigned sched_class, unsigned timeslice_ms,
                        struct err *e) MUST_CHECK;
int mxsml_sound_slice(const struct gpu_card *c, unsigned id, struct mxsml_slice *s,
                      struct err *e) MUST_CHECK;
/* The slice that a process is in; -1, the whole card, when no such slice shows. */
int mxsml_sound_slice_of(const struct gpu_card *c, int slice_id);

/* Calls a function of the table; a missing one answers MXSML_NO_FUNCTION. errno is the call's. */
#define MXSML_CALL(m, fn, ...)                                                                     \
    ({                                                                                             \
        mxsml_ret mxsml_rc_ = MXSML_NO_FUNCTION;                                                   \
        if ((m)->lib.fn) {                                                                         \
            gpu_call_begin(&(m)->gpu, mxsml_names.fn);                                             \
            errno = 0;                                                                             \
            mxsml_rc_ = (m)->lib.fn(__VA_ARGS__);                                                  \
            gpu_call_end(&(m)->gpu);                                                               \
        }                                                                                          \
        mxsml_rc_;                                                                                 \
    })
/* The same as a fallible call of ours. */
#define MXSML_DO(m, e, fn, ...)                                                                    \
    ({                                                                                             \
        mxsml_ret mxsml_ret_ = MXSML_CALL(m, fn, __VA_ARGS__);                                     \
        mxsml_check(m, mxsml_names.fn, mxsml_ret_, errno, e);                                      \
    })

/* The operations of gpu_ops; see there. */
int mxsml_op_read(struct gpu *g, struct gpu_inventory *ret, struct err *e);
int mxsml_op_read_card(struct gpu *g, const char *uuid, struct gpu_card *ret, struct err *e);
int mxsml_op_mode_set(struct gpu *g, const char *uuid, enum gpu_mode mode,
                      enum gpu_mode_result *ret, struct err *e);
int mxsml_op_reset(struct gpu *g, const char *uuid, struct err *e);
int mxsml_op_slice_create(struct gpu *g, const char *uuid, const struct sgpu_want *want,
                          unsigned *ret_id, struct err *e);
int mxsml_op_slice_destroy(struct gpu *g, const char *uuid, unsigned id, struct err *e);
int mxsml_op_qos_set(struct gpu *g, const char *uuid, int qos, struct err *e);
int mxsml_op_timeslice_set(struct gpu *g, const char *uuid, unsigned ms, struct err *e);
