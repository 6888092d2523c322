/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

/*
 * The planner for shares of cards: which cards the containers of a pod get, and how much of each.
 * Pure: no I/O, no clock. Whoever places a pod asks it, so that all come to the same answer.
 *
 * A share is a part of one card's memory and compute for one container. The shares of a container
 * lie on different cards; containers may meet on a card. Units: MiB, percent of one card's compute.
 *
 * The words and rules are HAMi's (pkg/device/nvidia/device.go Fit, pkg/scheduler/policy), which
 * takes for each container in turn the first cards that fit in the order of the policy. The answer
 * here is the same wherever HAMi's way leads to one. Where it does not, because a container took
 * what a later one needed, the first answer in that order is found, if there is any at all.
 */

enum { FRACTION_MAX_CARDS = 64, FRACTION_MAX_CONTAINERS = 64 };

struct fraction_size {
    unsigned memory_mib, percent, shares;
};

struct fraction_card {
    const char *uuid, *model; /* borrowed; NULL counts as "" */
    int numa;                 /* -1: not known */
    bool ill;                 /* gets no new shares */
    bool only_whole;          /* gives itself as one share, and no part of it */
    bool lonely;              /* a container with a share of it has no other (MPS) */
    bool cordoned;            /* somebody said not to use it */
    /* What it offers, oversubscription included, and what of that is given out. Less may be offered
     * than is given out, when a profile was changed. */
    struct fraction_size total, used;
};

/* The cards of one node. */
struct fraction_node {
    const struct fraction_card *cards; /* borrowed */
    unsigned n;
    /* How well each pair of cards is connected, symmetric, n * n values by row; NULL: not known. */
    const uint16_t *pairs;
};

/* When a container runs beside which others of its pod. */
enum fraction_phase {
    FRACTION_APP,     /* beside all sidecars and all other apps */
    FRACTION_INIT,    /* beside the sidecars that are listed before it */
    FRACTION_SIDECAR, /* from its turn to the end of the pod */
};

/* What one container asks for. */
struct fraction_ask {
    const char *container; /* its name, for messages; borrowed */
    enum fraction_phase phase;
    unsigned count;          /* shares; 0: none */
    unsigned memory_mib;     /* of each; 0: see memory_percent */
    unsigned memory_percent; /* of its card's memory, rounded down, where memory_mib is 0 */
    unsigned percent;        /* of a card's compute; 0: what is left, without a guarantee */
};

enum fraction_policy {
    FRACTION_BINPACK, /* the fullest card first */
    FRACTION_SPREAD,  /* the emptiest card first */
    FRACTION_NUMA,    /* cards of a high NUMA node first; those whose node is not known last */
    FRACTION_MUTEX,   /* only cards without shares */
    /* The best connected cards; for a single share, of the cards that fit, the one that is connected
     * worst with the others. */
    FRACTION_TOPOLOGY,
    FRACTION_N_POLICIES,
};
/* "binpack", "spread", "numa", "mutex", "topology-aware". */
extern const char *const fraction_policy_names[FRACTION_N_POLICIES];

/* What a pod wishes of the cards of all its containers. */
struct fraction_wish {
    /* Comma lists, borrowed; NULL or without items: none. Models match by a part of the name, in
     * any case. */
    const char *use_models, *no_models, *use_uuids, *no_uuids;
    bool one_numa; /* all cards of a container on one NUMA node, which is known */
    unsigned n_policies;
    /* The first counts most. Mutex and topology-aware put nothing into an order: where no other is
     * among them, it is that of spread. */
    enum fraction_policy policies[FRACTION_N_POLICIES];
    struct {
        unsigned shares, percent, memory;
    } weights; /* of what makes a card full; all 0: equal */
};

struct fraction_pod {
    const struct fraction_ask *asks; /* borrowed; init containers and sidecars first, as listed */
    unsigned n;
    struct fraction_wish wish;
};

/* cards[i]: the cards of ask i, asks[i].count of them, as indices into the node's. */
struct fraction_plan {
    uint8_t cards[FRACTION_MAX_CONTAINERS][FRACTION_MAX_CARDS];
};

/* Why a card does not take a share, in the order in which the reasons are looked for. */
enum fraction_misfit {
    FRACTION_FITS,
    FRACTION_ILL,
    FRACTION_CORDONED,
    FRACTION_MODEL,
    FRACTION_UUID,
    FRACTION_PART,    /* it gives itself, and no part */
    FRACTION_LONELY,  /* the container asks for several */
    FRACTION_SHARES,  /* it has as many as it takes */
    FRACTION_BUSY,    /* it has some, and the policy is mutex */
    FRACTION_MEMORY,  /* too little is left, or the share would be less than 1 MiB */
    FRACTION_COMPUTE, /* too little is left */
    FRACTION_SHARED,  /* all of its compute is asked for, and it has shares */
    FRACTION_TAKEN,   /* all of its compute is given to others */
    FRACTION_N_MISFITS,
};
/* HAMi's words for them ("CardInsufficientMemory"), and ours for FRACTION_PART and FRACTION_LONELY,
 * which HAMi does not know; FRACTION_FITS has none. */
extern const char *const fraction_misfit_names[FRACTION_N_MISFITS];

/* Whether it asks for whole cards: all of their memory and compute. */
bool fraction_is_whole(const struct fraction_ask *a);
/* What one share of this ask takes of a card. */
struct fraction_size fraction_share(const struct fraction_card *c, const struct fraction_ask *a);
/* What is left of a card. */
struct fraction_size fraction_room(const struct fraction_card *c);
/* The sum; a member that would wrap stays at UINT_MAX. For sums of what records say. */
struct fraction_size fraction_add(struct fraction_size a, struct fraction_size b);
/* True when a comma list has this UUID among its items. */
bool fraction_names_uuid(const char *list, const char *uuid);
/* What the lists of the wish say of each card: FRACTION_FITS, FRACTION_MODEL or FRACTION_UUID. Takes
 * the longer the longer the lists are: asked once for a node. */
void fraction_listed(const struct fraction_card *cards, unsigned n, const struct fraction_wish *w,
                     enum fraction_misfit *ret);
/* Whether the card takes one share more, where fraction_listed said this of it. */
enum fraction_misfit fraction_fit_listed(const struct fraction_card *c,
                                         const struct fraction_ask *a,
                                         const struct fraction_wish *w,
                                         enum fraction_misfit listed);
/* The same, lists included. */
enum fraction_misfit fraction_fit(const struct fraction_card *c, const struct fraction_ask *a,
                                  const struct fraction_wish *w);
/* How many cards of a set (bit i: card i) one container can have together: all, or with one_numa
 * the most on one NUMA node. Of cards whose node is not known one. */
unsigned fraction_together(const struct fraction_card *cards, uint64_t set,
                           const struct fraction_wish *w);
/* Puts the cards, up to FRACTION_MAX_CARDS, into the order in which the policy prefers them; of
 * equal ones the first comes first. ret: n indices into cards. */
void fraction_order(const struct fraction_card *cards, unsigned n, const struct fraction_wish *w,
                    uint8_t *ret);

/* Chooses cards for all containers. ERR_UNAVAILABLE: they do not fit now. ERR_INVALID: they would
 * not if the node's cards were empty. ERR_TOO_LARGE: no answer within FRACTION_STEPS steps, which
 * takes many containers that nearly fit, or more cards or containers than there may be. The message
 * says what is missing ("container main needs 3000 MiB on one card; the best of 8 has 2100"). */
int fraction_search(const struct fraction_node *n, const struct fraction_pod *p,
                    struct fraction_plan *ret, struct err *e) MUST_CHECK;
/* A step is a card that is looked at for a container, some 20 ns: a node takes at most 5 ms, or 15
 * where sets of 8 of 16 cards are weighed by their connections. Where no container makes
 * way for another, each pod whose record has room takes fewer. */
enum { FRACTION_STEPS = 200000 };

/* What the pod takes of card i over its life: the most at any time, init containers included. */
struct fraction_size fraction_peak(const struct fraction_node *n, const struct fraction_pod *p,
                                   const struct fraction_plan *plan, unsigned i);
