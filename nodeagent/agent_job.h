/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/clock.h"

#include "nodeagent/card_view.h"
#include "nodeagent/device_slots.h"
#include "nodeagent/driver_view.h"
#include "nodeagent/holders.h"
#include "nodeagent/host_facts.h"
#include "nodeagent/slot_bind.h"
#include "nodeagent/transaction.h"
#include "nodeagent/unended.h"

/*
 * What the agent's loop asks of the worker's thread, as one value that travels there and back: read
 * everything, bring one card to its layout and read it back, or make or take back what slots mean.
 * Whoever has it in hand owns it; the other thread does not look at it meanwhile.
 */
enum agent_job_kind { AGENT_JOB_READ, AGENT_JOB_CARD, AGENT_JOB_BIND, AGENT_JOB_RELEASE };

/* What others were told that they may have of one card. */
struct agent_card_offer {
    char uuid[GPU_UUID_BYTES];
    struct card_offer offer;
};

/* The same for all jobs of an agent, immutable. */
struct agent_job_env {
    const char *state_dir;             /* of the journals */
    const char *proc_root;             /* NULL: /proc */
    const struct driver_where *driver; /* NULL: nobody wants to know about device files */
    const struct clock *clk;
    const char *sys_root;          /* NULL: /sys */
    const struct cdi_slots *slots; /* NULL: slots are said by no CDI file */
};

struct agent_job {
    const struct agent_job_env *env;
    void *owner; /* for whoever takes it back */
    enum agent_job_kind kind;
    struct holders holders;         /* in: the pods that were given devices; owned */
    struct device_slots slots_made; /* in: on any card */
    /* in: READ */
    bool recover;                    /* end interrupted changes first */
    struct agent_card_offer *offers; /* what that must not destroy; of other cards nothing is on
                                        offer. Owned */
    size_t n_offers;
    bool modes_known; /* the next says which compute modes are wanted */
    char **exclusive; /* uuids of the cards that are MPS's alone; owned */
    size_t n_exclusive;
    /* in: CARD */
    char uuid[GPU_UUID_BYTES];
    struct card_wish wish;
    enum txn_policy policy;
    struct card_offer offered; /* what others were told that they may have of the card */
    char boot_id[40];
    const struct driver_view *driver_view; /* the newest; borrowed while the job runs */
    /* in: BIND; owned. RELEASE: its slot, on the card uuid ("": none that shows it) */
    struct slot_binding binding;
    unsigned slot;
    /* out */
    unsigned *slots_found; /* READ, with recover: those of which something is on record; owned */
    size_t n_slots_found;
    struct unended unended; /* READ, with recover: all there are now; owned */
    struct err unlisted;    /* READ, with recover: why it is not known what is to be ended, if so */
    int rc;                 /* of the reading */
    struct err err;
    int64_t began_mono_ms, took_ms;
    struct host_facts host;              /* READ, also when the cards cannot be read */
    struct gpu_inventory inventory;      /* READ; its cards moved to views */
    struct driver_view *new_driver_view; /* READ: where the one before is out of date */
    struct card_view *views;
    size_t n_views;
    struct card_view view; /* CARD; BIND and RELEASE: the card uuid, if it is not "" */
    struct txn_result result;
};

/* Borrows env and owner. Caller frees with agent_job_free. */
struct agent_job *agent_job_new(enum agent_job_kind kind, const struct agent_job_env *env,
                                void *owner);
/* A worker_job_fn: blocks for as long as the hardware takes; the thread that owns g. */
void agent_job_run(struct gpu *g, void *job);
/* A worker_done_fn: frees the job with all that was not taken out of it. */
void agent_job_free(void *job);
