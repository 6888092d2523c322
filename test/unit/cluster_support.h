/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "kubeclient/fake/fake.h"
#include "kubeclient/fault.h"
#include "reconcilers/reconcilers.h"

/*
 * A cluster in memory: the fake API server, the whole controller stepped by hand, and agents that
 * do what they are told. Time stands still but for cluster_settle.
 */
struct cluster {
    struct clock *clk;
    struct scope *scope;
    struct kc *api;    /* for the test's own calls */
    struct kc *own;    /* the reconcilers': counts their writes, spoils them when asked */
    struct kc *reader; /* what the next process sees the server through; NULL: nothing. Borrowed */
    struct recorder *recorder;
    struct reconcilers *reconcilers;
    bool mortal; /* the planned fault is the end of the process: then the next one takes over */
    bool died;
    size_t many_nodes;        /* for the next process; 0: as ever */
    bool without_koordinator; /* the same */
    bool without_hami;        /* the same */
    bool with_gpushare;       /* the same */
};

/* plan NULL: no faults. */
void cluster_start(struct cluster *c, const struct kc_fault_plan *plan);
void cluster_stop(struct cluster *c);
/* A new controller process: nothing is remembered. Faults are over. */
void cluster_restart(struct cluster *c);

/* Steps until nothing has happened for two seconds of the fake clock. */
void cluster_settle(struct cluster *c);
/* Writes of the reconcilers since they were started. */
int cluster_writes(struct cluster *c);

/* YAML documents; what is there is replaced (its spec). */
void cluster_apply(struct cluster *c, const char *yaml);
void cluster_remove(struct cluster *c, const struct kc_resource *res, const char *name);
/* New reference; the test fails when it is not there. */
json_t *cluster_get(struct cluster *c, const struct kc_resource *res, const char *name);
void cluster_patch(struct cluster *c, const struct kc_resource *res, const char *name,
                   const char *subresource, const char *merge_patch);

/* A Node with the label pool=a and its Device of n H100 cards, as a fresh agent reports them. */
void cluster_add_node(struct cluster *c, const char *name, size_t n_cards);
/* Koordinator's Device becomes a kind of this cluster. */
void cluster_install_koordinator(struct cluster *c);
/* Koordinator's Device of a node in one line: "0:well 1:ill", by the numbers that end their ids; ""
 * for none. Caller frees. */
char *cluster_mirror(struct cluster *c, const char *node);

/* Sets a label of a Node; value NULL removes it. */
void cluster_label(struct cluster *c, const char *node, const char *key, const char *value);
/* The same as another field manager than everybody else here. */
void cluster_label_as(struct cluster *c, const char *manager, const char *node, const char *key,
                      const char *value);
/* The value of a Node's label; "" when absent. Caller frees. */
char *cluster_label_of(struct cluster *c, const char *node, const char *key);

/* The node's agent does all that the spec asks for. */
void cluster_agent(struct cluster *c, const char *node);
/* It cannot: every card that the spec lists and that is not as wanted says so. */
void cluster_agent_fails(struct cluster *c, const char *node, const char *reason);

/* The Device's spec in one line: "0:mig[1g.10gb*2] 1:native"; "" for none. Caller frees. */
char *cluster_spec(struct cluster *c, const char *node);
/* Number of nodes whose agent has not reached the spec's generation. */
int cluster_nodes_in_change(struct cluster *c);
/* "matched/upToDate/progressing/failed Ready=False Waiting". Caller frees. */
char *cluster_profile(struct cluster *c, const char *name);
/* Status and reason of a condition: "False Conflict", "" when absent. Caller frees. */
char *cluster_condition(struct cluster *c, const struct kc_resource *res, const char *name,
                        const char *type);
/* Has an event with this reason been recorded about the object of this name? */
bool cluster_has_event(struct cluster *c, const char *about, const char *reason);
/* How many such Events there are whose note holds the part: each note is told by one Event, however
 * often it happens. */
int cluster_count_events(struct cluster *c, const char *about, const char *reason,
                         const char *part);
