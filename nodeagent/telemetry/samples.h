/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "nodeagent/telemetry/dcgm_page.h"
#include "nodeagent/telemetry/freshness.h"

/*
 * The last reading of each card of the node, and the page of them. A card keeps its reading while
 * the node has it. For one thread at a time.
 */
struct sample {
    struct telemetry_card card;
    struct consumer *pods; /* one for each process; owned */
    bool is_read;          /* once */
    unsigned failures;     /* of the newest attempts */
};

/* Owned: samples_done. */
struct samples {
    struct telemetry_node node;
    struct sample *items; /* one for each card of node */
};

/* From now on of these cards. */
void samples_take_node(struct samples *s, struct telemetry_node *node_take);
/* Notes an attempt to read a card of the node: its reading, and from proc_root (NULL: /proc) the pods
 * of its processes; or, where e has a kind, that it failed. Logs that a card cannot be read. */
void samples_note(struct samples *s, size_t at, const struct telemetry_card *card,
                  const char *proc_root, const struct err *e);
/* Appends the page; `how` has all but node and readings. */
void samples_write(struct samples *s, struct dcgm_page how, struct sb *out);
/* How old the readings are, one for each card. Caller frees. */
struct freshness *samples_freshness(const struct samples *s);
void samples_done(struct samples *s);
