/* SPDX-License-Identifier: Apache-2.0 */
#include "kubectl/complaints.h"

#include <string.h>

#include "base/rfc3339.h"
#include "base/xalloc.h"

#include "kubectl/remedy.h"
#include "kubectl/safe_text.h"
#include "kubectl/text.h"
#include "kubectl/word_list.h"

/* A message is cut here, so that one finding does not fill the screen. */
enum { MAX_SEEN_BYTES = 2048 };

static const struct {
    const char *word;
    enum ink ink;
} severities[] =
    {[SEVERITY_ERROR] = {"Error", INK_BAD}, [SEVERITY_WARNING] = {"Warning", INK_BUSY}};

void complaints_add(struct complaints *l, const struct complaint *from)
{
    if (l->n == COMPLAINTS_MAX) {
        l->more++;
        return;
    }
    *XPUSH(l->items, l->n) = (struct complaint){.severity = from->severity,
                                                .kind = xstrdup(from->kind),
                                                .name = xstrdup(from->name),
                                                .part = xstrdup(from->part),
                                                .reason = xstrdup(from->reason),
                                                .seen = xstrdup(from->seen),
                                                .since_ms = from->since_ms};
}

/* An object's complaints come one after the other, so that only the last of them are looked at. */
bool complaints_have(const struct complaints *l, const struct complaint *like)
{
    for (size_t i = l->n; i > 0; i--) {
        const struct complaint *c = &l->items[i - 1];
        if (!text_equal(c->name, like->name) || !text_equal(c->kind, like->kind))
            return false;
        if (text_equal(c->reason, like->reason))
            return true;
    }
    return false;
}

bool complaints_end_with(const struct complaints *l, const struct complaint *like)
{
    const struct complaint *c = l->n ? &l->items[l->n - 1] : NULL;
    return c && text_equal(c->name, like->name) && text_equal(c->kind, like->kind) &&
           text_equal(c->part, like->part) && text_equal(c->reason, like->reason) &&
           text_equal(c->seen, like->seen);
}

static int by_gravity(const void *a, const void *b)
{
    const struct complaint *x = a;
    const struct complaint *y = b;
    if (x->severity != y->severity)
        return x->severity < y->severity ? -1 : 1;
    int order = text_order(x->name, y->name);
    order = order ? order : text_order(x->kind, y->kind);
    order = order ? order : text_order(x->part, y->part);
    return order ? order : text_order(x->reason, y->reason);
}

void complaints_sort(struct complaints *l)
{
    if (l->n)
        qsort(l->items, l->n, sizeof(*l->items), by_gravity);
}

size_t complaints_count(const struct complaints *l, enum severity severity)
{
    size_t n = 0;
    for (size_t i = 0; i < l->n; i++)
        n += l->items[i].severity == severity;
    return n;
}

void complaints_done(struct complaints *l)
{
    for (size_t i = 0; i < l->n; i++) {
        struct complaint *c = &l->items[i];
        text_free(c->kind);
        text_free(c->name);
        text_free(c->part);
        text_free(c->reason);
        text_free(c->seen);
    }
    free(l->items);
    *l = (struct complaints){0};
}

/* --- For a person --- */

static void add_head(const struct complaint *c, const struct screen *s, struct sb *b)
{
    char time[RFC3339_BYTES];
    auto_free char *name = safe_text(c->name);
    auto_free char *part = safe_text(c->part);
    screen_paint(s, b, severities[c->severity].ink, severities[c->severity].word);
    sb_addf(b, "  %s%s%s%s%s: ", c->kind, *name ? " " : "", name, *part ? ", " : "", part);
    screen_paint_foreign(s, b, INK_STRONG, c->reason);
    if (c->since_ms)
        sb_addf(b, ", since %s", rfc3339_format(c->since_ms, time));
    sb_add_char(b, '\n');
}

static void add_seen(const char *seen, const struct screen *s, struct sb *b)
{
    auto_sb struct sb safe = SB_INIT(4 * MAX_SEEN_BYTES);
    safe_text_add(&safe, seen, MAX_SEEN_BYTES);
    word_list_prose(b, s, "  seen  ", sb_str(&safe));
}

static void add_complaint(const struct complaint *c, const struct screen *s, struct sb *b)
{
    const struct remedy *r = remedy_of(c->reason);
    add_head(c, s, b);
    if (c->seen && *c->seen)
        add_seen(c->seen, s, b);
    if (*r->words)
        word_list_prose(b, s, "  do    ", r->words);
    sb_addf(b, "  read  %s\n", r->page);
}

void complaints_text(const struct complaints *l, const struct screen *s, struct sb *ret)
{
    for (size_t i = 0; i < l->n; i++)
        add_complaint(&l->items[i], s, ret);
    if (l->more)
        sb_addf(ret, "and %zu more\n", l->more);
}

/* --- For programs --- */

static json_t *complaint_json(const struct complaint *c)
{
    char time[RFC3339_BYTES];
    const struct remedy *r = remedy_of(c->reason);
    return json_pack("{s:s, s:s, s:s*, s:s*, s:s, s:s*, s:s*, s:s, s:s}", "severity",
                     severities[c->severity].word, "kind", c->kind, "name", c->name, "part",
                     c->part, "reason", c->reason, "since",
                     c->since_ms ? rfc3339_format(c->since_ms, time) : NULL, "seen", c->seen,
                     "remedy", r->words, "page", r->page);
}

json_t *complaints_json(const struct complaints *l)
{
    json_t *list = json_array();
    for (size_t i = 0; i < l->n; i++)
        (void)json_array_append_new(list, complaint_json(&l->items[i]));
    return list;
}
