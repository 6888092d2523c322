/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/clock.h"

#include "nodeagent/change/card_view.h"
#include "nodeagent/change/transaction.h"
#include "nodeagent/change/unended.h"
#include "nodeagent/container/driver_view.h"
#include "nodeagent/offer/device_slots.h"
#include "nodeagent/offer/holders.h"
#include "nodeagent/offer/host_facts.h"
#include "nodeagent/slots/slot_bind.h"

/*
 * A request of the agent's loop to the worker's thread, as one value that travels there and back.
 * Its kinds: read all cards; bring one card to its layout and read it back; bind slots; release a
 * slot. The thread that has the job in hand owns it; the other one does not look at it meanwhile.
 */
enum agent_job_kind { AGENT_JOB_READ, AGENT_JOB_CARD, AGENT_JOB_BIND, AGENT_JOB_RELEASE };

/* The devices that a node last advertised of one card. */
struct agent_card_offer {
    char uuid[GPU_UUID_BYTES];
    struct card_offer offer;
};

/* The settings that all jobs of one agent share. Immutable. */
struct agent_job_env {
    const char *state_dir;             /* holds the journals */
    const char *proc_root;             /* NULL: /proc */
    const struct driver_where *driver; /* NULL: device files are neither read nor made */
    const struct clock *clk;
    const char *sys_root;          /* NULL: /sys */
    const struct cdi_slots *slots; /* NULL: slots get no CDI file */
};

struct agent_job {
    const struct agent_job_env *env;
    void *owner; /* for the one that takes the job back */
    enum agent_job_kind kind;
    struct holders holders;         /* in: the pods that hold devices; owned */
    struct device_slots slots_made; /* in: the slots whose slice exists on some card */
    /* in: READ */
    bool recover;                    /* recover interrupted changes first */
    struct agent_card_offer *offers; /* what recovering must not destroy; a card that is missing
                                        here offers nothing. Owned */
    size_t n_offers;
    bool modes_known; /* whether `exclusive` is valid */
    char **exclusive; /* uuids of the cards wanted in compute mode EXCLUSIVE_PROCESS; owned */
    size_t n_exclusive;
    /* in: CARD */
    char uuid[GPU_UUID_BYTES];
    struct card_wish wish;
    enum txn_policy policy;
    struct card_offer offered; /* what the node still advertises of the card */
    char boot_id[40];
    const struct driver_view *driver_view; /* the newest; borrowed while the job runs */
    /* in: BIND: the binding, owned. RELEASE: the slot, and in uuid its card ("": no card shows
     * it) */
    struct slot_binding binding;
    unsigned slot;
    /* out */
    unsigned *slots_found; /* READ with recover: slots with a record or a CDI file; owned */
    size_t n_slots_found;
    struct unended unended; /* READ with recover: the changes that could not be recovered; owned */
    struct err unlisted;    /* READ with recover: set when the interrupted changes could not be
                               listed */
    int rc;                 /* of the reading */
    struct err err;
    int64_t began_mono_ms, took_ms;
    struct host_facts host;              /* READ; filled even when the cards cannot be read */
    struct gpu_inventory inventory;      /* READ; its cards have moved to views */
    struct driver_view *new_driver_view; /* READ: a new view where the one before is out of date;
                                            else NULL */
    struct card_view *views;
    size_t n_views;
    struct card_view view; /* CARD: the card after the attempt. BIND, RELEASE: the card uuid, unless
                              that is "" */
    struct txn_result result;
};

/* Borrows env and owner. Caller frees with agent_job_free. */
struct agent_job *agent_job_new(enum agent_job_kind kind, const struct agent_job_env *env,
                                void *owner);
/* A worker_job_fn: blocks for as long as the hardware takes; the thread that owns g. */
void agent_job_run(struct gpu *g, void *job);
/* A worker_done_fn: frees the job with everything that the loop has not taken out of it. */
void agent_job_free(void *job);
