/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <pthread.h>

#include "base/strmap.h"

#include "scheduler/node_cards.h"
#include "scheduler/node_words.h"
#include "scheduler/quota.h"
#include "scheduler/view.h"

/* What a view is made of, for view_keep.c, which keeps it, and picture.c, which tells from it what is free. */

/* A pod that has shares. */
struct holder {
    char *uid, *name; /* "namespace/name"; name NULL while it is only assumed */
    struct pod_shares shares;
    char *binding;       /* assumed; NULL: its Binding was seen */
    int64_t expires_ms;  /* of an assumption */
    struct holder *next; /* on the same node */
};

struct node {
    struct object *device; /* NULL: it gives no shares */
    struct object *words;  /* the Node; NULL: its annotations say nothing of cards */
    struct holder *holders;
    /* What is free, with every holder: as many cards as the Device has. */
    struct fraction_card *cards;
    struct fraction_node picture;
    uint64_t fullness;
    bool fresh;          /* the picture is as of now, until then: */
    int64_t fresh_until; /* the next assumption ends */
};

/* The cards that a node gives in shares, by its Device; NULL: none, or they are HAMi's to give. */
static inline const struct node_cards *node_gives(const struct node *n)
{
    const struct node_words *w = n ? node_words_of(n->words) : NULL;
    return n && !(w && w->is_hamis) ? node_cards_of(n->device) : NULL;
}

struct view {
    const struct clock *clk;
    view_grown_fn *grown;
    void *arg;
    pthread_mutex_t mu;
    struct strmap *nodes;        /* by name: struct node */
    struct strmap *holders;      /* by the pod's uid: struct holder */
    struct store *pods, *quotas; /* borrowed */
    view_expiry_fn *expires;     /* NULL: nobody is told */
    void *expires_arg;
    /* What the decision that is being made is about. */
    const char *uid;          /* NULL: no pod in particular */
    const struct holder *own; /* what that pod has; NULL: nothing */
    int64_t now;
    bool quota_known, quota_bounds; /* what follows: is it known, does a quota bound it */
    struct quota_use others;
    /* What view_node_without gave last. */
    struct fraction_card cards[FRACTION_MAX_CARDS];
    struct fraction_node picture;
};
