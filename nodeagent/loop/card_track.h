/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/backoff.h"
#include "base/clock.h"

#include "nodeagent/change/card_offer.h"
#include "nodeagent/change/card_view.h"
#include "nodeagent/offer/card_memo.h"

/*
 * The progress of the agent with each card that the spec lists: pending attempts, the result of the
 * last one, and the time of the next one. Decides nothing about layouts and does no I/O; one
 * thread.
 */
struct card_track {
    struct card_memo memo;
    struct backoff backoff;
    int64_t retry_mono_ms; /* INT64_MAX: no retry is planned */
    bool ordered; /* a new spec asks for it; what it destroys, the controller withdrew before */
    struct card_offer told;    /* the offer last published for the card */
    int64_t told_number;       /* of the first status that says so; 0: none yet */
    bool withdraws;            /* waits until the Node offers no more than `told` */
    int64_t withdrawn_mono_ms; /* when the kubelet was shown what goes; 0: not yet */
    int64_t sealed_mono_ms;    /* when what goes was first sealed; 0: not sealed */
    bool surprised;            /* the last attempt found something to withdraw, unforeseen */
    int64_t await_mono_ms;     /* waits until then for its acknowledgement; 0: not waiting */
};

struct card_tracks {
    struct card_track *items; /* one for each card of the spec, in its order */
    size_t n;
};

/* Clock and random numbers for the pauses between attempts. */
struct card_track_clock {
    const struct clock *clk;
    struct rng *rng;
};

/* Follows the spec from `before` to `now`. A card whose want is unchanged keeps its result, even
 * when the generation or the source changed; every other card becomes pending. ordered: the spec
 * was replaced while the agent watched, so no status has mentioned it yet. */
void card_tracks_follow(struct card_tracks *t, const struct device_spec *before,
                        const struct device_spec *now, bool ordered);
/* The track of a card. Borrowed until the next follow, or NULL. */
struct card_track *card_tracks_find(const struct card_tracks *t, const char *uuid);
void card_tracks_done(struct card_tracks *t);

/* The time at which the card becomes due without any event; INT64_MAX: only an event makes it due,
 * or it is due now. */
int64_t card_track_due_mono_ms(const struct card_track *t);
/* True when the card is pending or its retry is due. A card that waits for an acknowledgement is
 * not due before its waiting time is over. */
bool card_track_is_due(const struct card_track *t, int64_t now_mono_ms);
/* Makes the card pending: it is attempted at once. */
void card_track_again(struct card_track *t);
/* An attempt begins. What it destroys is not offered from now on. */
void card_track_begin(struct card_track *t);
/* The number of the status that offers this of the card: that of the one that said so first, or of
 * `next`, which is about to. */
int64_t card_track_number(const struct card_track *t, const struct card_offer *offer, int64_t next);
/* True until a status mentioned the ordered change. The controller removed what the change destroys
 * from the Node before it ordered the change, and does not offer it again until that status
 * (reconcilers/node.h). */
bool card_track_is_ordered(const struct card_track *t);
/* Records that the status with this number offers this of the card. */
void card_track_told(struct card_track *t, const struct card_offer *offer, int64_t number);
/* Records that the parts to be destroyed are sealed. From the first call on the attempt waits only
 * for MPS daemons to end. */
void card_track_seal(struct card_track *t, int64_t now_mono_ms);
/* Waits for that status to be acknowledged, or for the kubelet's list, for a bounded time; once the
 * card is sealed, for a bounded time since then, however many lists come. */
void card_track_await(struct card_track *t, int64_t now_mono_ms);
/* The kubelet listed the holders: attempts that waited for the list continue. */
void card_tracks_listed(struct card_tracks *t);
/* The holders changed: attempts that found something in use are repeated now. */
void card_tracks_retry_now(struct card_tracks *t, int64_t now_mono_ms);
/* All who read the statuses have followed those up to this number: what they do not offer may go. */
void card_tracks_acked(struct card_tracks *t, int64_t number);
/* Nothing can be attempted for the want now (card_refusal.h): not before a new reading or another
 * want. reason is static. */
void card_track_refuse(struct card_track *t, const char *reason, const char *why);
/* Records how an attempt ended: done; in use (repeated every second); or failed (repeated after
 * growing pauses, of 2 s at first and at most 5 min, give or take a fifth; what is held or
 * infeasible waits for another want or reading). The card stays pending after an attempt that found
 * something to withdraw which the loop had not foreseen; a second such attempt in a row counts as
 * failed, since the loop's picture of the card stays another than the job's. */
void card_track_note(struct card_track *t, const struct device_want *want,
                     const struct txn_result *r, const struct card_track_clock *c);
/* After a reading: makes pending a card that was as wanted and is not any more (another program or
 * a reboot changed it), and one that could not be changed before and can be now (it was ill, or
 * missing). */
void card_track_recheck(struct card_track *t, const struct card_view *v,
                        const struct device_want *want);
