/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/clock.h"

#include "nodeagent/gpu/gpu.h"
#include "nodeagent/gpu/nvml_lib.h"

/*
 * One long session with the driver, and what it has learned that cannot change while it lasts.
 * nvmlInit costs seconds on a full node and handles by UUID were seen to take ten, so both are
 * kept; a reloaded driver, a lost card or a reset of ours ends the session and the next call opens
 * another. One thread.
 */

/* Compute instance profiles of one GPU instance profile, learned from the first instance of it: the
 * driver tells them only once an instance exists. */
struct nvml_ci_table {
    bool known;
    unsigned n;
    struct nvml_ci_kind {
        unsigned id, slices;
        bool media; /* with engines of its own: never the one to create */
    } items[NVML_CI_PROFILE_COUNT];
};

/* One card. After a session's end its identity stays known, so that a card that got lost can still
 * be named. */
struct nvml_facts {
    bool current;   /* learned in this session */
    bool numa_told; /* or there is no such thing */
    bool no_fabric; /* it is one that belongs to none: not asked again */
    nvml_device device;
    struct gpu_card card;                       /* identity alone; state and processes stay empty */
    struct nvml_ci_table cis[MIG_MAX_PROFILES]; /* by index into card.mig.profiles */
};

/* How the cards are joined, as last asked. It is asked again when the cards, their modes or the
 * session are others than they were; until all was told, also after 1, 2, 4 … readings. */
struct nvml_topology {
    char *of; /* owned: the session and the cards it was asked in; NULL: never */
    struct gpu_topology pairs;
    bool settled;         /* every question was answered, and no link was down */
    unsigned pause, left; /* readings between two tries, and until the next one */
};

struct nvml {
    struct gpu gpu;      /* first: a struct gpu * is a struct nvml * */
    struct nvml_lib lib; /* empty until the first session finds it */
    const struct clock *clock;
    char *library, *nvidia_smi, *proc_root, *sys_root;
    struct gpu_watch *watch;    /* borrowed, may be NULL */
    bool open;                  /* nvmlInit succeeded */
    bool stale;                 /* the session must be opened again before its next use */
    bool outdated;              /* and the library loaded again: the driver was upgraded under it */
    int64_t lost_until_mono_ms; /* a lost card does not end sessions before then */
    char driver[NVML_DRIVER_BYTES];
    char cuda[16];
    bool versions_told; /* both; else they are asked for again */
    unsigned session;   /* how many there were */
    struct nvml_topology topology;
    size_t n_facts;
    struct nvml_facts *facts[GPU_MAX_CARDS]; /* owned */
};

/* Opens the session unless it is open and sound. ERR_NOT_FOUND: there is no library or no driver is
 * loaded. */
int nvml_session_ensure(struct nvml *n, struct err *e) MUST_CHECK;
/* Ends it; every card is learned afresh in the next one. */
void nvml_session_end(struct nvml *n);

/* The answer, or that there is none on this card or driver; any other may be another the next time.
 */
bool nvml_is_told(nvml_ret rc);

/* The judgement on an answer: 0 or -kind, noting answers that end a session. */
int nvml_check(struct nvml *n, const char *call, nvml_ret rc, struct err *e) MUST_CHECK;

/* Calls a function of the table; a missing one answers NVML_FUNCTION_NOT_FOUND. */
#define NVML_CALL(n, fn, ...)                                                                      \
    ({                                                                                             \
        nvml_ret nvml_rc_ = NVML_FUNCTION_NOT_FOUND;                                               \
        if ((n)->lib.fn) {                                                                         \
            gpu_call_begin(&(n)->gpu, nvml_names.fn);                                              \
            nvml_rc_ = (n)->lib.fn(__VA_ARGS__);                                                   \
            gpu_call_end(&(n)->gpu);                                                               \
        }                                                                                          \
        nvml_rc_;                                                                                  \
    })
/* The same as a fallible call of ours: `TRY(NVML_DO(n, e, count, &count));` */
#define NVML_DO(n, e, fn, ...) nvml_check(n, nvml_names.fn, NVML_CALL(n, fn, __VA_ARGS__), e)

/* The card's facts, enumerating when it is not known yet. Borrowed until the session ends.
 * ERR_NOT_FOUND: no such card. */
int nvml_facts_get(struct nvml *n, const char *uuid, struct nvml_facts **ret,
                   struct err *e) MUST_CHECK;
/* The facts of the card at an index, learned when new. */
int nvml_facts_at(struct nvml *n, unsigned index, struct nvml_facts **ret,
                  struct err *e) MUST_CHECK;
/* The facts of a card, learned in this session or before; NULL: none. Asks nothing. */
const struct nvml_facts *nvml_facts_known(const struct nvml *n, const char *uuid);
/* What was known about the card at an index before it failed; NULL: nothing. */
const struct nvml_facts *nvml_facts_last_at(const struct nvml *n, unsigned index);

/* Profiles and placements of a card into card->mig. A card whose driver lists none while MIG is off
 * gets an empty table. ERR_PROTOCOL, with the reason MIGTableInvalid: one that mig_table_check
 * refuses. */
int nvml_mig_table(struct nvml *n, struct nvml_facts *f, struct err *e) MUST_CHECK;
/* The compute instance profiles inside gi, of the card's profile with this index. Borrowed. */
int nvml_ci_table_get(struct nvml *n, struct nvml_facts *f, unsigned profile, nvml_gi gi,
                      const struct nvml_ci_table **ret, struct err *e) MUST_CHECK;
/* The instances that stand, into card->state and card->partitions. */
int nvml_instances_read(struct nvml *n, struct nvml_facts *f, struct gpu_card *card,
                        struct err *e) MUST_CHECK;
/* The processes, into card->processes and the in_use marks of card->state. */
int nvml_processes_read(struct nvml *n, struct nvml_facts *f, struct gpu_card *card,
                        struct err *e) MUST_CHECK;

/* Is what the driver said something that can be? What cannot be is ERR_PROTOCOL, or cut to what
 * fits. Texts may lack their end. */
int nvml_sound_uuid(unsigned index, char uuid[NVML_UUID_BYTES], struct err *e) MUST_CHECK;
int nvml_sound_bus_id(const char *bus_id, struct err *e) MUST_CHECK;
int nvml_sound_memory(uint64_t mib, struct err *e) MUST_CHECK;
/* UINT_MAX: none that a device file can have. */
unsigned nvml_sound_minor(unsigned minor);
/* One more instance beside those in c->state. */
int nvml_sound_instance(const struct gpu_card *c, const struct nvml_gi_info *gi,
                        struct err *e) MUST_CHECK;
/* One more compute instance beside those in `in`. */
int nvml_sound_ci(const struct mig_instance *in, const struct nvml_ci_info *ci,
                  struct err *e) MUST_CHECK;
/* One more partition beside those of c. A UUID that is none, or another's, is "". */
void nvml_sound_partition(const struct gpu_card *c, struct gpu_partition *p);
int nvml_sound_ci_slices(unsigned slices, struct err *e) MUST_CHECK;
/* A count that came with success. of: "processes". */
int nvml_sound_count(const char *of, unsigned count, unsigned room, struct err *e) MUST_CHECK;

/* How the inventory's cards are joined, into its topology: from memory unless something changed.
 * What is not told is unknown, never an error. */
void nvml_topology_read(struct nvml *n, struct gpu_inventory *inv);

/* The operations of gpu_ops; see there. */
int nvml_op_read(struct gpu *g, struct gpu_inventory *ret, struct err *e);
int nvml_op_read_card(struct gpu *g, const char *uuid, struct gpu_card *ret, struct err *e);
int nvml_op_mode_set(struct gpu *g, const char *uuid, enum gpu_mode mode, enum gpu_mode_result *ret,
                     struct err *e);
int nvml_op_exclusive_set(struct gpu *g, const char *uuid, bool on, struct err *e);
int nvml_op_reset(struct gpu *g, const char *uuid, struct err *e);
int nvml_op_gi_create(struct gpu *g, const char *uuid, unsigned profile_id, unsigned start,
                      unsigned size, unsigned *ret_gi_id, struct err *e);
int nvml_op_gi_destroy(struct gpu *g, const char *uuid, unsigned gi_id, struct err *e);
int nvml_op_ci_create(struct gpu *g, const char *uuid, unsigned gi_id, unsigned slices, int start,
                      unsigned *ret_ci_id, struct err *e);
int nvml_op_ci_destroy(struct gpu *g, const char *uuid, unsigned gi_id, unsigned ci_id,
                       struct err *e);
