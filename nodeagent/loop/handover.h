/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/*
 * The phases of an agent's life beside another agent of its node, and what each of them may do
 * (docs/adr/0037-hand-over.md). Pure: facts in, the phase out; the loop acts.
 *
 *                reads  serves the   changes   writes    answers
 *                       kubelet      cards     status    grants
 *   STANDBY       x
 *   TAKING        x      x                      x         x
 *   SETTLING      x      x           recovery   x         x
 *   WORKING       x      x           x          x         x
 *   ENDING               x           the last   x         x
 *   RELEASED                                              x
 *   PARTING                                               x
 */
enum handover_phase {
    HANDOVER_STANDBY,  /* another process has the right to change the cards */
    HANDOVER_TAKING,   /* it has released them, and may still answer the kubelet's grants */
    HANDOVER_SETTLING, /* it has ended; a grant of it may still be on its way to the kubelet's list
                          of pods, and the end of its streams on its way through the kubelet */
    HANDOVER_WORKING,
    HANDOVER_ENDING,   /* asked to end while a standby waits: ends the jobs under way */
    HANDOVER_RELEASED, /* has released the cards; waits until the standby serves the kubelet */
    HANDOVER_PARTING,  /* has the kubelet forget its connections */
    HANDOVER_OVER,     /* the agent ends */
};

/* Times in milliseconds. The agent that leaves spends at most the first in ENDING (its jobs) and the
 * second in RELEASED (until the successor serves); the successor spends the third in SETTLING, and
 * waits for its locks as long as it takes. With PLUGIN_PARTING_MS and the worker's grace the first
 * two fit into the pod's terminationGracePeriodSeconds (config/agent/daemonset.yaml). */
#define HANDOVER_ENDING_MS   20000
#define HANDOVER_RELEASED_MS 20000
#define HANDOVER_SETTLING_MS 1000

struct handover_facts {
    enum handover_phase phase;
    int64_t since_mono_ms; /* of the phase */
    int64_t now_mono_ms;
    bool has_cards, is_alone;     /* handover_locks.h */
    bool is_awaited;              /* a standby waits; with is_alone */
    bool is_succeeded, is_served; /* the standby has told, and that it serves; after RELEASED */
    bool is_asked;                /* to end */
    bool has_jobs;                /* jobs are under way that change something */
    bool has_parted;              /* the kubelet has forgotten; after PARTING began */
};

/* The phase in which an agent begins. */
enum handover_phase handover_first(bool has_cards, bool is_alone);
/* The phase that follows from the facts: the same, or one of those that come after it. */
enum handover_phase handover_next(const struct handover_facts *f);
/* When handover_next may have another answer without any event; INT64_MAX: never. */
int64_t handover_due_mono_ms(enum handover_phase phase, int64_t since_mono_ms);

/* The rights of a phase, as in the table above: "reads"; "serves the kubelet" and "writes status";
 * "recovery" or more; all of "changes cards". */
bool handover_reads(enum handover_phase phase);
bool handover_publishes(enum handover_phase phase);
bool handover_recovers(enum handover_phase phase);
bool handover_changes(enum handover_phase phase);
/* True from RELEASED on: new orders are left to the successor. */
bool handover_is_frozen(enum handover_phase phase);
