/* SPDX-License-Identifier: Apache-2.0 */
#include "kubectl/history.h"

#include <string.h>

#include "base/jx.h"
#include "base/rfc3339.h"
#include "base/sb.h"
#include "base/xalloc.h"

#include "kubectl/safe_text.h"
#include "kubectl/status_card.h"
#include "kubectl/text.h"
#include "kubectl/word_list.h"

/* A text is cut here, before a character that would be cut in two: it would be no text. */
enum { MAX_WORDS_BYTES = 2048 };

/* reportingController of what our programs write begins so. */
#define OURS "gpu.cleave.dev/"

static char *copy(const char *text)
{
    return text && *text ? xstrndup(text, utf8_cut(text, MAX_WORDS_BYTES)) : NULL;
}

static void entry_done(struct history_entry *e)
{
    text_free(e->about);
    text_free(e->what);
    text_free(e->reason);
    text_free(e->words);
}

static int newest_first(const void *a, const void *b)
{
    const struct history_entry *x = a;
    const struct history_entry *y = b;
    if (x->at_ms != y->at_ms)
        return x->at_ms > y->at_ms ? -1 : 1;
    int order = text_order(x->about, y->about);
    order = order ? order : text_order(x->what, y->what);
    return order ? order : text_order(x->reason, y->reason);
}

void history_end(struct history *h)
{
    if (h->n)
        qsort(h->items, h->n, sizeof(*h->items), newest_first);
    while (h->n > HISTORY_MAX) {
        entry_done(&h->items[--h->n]);
        h->dropped++;
    }
}

/* Copies the texts. However many Events there are, twice the bound is kept of them. */
static void add(struct history *h, const struct history_entry *e)
{
    if (h->n == (size_t)HISTORY_MAX * 2)
        history_end(h);
    *XPUSH(h->items, h->n) = (struct history_entry){.at_ms = e->at_ms,
                                                    .about = copy(e->about),
                                                    .what = copy(e->what),
                                                    .reason = copy(e->reason),
                                                    .words = copy(e->words),
                                                    .times = e->times ? e->times : 1,
                                                    .is_bad = e->is_bad};
}

void history_done(struct history *h)
{
    for (size_t i = 0; i < h->n; i++)
        entry_done(&h->items[i]);
    free(h->items);
    *h = (struct history){0};
}

/* --- The Device --- */

static void add_conditions(struct history *h, const char *about, const struct conditions *all)
{
    static const char *const states[] =
        {[CONDITION_FALSE] = "False", [CONDITION_TRUE] = "True", [CONDITION_UNKNOWN] = "Unknown"};
    for (size_t i = 0; i < all->count; i++) {
        const struct condition *c = &all->items[i];
        bool is_true = c->status == CONDITION_TRUE;
        auto_free char *what = xasprintf("%s is %s", c->type, states[c->status]);
        add(h, &(struct history_entry){.at_ms = c->last_transition_ms,
                                       .about = about,
                                       .what = what,
                                       .reason = c->reason,
                                       .words = c->message,
                                       .is_bad = device_condition_is_negative(c->type) == is_true});
    }
}

static void add_breach(struct history *h, const char *about, const struct device_partition *p)
{
    if (p->has_breach)
        add(h, &(struct history_entry){.at_ms = p->breach.since_ms,
                                       .about = about,
                                       .what = "breach of a share",
                                       .reason = p->breach.reason,
                                       .words = p->breach.message,
                                       .is_bad = true});
}

static void add_card(struct history *h, const struct device_card *card)
{
    auto_free char *about = status_card_title(card->vendor, card->index);
    add_conditions(h, about, &card->conditions);
    if (card->has_drain)
        add(h, &(struct history_entry){.at_ms = card->drain.since_ms,
                                       .about = about,
                                       .what = "must become free",
                                       .reason = "Draining"});
    for (size_t i = 0; i < card->n_partitions; i++)
        add_breach(h, about, &card->partitions[i]);
}

void history_add_device(struct history *h, const struct device_status *st)
{
    add_conditions(h, "Device", &st->conditions);
    for (size_t i = 0; i < st->n_devices; i++)
        add_card(h, &st->devices[i]);
}

/* --- Events --- */

static bool is_about(const json_t *event, const char *node)
{
    const char *kind = JX_STR_AT(event, "regarding", "kind");
    const char *by = JX_STR_AT(event, "reportingController");
    return by && strncmp(by, OURS, strlen(OURS)) == 0 && kind &&
           (strcmp(kind, "Node") == 0 || strcmp(kind, "Device") == 0) &&
           text_equal(JX_STR_AT(event, "regarding", "name"), node);
}

void history_add_event(struct history *h, const char *node, const json_t *event)
{
    const char *last = JX_STR_AT(event, "series", "lastObservedTime");
    if (!is_about(event, node))
        return;
    add(h,
        &(struct history_entry){.at_ms = rfc3339_or(last ? last : JX_STR_AT(event, "eventTime"), 0),
                                .about = JX_STR_AT(event, "regarding", "kind"),
                                .what = "Event",
                                .reason = JX_STR_AT(event, "reason"),
                                .words = JX_STR_AT(event, "note"),
                                .times = json_integer_value(JX_AT(event, "series", "count")),
                                .is_bad = text_equal(JX_STR_AT(event, "type"), "Warning")});
}

/* --- Telling --- */

/* Bytes before the number of a card; 0: it is none. */
static size_t title_length(const char *about)
{
    const char *last = strrchr(about, ' ');
    return last ? (size_t)(last + 1 - about) : 0;
}

/* True when two entries differ in the number of the card alone. */
static bool are_alike(const struct history_entry *a, const struct history_entry *b)
{
    size_t len = title_length(a->about);
    return len && len == title_length(b->about) && strncmp(a->about, b->about, len) == 0 &&
           a->at_ms == b->at_ms && a->times == b->times && text_equal(a->what, b->what) &&
           text_equal(a->reason, b->reason) && text_equal(a->words, b->words);
}

/* True when an entry before has named this one. */
static bool is_named(const struct history *h, size_t i)
{
    for (size_t k = i; k > 0 && h->items[k - 1].at_ms == h->items[i].at_ms; k--)
        if (are_alike(&h->items[k - 1], &h->items[i]))
            return true;
    return false;
}

/* "NVIDIA GPU 0, 1, 2" */
static void add_about(const struct history *h, size_t i, struct sb *b)
{
    const struct history_entry *e = &h->items[i];
    sb_add(b, e->about);
    for (size_t k = i + 1; k < h->n && h->items[k].at_ms == e->at_ms; k++)
        if (are_alike(e, &h->items[k]))
            sb_addf(b, ", %s", h->items[k].about + title_length(h->items[k].about));
}

static void add_entry(const struct history *h, size_t i, const struct screen *s, struct sb *b)
{
    char time[RFC3339_BYTES];
    const struct history_entry *e = &h->items[i];
    auto_free char *what = safe_text(e->what);
    auto_free char *words = safe_text(e->words);
    sb_addf(b, "%s  ", rfc3339_format(e->at_ms, time));
    add_about(h, i, b);
    sb_addf(b, "  %s: ", what);
    screen_paint_foreign(s, b, e->is_bad ? INK_BAD : INK_GOOD, e->reason);
    if (e->times > 1)
        sb_addf(b, ", %lld times", (long long)e->times);
    sb_add_char(b, '\n');
    if (*words)
        word_list_prose(b, s, "    ", words);
}

void history_text(const struct history *h, const struct screen *s, struct sb *ret)
{
    for (size_t i = 0; i < h->n; i++)
        if (!is_named(h, i))
            add_entry(h, i, s, ret);
    if (h->dropped)
        sb_addf(ret, "and %zu older\n", h->dropped);
}

json_t *history_json(const struct history *h)
{
    json_t *list = json_array();
    for (size_t i = 0; i < h->n; i++) {
        char time[RFC3339_BYTES];
        const struct history_entry *e = &h->items[i];
        (void)json_array_append_new(list, json_pack("{s:s, s:s, s:s, s:s*, s:s*, s:I, s:b}", "at",
                                                    rfc3339_format(e->at_ms, time), "about",
                                                    e->about, "what", e->what, "reason", e->reason,
                                                    "message", e->words, "times",
                                                    (json_int_t)e->times, "bad", e->is_bad));
    }
    return list;
}
