/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/backoff.h"
#include "base/clock.h"

#include "nodeagent/card_memo.h"
#include "nodeagent/card_offer.h"
#include "nodeagent/card_view.h"

/*
 * How far the agent is with each card that the spec lists: what is pending, what came of the last
 * attempt, and when the next one is due by itself. Decides nothing about layouts and does no I/O;
 * one thread.
 */
struct card_track {
    struct card_memo memo;
    struct backoff backoff;
    int64_t retry_mono_ms; /* INT64_MAX: not by itself */
    /* What was put last about the card, and the number of the first status that says so; 0: nothing
     * yet. */
    bool ordered; /* by a new spec, whose writer withdrew first what it takes away */
    struct card_offer told;
    int64_t told_number;
    int64_t withdrawn_mono_ms; /* when the kubelet was told what goes; 0: not yet */
    int64_t await_mono_ms; /* 0: not waiting for that status to be acknowledged; else until when */
};

struct card_tracks {
    struct card_track *items; /* one for each card of the spec, in its order */
    size_t n;
};

/* Time and chance for pauses. */
struct card_track_clock {
    const struct clock *clk;
    struct rng *rng;
};

/* Follows the spec from `before` to `now`. A card whose wish is the same keeps its result, also
 * when another generation or another source asks for it; all others are pending. ordered: the spec
 * was replaced while the agent watched, so nothing of it has been told yet. */
void card_tracks_follow(struct card_tracks *t, const struct device_spec *before,
                        const struct device_spec *now, bool ordered);
/* Borrowed until the next follow, or NULL. */
struct card_track *card_tracks_find(const struct card_tracks *t, const char *uuid);
/* When the first attempt is due by itself; INT64_MAX: none is. */
int64_t card_tracks_due_mono_ms(const struct card_tracks *t);
void card_tracks_done(struct card_tracks *t);

/* Is it pending, or is its time to be tried again come? One that waits for an acknowledgement is
 * not, until its patience is over. */
bool card_track_is_due(const struct card_track *t, int64_t now_mono_ms);
/* To be attempted at once. */
void card_track_again(struct card_track *t);
/* An attempt begins that takes something away: from now on that is not offered. */
void card_track_begin(struct card_track *t);
/* Is it still to be told anything of a change that was ordered? Until then the controller, which
 * took what will go off the Node before it ordered, does not offer it again (reconcilers/node.h).
 */
bool card_track_is_ordered(const struct card_track *t);
/* The status with this number says so and so of the card. */
void card_track_told(struct card_track *t, const struct card_offer *offer, int64_t number);
/* Waits for the status that told it to be acknowledged, for a bounded time. */
void card_track_await(struct card_track *t, int64_t now_mono_ms);
/* The kubelet has told who holds what: what waited for that, goes on. */
void card_tracks_listed(struct card_tracks *t);
/* Somebody holds what nobody held, or the other way round: what is in use is looked at now. */
void card_tracks_stir(struct card_tracks *t, int64_t now_mono_ms);
/* All statuses up to this number are acknowledged. */
void card_tracks_acked(struct card_tracks *t, int64_t number);
/* The wish has no meaning on this card: not attempted until a reading or another wish. reason is
 * static. */
void card_track_refuse(struct card_track *t, const char *reason, const char *why);
/* How an attempt ended: done, to be looked at every second (in use), or to be tried again with
 * growing pauses. One that found something to take away that it had not begun for is pending. */
void card_track_note(struct card_track *t, const struct device_want *want,
                     const struct txn_result *r, const struct card_track_clock *c);
/* After a reading: a card that was right and no longer is (someone else changed it, or a reboot
 * did), or that could not be and now could (it was ill, it was not there), is pending again. */
void card_track_recheck(struct card_track *t, const struct card_view *v,
                        const struct device_want *want);
