/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "nodeagent/audit/share_audit.h"
#include "nodeagent/loop/agent_events.h"
#include "nodeagent/loop/cards.h"
#include "nodeagent/loop/share_metrics.h"
#include "nodeagent/loop/spec_source.h"
#include "nodeagent/offer/share_breach.h"

/*
 * Watches from outside whether the containers of limited shares keep to them. Each reading of the
 * node brings what the driver reports of their processes (audit/share_look.h); this module remembers
 * what it found of each share, and does what follows: an Event at each change, the gauges, what the
 * Device's status says, the measure of a context in the container's terms, and by the card's policy
 * the end of a process. The loop's thread only; it reads and writes small files in memory, and waits
 * for nothing.
 */
struct watched_share;

struct share_watch {
    /* Borrowed. */
    struct share_folders *folders; /* NULL: no share is limited; nothing here works */
    const char *proc_root;         /* NULL: /proc */
    const struct cards *cards;
    const struct spec_source *spec_source;
    const struct kubelet_link *kubelet; /* NULL: there is none */
    const struct agent_events *events;
    struct share_metrics *metrics; /* NULL: none */

    struct watched_share *items; /* owned */
    size_t n;
    struct share_breach *breaches; /* owned; borrows from items */
    size_t n_breaches;
};

/* Takes what a reading showed, after the cards have taken the reading. For an agent that has the
 * node's cards. */
void share_watch_take(struct share_watch *w, const struct agent_job *read);
/* The shares that their containers go beyond. Borrowed until the next take. */
struct share_breaches share_watch_breaches(const struct share_watch *w);
void share_watch_done(struct share_watch *w);
