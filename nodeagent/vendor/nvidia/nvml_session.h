/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/clock.h"

#include "nodeagent/gpu/gpu.h"
#include "nodeagent/gpu/lib_gate.h"
#include "nodeagent/vendor/nvidia/nvml_lib.h"

/*
 * One long session with the driver, and the facts learned in it that cannot change while it lasts.
 * Both are kept because nvmlInit costs seconds on a full node, and a handle by UUID took up to ten.
 * A reloaded driver, a lost card or a reset by the agent ends the session; the next call opens
 * another.
 *
 * Threads: NVML's calls are thread-safe (NVML API Reference Guide, its first page). Each verb is a
 * turn: it is inside the gate of the library, and has its card in hand.
 */

/* Compute instance profiles of one GPU instance profile. The driver reports them only once an
 * instance exists, so they are learned from the first one. */
struct nvml_ci_table {
    bool known;
    unsigned n;
    struct nvml_ci_kind {
        unsigned id, slices;
        bool media; /* has engines of its own: never created */
    } items[NVML_CI_PROFILE_COUNT];
};

/* One card. Its identity outlives the session, so that a lost card can still be named. */
struct nvml_facts {
    /* guarded by nvml.holds: for threads that do not have the card in hand */
    struct lib_hold hold;
    char uuid[NVML_UUID_BYTES];
    unsigned index;         /* UINT_MAX: another card has it now */
    unsigned index_session; /* in which it was last seen there */
    struct nvml_shown {
        unsigned session; /* in which it was learned; 0: it is not */
        nvml_device device;
        struct gpu_known card; /* its identity */
    } shown;
    /* of the thread that has the card in hand, and shown when it gives it back */
    unsigned learned; /* number of the session; 0: it must be learned */
    bool numa_told;   /* the NUMA node is known, or there is none */
    bool no_fabric;   /* belongs to no fabric: not asked again */
    nvml_device device;
    struct gpu_card card; /* only its identity; state and processes stay empty */
    struct nvml_ci_table cis[MIG_MAX_PROFILES]; /* by index into card.mig.profiles */
};

/* The connections between the cards, as last asked. They are asked again when the cards, their
 * modes or the session change; and after 1, 2, 4 … readings, until every question was answered. */
struct nvml_topology {
    /* guarded by nvml.holds */
    bool asked; /* a thread has the rest in hand */
    struct gpu_topology pairs;
    /* of the thread that asks */
    char *of; /* owned: identifies the session and the cards it was asked for; NULL: never asked */
    bool settled;         /* every question was answered, and no link was down */
    unsigned pause, left; /* readings between two tries, and until the next one */
};

struct nvml_measured; /* what is kept between the measures of a card (nvml_telemetry.h) */

struct nvml {
    /* immutable */
    struct gpu gpu; /* first: a struct gpu * is a struct nvml * */
    const struct clock *clock;
    char *library, *nvidia_smi, *proc_root, *sys_root;
    struct gpu_watch *watch; /* borrowed, may be NULL */
    struct lib_gate *gate;
    /* of the thread that is alone in the gate; those inside read it */
    struct nvml_lib lib; /* empty until the first session finds it */
    /* atomics */
    atomic_uint session;  /* number of sessions so far */
    atomic_bool open;     /* nvmlInit has succeeded */
    atomic_bool stale;    /* the session must be opened again before its next use */
    atomic_bool worn;     /* it is to be opened again, for a lost card */
    atomic_bool outdated; /* the library must be loaded again too: the driver was upgraded */
    _Atomic int64_t lost_until_mono_ms; /* a lost card does not end sessions before then */
    /* guarded by holds */
    struct lib_holds holds;
    char driver[NVML_DRIVER_BYTES];
    char cuda[16];
    bool versions_told; /* false: at least one is asked for again */
    struct nvml_topology topology;
    unsigned n_cards; /* at the last reading */
    size_t n_facts;
    struct nvml_facts *facts[GPU_MAX_CARDS]; /* owned */
    size_t n_measured;
    struct nvml_measured *measured[GPU_MAX_CARDS]; /* owned */
};

/* Enters the library with a session that is open and usable. *ret_closed (NULL: waits for resets):
 * as lib_gate_enter_unless_reset. ERR_NOT_FOUND: there is no library, or no driver is loaded;
 * ERR_UNAVAILABLE, as lib_gate_enter. */
int nvml_session_enter(struct nvml *n, struct lib_pass *p, bool *ret_closed,
                       struct err *e) MUST_CHECK;

/* A verb's stay in the library with one card in hand. */
struct nvml_turn {
    struct lib_pass pass;
    struct nvml *n;
    struct nvml_facts *facts; /* in hand; NULL: none */
};

/* Enters, and takes the card in hand; enumerates the cards when it is not known yet.
 * ERR_NOT_FOUND: no such card; ERR_UNAVAILABLE: also when another thread does not give it back. */
int nvml_turn_begin(struct nvml_turn *t, struct nvml *n, const char *uuid,
                    struct err *e) MUST_CHECK;
/* Takes the card in hand for a reset, from outside of the library: a verb's turn would wait for the
 * resets that run. *ret_bus_id: its PCI address. Enters for a moment when the card is not known in
 * this session. Errors as nvml_turn_begin's. */
int nvml_turn_begin_reset(struct nvml_turn *t, struct nvml *n, const char *uuid,
                          char ret_bus_id[GPU_BUS_ID_BYTES], struct err *e) MUST_CHECK;
void nvml_turn_end(struct nvml_turn *t);
AUTO_DEFINE(nvml_turn, struct nvml_turn, nvml_turn_end)
#define auto_nvml_turn AUTO(nvml_turn)

/* True for an answer that will stay the same: a value, or that this card or driver has none. Other
 * return codes may change the next time. */
bool nvml_is_told(nvml_ret rc);

/* Turns a return code into 0 or -kind, and notes the codes that end a session. */
int nvml_check(struct nvml *n, const char *call, nvml_ret rc, struct err *e) MUST_CHECK;

/* Calls a function of the table; a missing one answers NVML_FUNCTION_NOT_FOUND. */
#define NVML_CALL(n, fn, ...)                                                                      \
    ({                                                                                             \
        nvml_ret nvml_rc_ = NVML_FUNCTION_NOT_FOUND;                                               \
        if ((n)->lib.fn) {                                                                         \
            gpu_call_begin(nvml_names.fn);                                                         \
            nvml_rc_ = (n)->lib.fn(__VA_ARGS__);                                                   \
            gpu_call_end();                                                                        \
        }                                                                                          \
        nvml_rc_;                                                                                  \
    })
/* The same as a fallible call: `TRY(NVML_DO(n, e, count, &count));` */
#define NVML_DO(n, e, fn, ...) nvml_check(n, nvml_names.fn, NVML_CALL(n, fn, __VA_ARGS__), e)

/* The facts of a card, in hand; enumerates the cards when it is not known yet. Errors as
 * nvml_turn_begin's. Inside the gate. */
int nvml_facts_get(struct nvml *n, const char *uuid, struct nvml_facts **ret,
                   struct err *e) MUST_CHECK;
/* The facts of the card at an index, in hand, learned when new. *ret_busy: another thread has the
 * card in hand, and only ret_card is filled in, with its identity. Never waits for a thread. */
int nvml_facts_at(struct nvml *n, unsigned index, struct nvml_facts **ret, bool *ret_busy,
                  struct gpu_card *ret_card, struct err *e) MUST_CHECK;
/* Takes a known card in hand, in or outside of the gate. *ret NULL: it is not known. */
int nvml_facts_take(struct nvml *n, const char *uuid, struct nvml_facts **ret,
                    struct err *e) MUST_CHECK;
/* Gives a card back, with what was learned of it; f NULL: nothing. */
void nvml_facts_give(struct nvml *n, struct nvml_facts *f);
/* The card in hand loses its index to another one, and is learned anew the next time. */
void nvml_facts_unsettle(struct nvml *n, struct nvml_facts *f, unsigned index);
/* The handle of a card in this session; NULL: none. Calls nothing. */
nvml_device nvml_facts_device(struct nvml *n, const char *uuid);
/* True for a card that was seen, in this session or before. */
bool nvml_facts_knows(struct nvml *n, const char *uuid);
/* The identity of the card last seen at an index; false: none. */
bool nvml_facts_last_at(struct nvml *n, unsigned index, struct gpu_card *ret);

/* Reads profiles and placements of a card into card->mig. The table is empty where the driver lists
 * none while MIG is off. ERR_PROTOCOL, reason MIGTableInvalid: mig_table_check refuses it. */
int nvml_mig_table(struct nvml *n, struct nvml_facts *f, struct err *e) MUST_CHECK;
/* The compute instance profiles inside gi, whose profile has this index on the card. Borrowed. */
int nvml_ci_table_get(struct nvml *n, struct nvml_facts *f, unsigned profile, nvml_gi gi,
                      const struct nvml_ci_table **ret, struct err *e) MUST_CHECK;
/* Reads the existing instances into card->state and card->partitions. */
int nvml_instances_read(struct nvml *n, struct nvml_facts *f, struct gpu_card *card,
                        struct err *e) MUST_CHECK;
/* Reads the processes into card->users, and marks card->state as in_use. */
int nvml_processes_read(struct nvml *n, struct nvml_facts *f, struct gpu_card *card,
                        struct err *e) MUST_CHECK;

/* Calls `each` for each entry of the driver's lists of processes; one process may have several.
 * *ret_told: false when the driver or card has no list of compute processes. */
typedef void nvml_process_fn(void *arg, const struct nvml_process_info *raw);
int nvml_process_lists(struct nvml *n, nvml_device d, nvml_process_fn *each, void *arg,
                       bool *ret_told, struct err *e) MUST_CHECK;

/* Forgets what was kept between measures, before the session ends. Called by the thread that is
 * alone in the gate. */
void nvml_measures_forget(struct nvml *n);

/* Checks that a value of the driver is possible. An impossible one is ERR_PROTOCOL, or is cut to
 * what fits. Texts may lack their terminator. */
int nvml_sound_uuid(unsigned index, char uuid[NVML_UUID_BYTES], struct err *e) MUST_CHECK;
int nvml_sound_bus_id(const char *bus_id, struct err *e) MUST_CHECK;
int nvml_sound_memory(uint64_t mib, struct err *e) MUST_CHECK;
/* Returns UINT_MAX for a minor that no device file can have. */
unsigned nvml_sound_minor(unsigned minor);
/* Checks one more instance against those in c->state. */
int nvml_sound_instance(const struct gpu_card *c, const struct nvml_gi_info *gi,
                        struct err *e) MUST_CHECK;
/* Checks one more compute instance against those in `in`. */
int nvml_sound_ci(const struct mig_instance *in, const struct nvml_ci_info *ci,
                  struct err *e) MUST_CHECK;
/* Checks one more partition against those of c. An illegal UUID, or another partition's, becomes
 * "". */
void nvml_sound_partition(const struct gpu_card *c, struct gpu_partition *p);
int nvml_sound_ci_slices(unsigned slices, struct err *e) MUST_CHECK;
/* Checks a count that came with success. of: its name in the error, "processes". */
int nvml_sound_count(const char *of, unsigned count, unsigned room, struct err *e) MUST_CHECK;

/* Fills in the inventory's topology, from memory unless something changed. What the driver does not
 * report stays unknown and is never an error. */
void nvml_topology_read(struct nvml *n, struct gpu_inventory *inv);

/* The verbs of gpu_ops; see there. */
int nvml_op_read(struct gpu *g, struct gpu_inventory *ret, struct err *e);
int nvml_op_read_card(struct gpu *g, const char *uuid, struct gpu_card *ret, struct err *e);
int nvml_op_mode_set(struct gpu *g, const char *uuid, enum gpu_mode mode, enum gpu_mode_result *ret,
                     struct err *e);
int nvml_op_exclusive_set(struct gpu *g, const char *uuid, bool on, struct err *e);
int nvml_op_limit_set(struct gpu *g, const char *uuid, const char *cgroup, uint64_t hard_bytes,
                      struct err *e);
int nvml_op_limit_get(struct gpu *g, const char *uuid, const char *cgroup, struct gpu_limit *ret,
                      struct err *e);
int nvml_op_measure(struct gpu *g, const char *uuid, uint64_t wanted, struct telemetry_card *ret,
                    struct err *e);
int nvml_op_reset(struct gpu *g, const char *uuid, struct err *e);
int nvml_op_gi_create(struct gpu *g, const char *uuid, unsigned profile_id, unsigned start,
                      unsigned size, unsigned *ret_gi_id, struct err *e);
int nvml_op_gi_destroy(struct gpu *g, const char *uuid, unsigned gi_id, struct err *e);
int nvml_op_ci_create(struct gpu *g, const char *uuid, unsigned gi_id, unsigned slices, int start,
                      unsigned *ret_ci_id, struct err *e);
int nvml_op_ci_destroy(struct gpu *g, const char *uuid, unsigned gi_id, unsigned ci_id,
                       struct err *e);
