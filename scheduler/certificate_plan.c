/* SPDX-License-Identifier: Apache-2.0 */
#include "scheduler/certificate_plan.h"

#include <stdlib.h>
#include <string.h>

#include "base/sb.h"
#include "base/xalloc.h"

enum {
    /* A third of its life is left. */
    DUE_PART = 3,
    /* And a tenth of that, at most, is waited for API servers. */
    SETTLE_PART = 30,
    /* A renewal's three writes have a third of a life. */
    WRITES_PART = 30,
    MAX_GAP_MS = 60 * 1000,
    MAX_BUNDLE = CERTIFICATE_MAX_OLD + 2,
    MAX_BUNDLE_BYTES = 1 << 20,
};

/* Certificates that are borrowed from what was seen. */
struct bundle {
    const struct certificate *all[MAX_BUNDLE];
    size_t n;
};

void certificate_seen_done(struct certificate_seen *s)
{
    certificate_done(&s->current);
    certificate_done(&s->next);
    for (size_t i = 0; i < s->n_old; i++)
        certificate_done(&s->old[i]);
    free(s->bundle);
    *s = (struct certificate_seen){0};
}

void certificate_todo_done(struct certificate_todo *t)
{
    free(t->bundle);
    free(t->old);
    *t = (struct certificate_todo){0};
}

int64_t certificate_write_gap_ms(int64_t valid_ms)
{
    int64_t part = valid_ms / WRITES_PART;
    return part < MAX_GAP_MS ? part : MAX_GAP_MS;
}

int64_t certificate_due_ms(int64_t valid_ms)
{
    return valid_ms / DUE_PART;
}

static bool is_valid(const struct certificate *c, int64_t now_ms)
{
    return c->pem && c->from_ms <= now_ms && now_ms < c->until_ms;
}

static bool is_too_long(const struct certificate *c, int64_t now_ms, int64_t valid_ms)
{
    return c->until_ms - now_ms > valid_ms + CERTIFICATE_SLACK_MS;
}

/* A certificate that is valid for longer than those that are made now counts as due. */
static bool is_fresh(const struct certificate *c, int64_t now_ms, int64_t valid_ms)
{
    return is_valid(c, now_ms) && !is_too_long(c, now_ms, valid_ms) &&
           c->until_ms - now_ms > certificate_due_ms(valid_ms);
}

/* --- The bundle --- */

static bool has(const struct bundle *b, const struct certificate *c)
{
    for (size_t i = 0; i < b->n; i++)
        if (strcmp(b->all[i]->pem, c->pem) == 0)
            return true;
    return false;
}

/* Keeps the latest end first: the order does not change by a promotion. */
static void insert(struct bundle *b, const struct certificate *c)
{
    size_t i = b->n++;
    for (; i > 0 &&
           (b->all[i - 1]->until_ms < c->until_ms ||
            (b->all[i - 1]->until_ms == c->until_ms && strcmp(b->all[i - 1]->pem, c->pem) < 0));
         i--)
        b->all[i] = b->all[i - 1];
    b->all[i] = c;
}

static void add(struct bundle *b, const struct certificate *c, int64_t now_ms)
{
    if (is_valid(c, now_ms) && !has(b, c))
        insert(b, c);
}

static void collect(const struct certificate_seen *seen, int64_t now_ms, struct bundle *ret)
{
    *ret = (struct bundle){0};
    add(ret, &seen->current, now_ms);
    add(ret, &seen->next, now_ms);
    for (size_t i = 0; i < seen->n_old; i++)
        if (!is_too_long(&seen->old[i], now_ms, CERTIFICATE_MAX_VALID_MS))
            add(ret, &seen->old[i], now_ms);
}

static bool is_same(const struct certificate *a, const struct certificate *b)
{
    return a->pem && b->pem && strcmp(a->pem, b->pem) == 0;
}

static char *text_of(const struct bundle *b)
{
    auto_sb struct sb text = SB_INIT(MAX_BUNDLE_BYTES);
    for (size_t i = 0; i < b->n; i++)
        sb_add(&text, b->all[i]->pem);
    return sb_take(&text);
}

/* The certificates that stay trusted after a promotion. The one that is still served comes first:
 * others must not push it out. */
static char *old_text(const struct certificate_seen *seen, const struct bundle *b, int64_t now_ms)
{
    auto_sb struct sb text = SB_INIT(MAX_BUNDLE_BYTES);
    size_t room = CERTIFICATE_MAX_OLD;
    if (is_valid(&seen->current, now_ms)) {
        sb_add(&text, seen->current.pem);
        room--;
    }
    for (size_t i = 0; i < b->n && room > 0; i++) {
        if (is_same(b->all[i], &seen->next) || is_same(b->all[i], &seen->current))
            continue;
        sb_add(&text, b->all[i]->pem);
        room--;
    }
    return sb_take(&text);
}

static int64_t first_end(const struct bundle *b)
{
    int64_t end = INT64_MAX;
    for (size_t i = 0; i < b->n; i++)
        if (b->all[i]->until_ms < end)
            end = b->all[i]->until_ms;
    return end;
}

/* --- The step --- */

static enum certificate_standing standing_of(const struct certificate_seen *seen, int64_t now_ms)
{
    if (!seen->has_secret)
        return CERTIFICATE_NO_SECRET;
    if (!seen->has_configuration)
        return CERTIFICATE_NO_CONFIGURATION;
    bool is_good =
        is_valid(&seen->current, now_ms) && seen->bundle && strstr(seen->bundle, seen->current.pem);
    return is_good ? CERTIFICATE_GOOD : CERTIFICATE_WORKING;
}

static int64_t settle_ms(int64_t valid_ms)
{
    int64_t part = valid_ms / SETTLE_PART;
    return part < CERTIFICATE_SETTLE_MS ? part : CERTIFICATE_SETTLE_MS;
}

static int64_t sooner(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static void rest(struct certificate_todo *t, int64_t ms)
{
    t->step = CERTIFICATE_REST;
    t->recheck_ms = sooner(ms < 1 ? 1 : ms, CERTIFICATE_RECHECK_MS);
}

/* The pair that is to be served is in the Secret. One that is served is replaced once API servers have
 * heard of the next. */
static void promote(const struct certificate_seen *seen, const struct bundle *b, int64_t now_ms,
                    int64_t valid_ms, struct certificate_todo *t)
{
    if (is_valid(&seen->current, now_ms)) {
        int64_t left_ms = settle_ms(valid_ms) - seen->settled_ms;
        if (!seen->has_configuration)
            return rest(t, seen->current.until_ms - now_ms);
        if (left_ms > 0)
            return rest(t, sooner(left_ms, seen->current.until_ms - now_ms));
    }
    t->step = CERTIFICATE_PROMOTE;
    t->old = old_text(seen, b, now_ms);
}

void certificate_plan(const struct certificate_seen *seen, int64_t now_ms, int64_t valid_ms,
                      struct certificate_todo *ret)
{
    struct bundle b;
    bool is_due = !is_fresh(&seen->current, now_ms, valid_ms);
    collect(seen, now_ms, &b);
    *ret = (struct certificate_todo){.standing = standing_of(seen, now_ms), .bundle = text_of(&b)};
    if (!seen->has_secret)
        rest(ret, CERTIFICATE_RECHECK_MS);
    else if (is_due && !is_fresh(&seen->next, now_ms, valid_ms))
        ret->step = CERTIFICATE_MAKE;
    else if (seen->has_configuration && (!seen->bundle || strcmp(seen->bundle, ret->bundle) != 0))
        ret->step = CERTIFICATE_ANNOUNCE;
    else if (is_due)
        promote(seen, &b, now_ms, valid_ms, ret);
    else
        rest(ret, sooner(first_end(&b) - now_ms,
                         seen->current.until_ms - certificate_due_ms(valid_ms) - now_ms));
}
