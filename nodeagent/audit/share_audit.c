/* SPDX-License-Identifier: Apache-2.0 */
#include "nodeagent/audit/share_audit.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/xalloc.h"

#define MIB ((uint64_t)1 << 20)

/* Readings that come closer together count as one. Before a process is ended there is more time:
 * the driver may take seconds to free what a process had that ended by itself. */
#define APART_MS      1000
#define ENDS_AFTER_MS 5000

/* Of the amount that a share is let, before it is over. */
#define SPARE_PERCENT 5

/* What a context may take by the terms, and how much of that is let pass where it comes on top of
 * the limit. A context of CUDA takes 300 to 600 MiB. The second bound is what a container can hide by
 * saying that it has taken nothing. */
#define MAX_CONTEXT_BYTES (2048 * MIB)
#define LET_CONTEXT_BYTES (1024 * MIB)

/* How much of the difference to what was measured before each reading makes good. */
#define SMOOTHING 4

void share_audit_done(struct share_audit *a)
{
    free(a->seen);
    *a = (struct share_audit){0};
}

void audit_news_done(struct audit_news *n)
{
    free(n->ends);
    *n = (struct audit_news){0};
}

static uint64_t least(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static uint64_t most(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

static uint64_t sum(uint64_t a, uint64_t b)
{
    return a > UINT64_MAX - b ? UINT64_MAX : a + b;
}

static uint64_t used_by(const struct audit_share *s)
{
    uint64_t all = 0;
    for (size_t i = 0; i < s->n; i++)
        all = sum(all, s->processes[i].bytes);
    return all;
}

/* --- Processes --- */

static const struct audit_seen *find_seen(const struct share_audit *a,
                                          const struct audit_process *p)
{
    for (size_t i = 0; i < a->n_processes; i++)
        if (a->seen[i].pid == p->id.pid && a->seen[i].started == p->id.started)
            return &a->seen[i];
    return NULL;
}

/* Nothing was allocated or freed since the reading before, as far as can be seen. */
static bool is_steady(const struct audit_seen *was, const struct audit_process *p)
{
    return was && was->is_limited == p->is_limited && was->bytes == p->bytes &&
           was->own_bytes == p->own_bytes;
}

static struct audit_seen see(const struct share_audit *before, const struct audit_share *s,
                             const struct audit_process *p, int64_t now_mono_ms)
{
    const struct audit_seen *was = find_seen(before, p);
    bool is_as_before = was && was->is_limited == p->is_limited;
    int64_t since_mono_ms = is_as_before ? was->since_mono_ms : now_mono_ms;
    return (struct audit_seen){
        .pid = p->id.pid,
        .started = p->id.started,
        .is_limited = p->is_limited,
        .since_mono_ms = since_mono_ms,
        .was_there = was,
        .bytes = p->bytes,
        .own_bytes = p->own_bytes,
        .is_steady = is_steady(was, p),
        .is_unlimited = !p->is_limited && !s->is_driven && now_mono_ms - since_mono_ms >= APART_MS,
    };
}

/* Puts what is seen now in place of what was seen before. */
static void see_all(struct share_audit *a, const struct audit_share *s, int64_t now_mono_ms)
{
    struct audit_seen *now = s->n ? xcalloc(s->n, sizeof(*now)) : NULL;
    a->n_unlimited = 0;
    for (size_t i = 0; i < s->n; i++) {
        now[i] = see(a, s, &s->processes[i], now_mono_ms);
        a->n_unlimited += now[i].is_unlimited;
    }
    free(a->seen);
    a->seen = now;
    a->n_processes = s->n;
}

static void judge_processes(struct share_audit *a, const struct audit_share *s, int64_t now_mono_ms,
                            struct audit_news *ret)
{
    bool were = a->n_unlimited > 0;
    see_all(a, s, now_mono_ms);
    ret->is_unlimited_now = a->n_unlimited > 0 && !were;
    ret->is_limited_again = a->n_unlimited == 0 && were;
}

/* --- What contexts take --- */

static uint64_t beyond_own(const struct audit_process *p)
{
    return p->bytes > p->own_bytes ? p->bytes - p->own_bytes : 0;
}

/* The driver was asked before usage was read. What was allocated or freed in between would be taken
 * for a context's, so that only steady processes are measured; and where a process says to have
 * taken more than it has on the card (managed memory that is on the host), its context is not seen.
 * Returns how many contexts they have, which take *ret together. */
static uint64_t measure(const struct share_audit *a, const struct audit_share *s, uint64_t *ret)
{
    uint64_t n = 0;
    *ret = 0;
    for (size_t i = 0; i < s->n; i++) {
        uint64_t beyond = beyond_own(&s->processes[i]);
        if (!s->processes[i].is_limited || !a->seen[i].is_steady || !beyond)
            continue;
        *ret = sum(*ret, beyond);
        n = sum(n, most(s->processes[i].contexts, 1));
    }
    return n;
}

/* What the driver reports of the limited processes, less what they say to have taken, for each of
 * their contexts. */
static uint64_t context_of(const struct share_audit *a, const struct audit_share *s)
{
    uint64_t all = 0;
    uint64_t bound = least(MAX_CONTEXT_BYTES, s->limit_bytes);
    uint64_t before = least(s->context_bytes, bound);
    uint64_t n = measure(a, s, &all);
    if (!n)
        return before;
    uint64_t now = least(all / n, bound);
    if (!before)
        return now;
    return now > before ? before + (now - before) / SMOOTHING : before - (before - now) / SMOOTHING;
}

/* By how much the driver's own limit may be more than the share (slots/cgroup_limits.c). */
static uint64_t rounding_of(const struct audit_share *s)
{
    return s->is_driven ? s->limit_bytes / 8 + 256 * MIB : 0;
}

/* Contexts count within the limit, but one may be older than the first measure of what it takes, or
 * take more than the others'. So that much is let pass, and never more than the limit again. */
static uint64_t let_of(const struct audit_share *s, uint64_t context)
{
    uint64_t contexts = 0;
    for (size_t i = 0; i < s->n; i++) {
        const struct audit_process *p = &s->processes[i];
        if (p->is_limited && p->bytes)
            contexts = sum(contexts, least(most(context, beyond_own(p)), LET_CONTEXT_BYTES));
    }
    return sum(s->limit_bytes, sum(least(contexts, s->limit_bytes), rounding_of(s)));
}

/* --- How much it is --- */

static uint64_t with_spare(uint64_t bytes)
{
    return sum(bytes, bytes / 100 * SPARE_PERCENT);
}

/* Between what it is let and what is too much it stays what it was. */
static void judge_amount(struct share_audit *a, int64_t now_mono_ms, struct audit_news *ret)
{
    bool was_over = a->is_over;
    bool exceeds = a->used_bytes > (a->is_over ? a->let_bytes : with_spare(a->let_bytes));
    if (exceeds && !a->exceeds)
        a->exceeds_since_mono_ms = now_mono_ms;
    a->exceeds = exceeds;
    a->is_over = exceeds && (a->is_over || now_mono_ms - a->exceeds_since_mono_ms >= APART_MS);
    ret->is_over_now = a->is_over && !was_over;
    ret->is_within_again = was_over && !a->is_over;
}

/* --- Who is ended --- */

struct candidate {
    size_t at;
    bool is_limited;
    uint64_t bytes;
};

/* Those without the limiter first, then those that have most. */
static int by_blame(const void *a, const void *b)
{
    const struct candidate *x = a;
    const struct candidate *y = b;
    if (x->is_limited != y->is_limited)
        return x->is_limited ? 1 : -1;
    if (x->bytes != y->bytes)
        return x->bytes > y->bytes ? -1 : 1;
    return x->at < y->at ? -1 : x->at > y->at;
}

/* A process that two readings showed, and the same both times, is the one that the second was about:
 * its number was not another's in between. */
static size_t candidates(const struct share_audit *a, const struct audit_share *s,
                         struct candidate *ret)
{
    size_t n = 0;
    for (size_t i = 0; i < s->n; i++)
        if (s->processes[i].bytes && a->seen[i].was_there)
            ret[n++] = (struct candidate){i, s->processes[i].is_limited, s->processes[i].bytes};
    if (n)
        qsort(ret, n, sizeof(*ret), by_blame);
    return n;
}

/* As many as have what is too much. */
static void choose_ends(const struct share_audit *a, const struct audit_share *s,
                        struct audit_news *ret)
{
    if (!s->n)
        return;
    auto_free struct candidate *list = xcalloc(s->n, sizeof(*list));
    size_t n = candidates(a, s, list);
    uint64_t left = a->used_bytes;
    for (size_t i = 0; i < n && left > a->let_bytes; i++) {
        *XPUSH(ret->ends, ret->n_ends) = list[i].at;
        left -= least(left, list[i].bytes);
    }
}

/* What was freed may be shown for a while yet, so the next ones are chosen as late as the first. */
static void judge_ends(struct share_audit *a, const struct audit_share *s, int64_t now_mono_ms,
                       struct audit_news *ret)
{
    if (!s->ends || !a->is_over || a->used_bytes <= with_spare(a->let_bytes) ||
        now_mono_ms - a->exceeds_since_mono_ms < ENDS_AFTER_MS)
        return;
    choose_ends(a, s, ret);
    if (ret->n_ends)
        a->exceeds_since_mono_ms = now_mono_ms;
}

void share_audit_judge(struct share_audit *a, const struct audit_share *s, int64_t now_mono_ms,
                       struct audit_news *ret)
{
    assert(s->n == 0 || s->processes);
    *ret = (struct audit_news){0};
    judge_processes(a, s, now_mono_ms, ret);
    a->used_bytes = used_by(s);
    a->context_bytes = context_of(a, s);
    a->let_bytes = let_of(s, a->context_bytes);
    judge_amount(a, now_mono_ms, ret);
    judge_ends(a, s, now_mono_ms, ret);
}
