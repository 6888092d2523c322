/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/clock.h"

#include "nodeagent/audit/share_look.h"
#include "nodeagent/cdi/driver_view.h"
#include "nodeagent/change/card_view.h"
#include "nodeagent/change/transaction.h"
#include "nodeagent/offer/device_slots.h"
#include "nodeagent/offer/holders.h"
#include "nodeagent/offer/host_facts.h"
#include "nodeagent/offer/host_setup.h"
#include "nodeagent/slots/cgroup_limits.h"
#include "nodeagent/slots/share_bind.h"

/*
 * A request of the agent's loop to a thread of the worker, as one value that travels there and
 * back. Its kinds: read all cards; bring one card to its layout, or end its interrupted change, and
 * read it back where it was touched; set its compute mode; clear limits of memory that an earlier
 * agent left on it; bind slots; release a slot. Only a
 * reading runs beside others on the same card: it changes no card, and makes device files that are
 * missing. The thread that has the job in hand owns it; the others do not look at it meanwhile.
 */
enum agent_job_kind {
    AGENT_JOB_READ,
    AGENT_JOB_CARD,
    AGENT_JOB_RECOVER,
    AGENT_JOB_COMPUTE_MODE,
    AGENT_JOB_LIMITS,
    AGENT_JOB_BIND,
    AGENT_JOB_RELEASE
};

/* The settings that all jobs of one agent share. Immutable. */
struct agent_job_env {
    const char *state_dir;             /* holds the journals */
    const char *proc_root;             /* NULL: /proc */
    const struct driver_where *driver; /* NULL: device files are neither read nor made */
    const struct clock *clk;
    const char *sys_root;          /* NULL: /sys */
    const char *host_root;         /* the host's "/", as the agent sees it; NULL: / */
    const struct cdi_slots *slots; /* NULL: slots get no CDI file */
    /* As in struct slot_deps. */
    struct share_folders *share_folders;
    const char *limiter;
    const char *cgroup_root;
};

struct agent_job {
    const struct agent_job_env *env;
    void *owner; /* for the one that takes the job back */
    enum agent_job_kind kind;
    struct holders holders;         /* in: the pods that hold devices; owned */
    struct device_slots slots_made; /* in: the slots whose slice or share exists on some card */
    struct shares shares;           /* in: those on the cards; READ that lists, out: those with a
                                       record; owned */
    bool lists;                     /* in: READ: list the interrupted changes and the slots, too */
    /* in: all others, the card, which is read back after a change; BIND: the first of its cards; RELEASE: "" when no
     * card shows the slot */
    char uuid[GPU_UUID_BYTES];
    /* in: BIND, RELEASE: every card that it may touch, uuid among them; owned */
    char (*reach)[GPU_UUID_BYTES];
    size_t n_reach;
    struct card_offer offered; /* in: CARD, RECOVER: what the node still advertises of the card */
    /* in: CARD, and boot_id with RECOVER */
    struct card_wish wish;
    enum txn_policy policy;
    char boot_id[40];
    bool seals;     /* in: RECOVER: the card's devices are sealed while it runs */
    bool exclusive; /* in: COMPUTE_MODE: whether it is wanted; out: whether it is in force */
    struct driver_view *driver_view; /* in: the newest; held, and read only */
    struct slot_binding binding;     /* in: BIND; owned */
    unsigned slot;                   /* in: RELEASE */
    /* out */
    char **unended; /* READ that lists: the cards with an interrupted change; owned */
    size_t n_unended;
    unsigned *slots_found; /* READ that lists: slots with a record or a CDI file; owned */
    size_t n_slots_found;
    struct err unlisted; /* READ that lists: set when one of the two could not be listed */
    int rc;              /* of the reading */
    struct err err;
    int64_t began_mono_ms, took_ms;
    struct host_facts host;              /* READ; filled even when the cards cannot be read */
    struct host_setup setup;             /* READ; in: what was read last; out: the same as host */
    struct device_slots limits_lost;     /* READ: the slots that cgroup_limits_lost found */
    struct driver_limits limits;         /* READ; in: what is known; out: the same */
    struct gpu_inventory inventory;      /* READ; its cards have moved to views */
    struct share_sights sights;          /* READ: who uses the limited shares; owned */
    struct driver_view *new_driver_view; /* READ: a new view where the one before is out of date;
                                            else NULL */
    struct card_view *views;
    size_t n_views;
    struct card_view view;    /* of the card uuid, after it was read back; not of a READ */
    struct txn_result result; /* CARD, RECOVER */
};

/* Borrows env and owner. Caller frees with agent_job_free. */
struct agent_job *agent_job_new(enum agent_job_kind kind, const struct agent_job_env *env,
                                void *owner);
/* True for a BIND or RELEASE of shares; false for one of slices. */
bool agent_job_is_of_shares(const struct agent_job *j);
/* A worker_job_fn: blocks for as long as the hardware takes; any thread of the worker. */
void agent_job_run(struct gpu *g, void *job);
/* A worker_done_fn: frees the job with everything that the loop has not taken out of it. */
void agent_job_free(void *job);
