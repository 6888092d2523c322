/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "api/device.h"
#include "nodeagent/consumers.h"
#include "nodeagent/gpu/gpu.h"
#include "nodeagent/health.h"
#include "nodeagent/holders.h"
#include "nodeagent/host_facts.h"
#include "nodeagent/kubelet/device_plugin.h"
#include "nodeagent/transaction.h"
#include "nodeagent/unended.h"
#include "partition/resolve.h"

/*
 * What the agent says about its node: a pure function of what was read from the hardware, what is
 * wanted, and how the last attempts went. No I/O; the time is given.
 */

/* A card with the pods of its processes: pods[i] belongs to card.processes[i]. */
struct card_view {
    struct gpu_card card;
    struct consumer *pods; /* owned; NULL when there are no processes */
    bool unwatched;        /* its driver does not report events */
    bool outdated; /* changed since it was read: what it offers is known with the next reading */
};

struct container_nodes;
struct device_slots;
struct plugin_config;

/* How far the agent is with one card that the spec lists. */
enum card_progress {
    PROGRESS_NONE,    /* nothing is wanted of the card */
    PROGRESS_PENDING, /* queued, or in the worker's hands */
    PROGRESS_DONE,    /* result tells */
    PROGRESS_REFUSED, /* the wish does not make sense on this card: refusal tells */
};

struct card_memo {
    char uuid[GPU_UUID_BYTES];
    enum card_progress progress;
    struct txn_result result;
    char refusal[384];
    const char *refusal_reason; /* static */
    bool
        beginning; /* what the attempt that is about to begin, or runs, takes away is not offered */
    int64_t drain_since_ms;    /* wall clock; 0: not waiting */
    int64_t drain_deadline_ms; /* wall clock; 0: none */
};

struct node_state {
    const struct gpu_inventory
        *inventory; /* vendor, versions, boot id; its cards are not looked at. NULL: not read yet */
    const struct card_view *cards; /* by index */
    size_t n_cards;
    const struct host_facts *host; /* what the kernel says of the machine; NULL: not read yet */
    const struct device_spec *spec;
    const char *spec_error;        /* the spec cannot be read; NULL: it can */
    int64_t generation;            /* of the spec */
    bool spec_seen;                /* the Device was read at least once */
    const struct card_memo *memos; /* one for each card of the spec, any order */
    size_t n_memos;
    const char *busy;                     /* the card that is being changed; NULL: none is */
    const struct card_offer *busy_offer;  /* what stays of that card until the change is over */
    const struct unended *unended;        /* changes that are still to be ended; NULL: none */
    const char *read_reason, *read_error; /* the last reading failed; NULL: it did not */
    const char *stuck_call;               /* a vendor call is past its deadline; NULL: none */
    const struct health *health;          /* why instances are ill; NULL: none is */
    const char *agent_version;
    const struct plugin_config *config; /* what holds where the spec does not; NULL: nothing */
    int publisher;                      /* enum api_publisher of the resources */
    const struct holders *holders;      /* the pods that were given devices; NULL: nobody gives */
    enum plugin_state plugin_state;     /* how serving the kubelet goes */
    const char *plugin_text;            /* NULL: we do not */
    const char *const *withheld;        /* CDI names of devices that cannot be given all the same */
    size_t n_withheld;
    const struct container_nodes *nodes; /* device files that containers get; NULL: not asked for */
    const struct device_slots *sick;     /* slots that cannot be handed out anew; NULL: none */
    const char *pods_forbidden;          /* why no slice can be made for a pod; NULL: they can */
};

/* prev (may be NULL) gives conditions their lastTransitionTime, and what could not be read since
 * the agent started: all of it before the first reading, later single cards. *ret is the caller's
 * (device_status_done). */
void node_status_build(const struct node_state *s, const struct device_status *prev, int64_t now_ms,
                       struct device_status *ret);

/* What of the i-th card the status offers: not what a change is about to take away, and nothing of
 * a card that is to be something else. */
void node_status_offer(const struct node_state *s, size_t i, int64_t now_ms,
                       struct card_offer *ret);

/* The resolver's view of a reading. Borrows from the card; *counts (freed by the caller) holds the
 * partitions. */
void card_resolve_view(const struct gpu_card *card, struct resolve_card *ret,
                       struct profile_count **counts);
void card_resolve_counts_free(struct profile_count *counts, size_t n);

/* What stands on the card, for a person: "2x1g.10gb 1x3g.40gb", "whole", "nothing cut", "slices
 * made for pods". Caller frees. */
char *card_layout_words(const struct gpu_card *card);

/* The reason of docs/api.md for what came of the memo's attempt, in conditions and Events alike;
 * want NULL: the card is wanted no more. Static. */
const char *card_result_reason(const struct device_want *want, const struct card_memo *m,
                               int64_t now_ms);

/* The wish that a Device's entry means on this card. ERR_NOT_FOUND, ERR_INVALID as mig_resolve. */
int card_wish_of(const struct gpu_card *card, const struct device_want *want, struct card_wish *ret,
                 struct err *e) MUST_CHECK;

void card_view_done(struct card_view *v);
