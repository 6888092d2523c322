/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "nodeagent/telemetry/dcgm_page.h"
#include "nodeagent/telemetry/freshness.h"

/*
 * The last reading of each card of the node, and the page of these readings. A card keeps its
 * reading while the node has the card. For one thread at a time.
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

/* Replaces the node. A card that both have keeps its reading. */
void samples_take_node(struct samples *s, struct telemetry_node *node_take);
/* Notes an attempt to read a card of the node: its reading, and the pods of its processes, from
 * proc_root (NULL: /proc); or, where e has a kind, that the attempt failed. Logs when a card cannot
 * be read, and when it can be again. */
void samples_note(struct samples *s, size_t at, const struct telemetry_card *card,
                  const char *proc_root, const struct err *e);
/* Appends the page; `how` has all but node and readings. */
void samples_write(struct samples *s, struct dcgm_page how, struct sb *out);
/* The ages of the readings, one for each card. Caller frees. */
struct freshness *samples_freshness(const struct samples *s);
void samples_done(struct samples *s);
