/* SPDX-License-Identifier: Apache-2.0 */
#include "nodeagent/loop/card_track.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "base/xalloc.h"

enum {
    DRAIN_POLL_MS = 1000,
    WITHDRAW_MS = 30000, /* an API server that takes longer counts as away */
};

struct card_track *card_tracks_find(const struct card_tracks *t, const char *uuid)
{
    for (size_t i = 0; i < t->n; i++)
        if (strcmp(t->items[i].memo.uuid, uuid) == 0)
            return &t->items[i];
    return NULL;
}

/* The want without its source and its sharing, which do not matter to the hardware. */
static json_t *wish_text(const struct device_want *want)
{
    struct device_want bare = *want;
    bare.has_source = false;
    bare.has_sharing = false;
    const struct device_spec holder = {.devices = &bare, .n_devices = 1};
    return device_spec_encode(&holder);
}

static bool same_wish(const struct device_want *x, const struct device_want *y)
{
    auto_json json_t *a = wish_text(x);
    auto_json json_t *b = wish_text(y);
    return json_equal(a, b);
}

static struct card_track track_new(const char *uuid, bool ordered)
{
    struct card_track t =
        {.ordered = ordered,
         .backoff = {.base_ms = 2000, .cap_ms = 300000, .factor = 2, .jitter_pct = 20}};
    (void)snprintf(t.memo.uuid, sizeof(t.memo.uuid), "%s", uuid);
    card_track_again(&t);
    return t;
}

void card_tracks_follow(struct card_tracks *t, const struct device_spec *before,
                        const struct device_spec *now, bool ordered)
{
    struct card_track *items = xcalloc(now->n_devices, sizeof(*items));
    for (size_t i = 0; i < now->n_devices; i++) {
        const struct device_want *want = &now->devices[i];
        const struct device_want *was = device_spec_want(before, want->uuid);
        const struct card_track *old = card_tracks_find(t, want->uuid);
        /* A refusal may concern the sharing, which is not part of the compared text. */
        bool judged = old && old->memo.progress != PROGRESS_REFUSED;
        items[i] = judged && was && same_wish(was, want) ? *old : track_new(want->uuid, ordered);
    }
    free(t->items);
    *t = (struct card_tracks){items, now->n_devices};
}

int64_t card_track_due_mono_ms(const struct card_track *t)
{
    return t->await_mono_ms ? t->await_mono_ms : t->retry_mono_ms;
}

void card_tracks_done(struct card_tracks *t)
{
    free(t->items);
    *t = (struct card_tracks){0};
}

bool card_track_is_due(const struct card_track *t, int64_t now_mono_ms)
{
    bool at_once = t->memo.progress == PROGRESS_PENDING && !t->await_mono_ms;
    return at_once || now_mono_ms >= card_track_due_mono_ms(t);
}

void card_track_again(struct card_track *t)
{
    t->memo.progress = PROGRESS_PENDING;
    t->retry_mono_ms = INT64_MAX;
}

/* A waiting card is changing from now on; a failed one keeps its result until the next. */
void card_track_begin(struct card_track *t)
{
    assert(t->memo.progress != PROGRESS_REFUSED);
    t->memo.beginning = true;
    if (t->memo.result.outcome == TXN_IN_USE)
        t->memo.progress = PROGRESS_PENDING;
}

bool card_track_is_ordered(const struct card_track *t)
{
    return t->ordered && !t->told_number;
}

int64_t card_track_number(const struct card_track *t, const struct card_offer *offer, int64_t next)
{
    assert(next > 0); /* 0 is: not told */
    return t->told_number && card_offer_equal(&t->told, offer) ? t->told_number : next;
}

void card_track_told(struct card_track *t, const struct card_offer *offer, int64_t number)
{
    t->told_number = card_track_number(t, offer, number);
    t->told = *offer;
}

void card_track_seal(struct card_track *t, int64_t now_mono_ms)
{
    if (!t->sealed_mono_ms)
        t->sealed_mono_ms = now_mono_ms;
}

void card_track_await(struct card_track *t, int64_t now_mono_ms)
{
    t->await_mono_ms = (t->sealed_mono_ms ? t->sealed_mono_ms : now_mono_ms) + WITHDRAW_MS;
}

void card_tracks_acked(struct card_tracks *t, int64_t number)
{
    for (size_t i = 0; i < t->n; i++) {
        struct card_track *track = &t->items[i];
        bool awaits_list = track->withdrawn_mono_ms;
        if (!awaits_list && track->told_number && track->told_number <= number)
            track->await_mono_ms = 0;
    }
}

void card_tracks_listed(struct card_tracks *t)
{
    for (size_t i = 0; i < t->n; i++)
        if (t->items[i].withdrawn_mono_ms)
            t->items[i].await_mono_ms = 0;
}

void card_tracks_retry_now(struct card_tracks *t, int64_t now_mono_ms)
{
    for (size_t i = 0; i < t->n; i++) {
        struct card_track *track = &t->items[i];
        if (track->memo.progress == PROGRESS_DONE && track->memo.result.outcome == TXN_IN_USE)
            track->retry_mono_ms = now_mono_ms;
    }
}

void card_track_refuse(struct card_track *t, const char *reason, const char *why)
{
    assert(reason && why);
    t->memo.progress = PROGRESS_REFUSED;
    t->withdraws = false;
    t->withdrawn_mono_ms = 0;
    t->sealed_mono_ms = 0;
    t->await_mono_ms = 0;
    t->memo.refusal_reason = reason;
    (void)snprintf(t->memo.refusal, sizeof(t->memo.refusal), "%s", why);
    t->retry_mono_ms = INT64_MAX;
}

static void note_drain(struct card_track *t, const struct device_want *want,
                       const struct card_track_clock *c)
{
    int64_t now = clock_wall_ms(c->clk);
    t->retry_mono_ms = clock_mono_ms(c->clk) + DRAIN_POLL_MS;
    if (t->memo.drain_since_ms)
        return;
    t->memo.drain_since_ms = now;
    if (want->has_rollout && want->rollout.drain == API_DRAIN_EVICT)
        t->memo.drain_deadline_ms = now + want->rollout.timeout_s * 1000;
}

void card_track_note(struct card_track *t, const struct device_want *want,
                     const struct txn_result *r, const struct card_track_clock *c)
{
    assert(want && c->clk && c->rng);
    bool was_withdrawn = t->memo.beginning;
    t->memo.beginning = false;
    t->withdraws = false;
    t->withdrawn_mono_ms = 0;
    t->sealed_mono_ms = 0;
    t->await_mono_ms = 0;
    bool surprised = r->outcome == TXN_NOT_WITHDRAWN && !was_withdrawn;
    bool again = surprised && !t->surprised;
    t->surprised = surprised;
    if (again) {
        card_track_again(t);
        return;
    }
    t->memo.progress = PROGRESS_DONE;
    t->memo.result = *r;
    t->retry_mono_ms = INT64_MAX;
    if (r->outcome == TXN_IN_USE) {
        note_drain(t, want, c);
        return;
    }
    t->memo.drain_since_ms = 0;
    t->memo.drain_deadline_ms = 0;
    if (r->outcome == TXN_APPLIED || r->outcome == TXN_NOTHING_TO_DO)
        backoff_reset(&t->backoff);
    else if (r->outcome != TXN_HELD && r->outcome != TXN_INFEASIBLE)
        t->retry_mono_ms = clock_mono_ms(c->clk) + backoff_next_ms(&t->backoff, c->clk, c->rng);
}

static enum card_verdict verdict_now(const struct card_view *v, const struct device_want *want)
{
    struct card_wish wish;
    if (card_wish_of(&v->card, want, &wish, NULL) < 0)
        return CARD_INFEASIBLE;
    auto_free struct card_plan *plan = xmalloc(sizeof(*plan));
    card_plan(&v->card, &wish, plan);
    return plan->verdict;
}

/* True when the reading still fits the result of the last attempt. Failures do not count; they have
 * a retry time of their own. */
static bool still_holds(const struct txn_result *r, const struct card_view *v,
                        const struct device_want *want)
{
    if (r->outcome == TXN_APPLIED || r->outcome == TXN_NOTHING_TO_DO)
        return verdict_now(v, want) == CARD_NOTHING;
    if (r->outcome == TXN_INFEASIBLE)
        return verdict_now(v, want) == CARD_INFEASIBLE;
    return true;
}

void card_track_recheck(struct card_track *t, const struct card_view *v,
                        const struct device_want *want)
{
    if (t->memo.progress == PROGRESS_REFUSED ||
        (t->memo.progress == PROGRESS_DONE && !still_holds(&t->memo.result, v, want)))
        card_track_again(t);
}
