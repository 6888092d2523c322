/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "nodeagent/change/card_view.h"
#include "nodeagent/loop/card_track.h"
#include "nodeagent/loop/jobs.h"

/*
 * The choice between a reading and the attempt at some card. Pure: facts in, decision out. The
 * order of all kinds of jobs is agent.c's, start_next: releases and bindings of slots
 * (slot_jobs.h); a reading that is due; interrupted changes, then compute modes (read_jobs.h);
 * attempts.
 */
struct next_job_facts {
    const struct jobs *jobs;          /* the ones under way */
    const struct card_tracks *tracks; /* the cards of the spec */
    const struct card_view *cards;    /* as read last */
    size_t n_cards;
    int64_t now_mono_ms;
    int64_t next_read_mono_ms; /* no first reading before that */
    bool spec_seen;            /* without it nothing is attempted */
    bool cards_read, read_due;
};

enum next_job_kind { NEXT_NOTHING, NEXT_READ, NEXT_CARD };

/* *ret_card: the track of the card, with NEXT_CARD; borrowed from the tracks. A reading that is due
 * comes first, unless one is under way; nothing is attempted before the first one. */
enum next_job_kind next_job(const struct next_job_facts *f, struct card_track **ret_card);
/* The due card with the lowest index, as people count them; one that the node lacks comes last, and
 * one that no job may take now (jobs_may_take) is left out. NULL: none is due. */
struct card_track *next_job_card(const struct next_job_facts *f);
/* The earliest time at which a card that a job may take becomes due without any event; INT64_MAX:
 * none does. */
int64_t next_job_due_mono_ms(const struct next_job_facts *f);
