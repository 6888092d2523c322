/* SPDX-License-Identifier: Apache-2.0 */
#include "nodeagent/health/health_watch.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "base/xalloc.h"

#include "partition/vendor.h"
#include "service/resources.h"

/* Bound on the reports taken in one round, so that a driver that reports without end cannot occupy
 * the loop. */
#define MOST_AT_ONCE 256

/* An illness that was reported to people. */
struct told {
    char uuid[GPU_UUID_BYTES];
    int gi_id;          /* -1: the card */
    const char *vendor; /* static */
    unsigned index;
    char reason[64];
    bool still;
};

static_assert(sizeof(((struct told *)0)->reason) >=
                  sizeof(((struct gpu_card *)0)->unhealthy_reason),
              "a reason that is cut would count as another one each time");

struct gauges {
    struct metric *xids;
    struct metric_series *cards, *partitions, *unwatched;
};

struct health_watch {
    struct health_watch_deps d;
    struct health *memory;
    struct told *told; /* owned */
    size_t n_told;
    char (*watched)[GPU_UUID_BYTES]; /* cards that the running child watches; owned */
    size_t n_watched;
    char (*refused)[GPU_UUID_BYTES]; /* cards for which the driver reports no events; owned */
    size_t n_refused;
    bool spawn_failed;
    struct gauges metrics;
};

static void register_metrics(struct health_watch *w)
{
    struct metrics *m = w->d.metrics;
    if (!m)
        return;
    w->metrics.xids = metrics_counter(m, "cleave_agent_xids_total", "Xids that drivers reported.",
                                      METRIC_LABELS("xid"));
    w->metrics.cards = METRIC_WITH(
        metrics_gauge(m, "cleave_agent_unhealthy_cards", "Cards that are not healthy.", NULL));
    w->metrics.partitions =
        METRIC_WITH(metrics_gauge(m, "cleave_agent_unhealthy_partitions",
                                  "Partitions that are not healthy while their card is.", NULL));
    w->metrics.unwatched = METRIC_WITH(
        metrics_gauge(m, "cleave_agent_unwatched_cards",
                      "Cards without reports of their driver: readings alone show their health.",
                      NULL));
}

struct health_watch *health_watch_new(const struct health_watch_deps *d)
{
    assert(d && d->clk);
    struct health_watch *w = xcalloc(1, sizeof(*w));
    w->d = *d;
    w->memory = health_new(&d->options);
    register_metrics(w);
    return w;
}

struct health_watch *health_watch_free(struct health_watch *w)
{
    if (!w)
        return NULL;
    w->memory = health_free(w->memory);
    free(w->told);
    free(w->watched);
    free(w->refused);
    free(w);
    return NULL;
}

const struct health *health_watch_memory(const struct health_watch *w)
{
    return w->memory;
}

int health_watch_fd(const struct health_watch *w)
{
    return w->d.watch ? gpu_watch_fd(w->d.watch) : -1;
}

/* --- Sets of UUIDs --- */

static bool has_uuid(char (*list)[GPU_UUID_BYTES], size_t n, const char *uuid)
{
    for (size_t i = 0; i < n; i++)
        if (strcmp(list[i], uuid) == 0)
            return true;
    return false;
}

/* XPUSH writes the count. NOLINTNEXTLINE(readability-non-const-parameter) */
static void add_uuid(char (**list)[GPU_UUID_BYTES], size_t *n, const char *uuid)
{
    assert(*n <= GPU_MAX_CARDS);
    if (*n == GPU_MAX_CARDS || has_uuid(*list, *n, uuid))
        return;
    char(*place)[GPU_UUID_BYTES] = XPUSH(*list, *n);
    (void)snprintf(*place, sizeof(*place), "%s", uuid);
}

/* True: it was in the list. */
static bool remove_uuid(char (*list)[GPU_UUID_BYTES], size_t *n, const char *uuid)
{
    for (size_t i = 0; i < *n; i++)
        if (strcmp(list[i], uuid) == 0) {
            memmove(list[i], list[--*n], GPU_UUID_BYTES);
            return true;
        }
    return false;
}

/* --- Reporting --- */

static void report_change(struct health_watch *w, bool warning, const char *reason,
                          const char *text)
{
    const struct event_about node = {.resource = &resource_nodes,
                                     .name = w->d.node,
                                     .uid = w->d.node};
    recorder_event_about(w->d.recorder, &node, warning, reason, "%s", text);
}

static char *name_of(const struct told *t)
{
    const char *vendor = vendor_title(t->vendor);
    return t->gi_id < 0 ? xasprintf("%s GPU %u", vendor, t->index)
                        : xasprintf("%s GPU %u instance %d", vendor, t->index, t->gi_id);
}

static struct told *find_told(struct health_watch *w, const char *uuid, int gi_id)
{
    for (size_t i = 0; i < w->n_told; i++)
        if (w->told[i].gi_id == gi_id && strcmp(w->told[i].uuid, uuid) == 0)
            return &w->told[i];
    return NULL;
}

static void report_ill(struct health_watch *w, const struct gpu_card *card, int gi_id,
                       const char *reason, const char *message)
{
    assert(gi_id >= -1);
    struct told *t = find_told(w, card->uuid, gi_id);
    bool new = !t || strcmp(t->reason, reason) != 0;
    if (!t)
        t = XPUSH(w->told, w->n_told);
    memcpy(t->uuid, card->uuid, sizeof(t->uuid));
    t->gi_id = gi_id;
    t->vendor = card->vendor;
    t->index = card->index;
    t->still = true;
    (void)snprintf(t->reason, sizeof(t->reason), "%s", reason);
    if (!new)
        return;
    auto_free char *name = name_of(t);
    auto_free char *text = xasprintf("%s: %s", name, message);
    log_warn("Hardware is unhealthy", kv("gpu", card->uuid), kv_int("gi", gi_id),
             kv("reason", reason), kv("message", message));
    report_change(w, /* warning= */ true, reason, text);
}

/* One Event per instance, however many partitions it has. */
static void report_instances(struct health_watch *w, const struct gpu_card *card)
{
    for (unsigned i = 0; i < card->state.n; i++) {
        const char *reason = NULL;
        const char *message = NULL;
        unsigned gi_id = card->state.items[i].gi_id;
        if (health_instance(w->memory, card->uuid, gi_id, &reason, &message))
            report_ill(w, card, (int)gi_id, reason, message);
    }
}

static void tell_well(struct health_watch *w, const struct told *t)
{
    auto_free char *name = name_of(t);
    auto_free char *text = xasprintf("%s is healthy again", name);
    log_info("Hardware is healthy again", kv("gpu", t->uuid), kv_int("gi", t->gi_id));
    report_change(w, /* warning= */ false, "Healthy", text);
}

static bool is_there(const struct card_view *cards, size_t n, const char *uuid)
{
    for (size_t i = 0; i < n; i++)
        if (strcmp(cards[i].card.uuid, uuid) == 0)
            return true;
    return false;
}

static void tell_changes(struct health_watch *w, const struct card_view *cards, size_t n)
{
    for (size_t i = 0; i < w->n_told; i++)
        w->told[i].still = false;
    for (size_t i = 0; i < n; i++) {
        const struct gpu_card *card = &cards[i].card;
        if (!card->healthy && *card->uuid)
            report_ill(w, card, /* gi_id= */ -1, card->unhealthy_reason, card->unhealthy_message);
        report_instances(w, card);
    }
    size_t kept = 0;
    for (size_t i = 0; i < w->n_told; i++) {
        if (w->told[i].still)
            w->told[kept++] = w->told[i];
        else if (is_there(cards, n, w->told[i].uuid))
            tell_well(w, &w->told[i]);
    }
    assert(kept <= w->n_told);
    w->n_told = kept;
}

/* --- Metrics --- */

static unsigned ill_partitions(const struct gpu_card *card)
{
    unsigned n = 0;
    for (unsigned i = 0; card->healthy && i < card->n_partitions; i++)
        n += !card->partitions[i].healthy;
    return n;
}

static void set_gauges(struct health_watch *w, const struct card_view *cards, size_t n)
{
    int64_t ill = 0;
    int64_t partitions = 0;
    int64_t unwatched = 0;
    if (!w->d.metrics)
        return;
    for (size_t i = 0; i < n; i++) {
        ill += !cards[i].card.healthy;
        partitions += ill_partitions(&cards[i].card);
        unwatched += !has_uuid(w->watched, w->n_watched, cards[i].card.uuid);
    }
    metric_set(w->metrics.cards, ill);
    metric_set(w->metrics.partitions, partitions);
    metric_set(w->metrics.unwatched, unwatched);
}

void health_watch_mark(struct health_watch *w, struct card_view *cards, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        health_apply(w->memory, &cards[i].card);
        cards[i].unwatched = has_uuid(w->refused, w->n_refused, cards[i].card.uuid);
    }
    tell_changes(w, cards, n);
    set_gauges(w, cards, n);
}

/* --- The driver's reports --- */

static const struct gpu_card *card_of(const struct card_view *cards, size_t n, const char *uuid)
{
    for (size_t i = 0; i < n; i++)
        if (*uuid && strcmp(cards[i].card.uuid, uuid) == 0)
            return &cards[i].card;
    return NULL;
}

static void count_xid(struct health_watch *w, uint64_t xid)
{
    if (!w->d.metrics)
        return;
    auto_free char *label = xasprintf("%llu", (unsigned long long)xid);
    metric_add(METRIC_WITH(w->metrics.xids, label), 1);
}

static void take_xid(struct health_watch *w, const struct card_view *cards, size_t n,
                     const struct gpu_event *ev, struct health_news *news)
{
    const struct gpu_card *card = card_of(cards, n, ev->uuid);
    enum xid_effect effect = health_xid(w->memory, card, ev, clock_mono_ms(w->d.clk));
    count_xid(w, ev->code);
    log_info("Driver reported an Xid", kv("gpu", ev->uuid), kv_int("xid", (int64_t)ev->code),
             kv_int("gi", ev->gi_id), kv_int("ci", ev->ci_id), kv("what", xid_words(ev->code)));
    news->changed |= effect > XID_LOOK;
    news->look |= effect != XID_IGNORED;
}

/* True: not reported before. */
static bool take_refusal(struct health_watch *w, const struct gpu_event *ev)
{
    if (!*ev->uuid || ev->code == GPU_EVENT_CODE_LOST ||
        has_uuid(w->refused, w->n_refused, ev->uuid))
        return false;
    add_uuid(&w->refused, &w->n_refused, ev->uuid);
    log_warn("Driver does not report events of a card; only readings tell of its health",
             kv("gpu", ev->uuid), kv_int("nvmlError", (int64_t)ev->code));
    return true;
}

/* True: it was refused before. */
static bool take_watched(struct health_watch *w, const struct gpu_event *ev)
{
    add_uuid(&w->watched, &w->n_watched, ev->uuid);
    return remove_uuid(w->refused, &w->n_refused, ev->uuid);
}

struct health_news health_watch_take(struct health_watch *w, struct card_view *cards, size_t n)
{
    struct health_news news = {0};
    struct gpu_event ev;
    bool any = false;
    auto_err struct err e = {0};
    for (int i = 0; i < MOST_AT_ONCE && w->d.watch && gpu_watch_take(w->d.watch, &ev, &e); i++) {
        bool about_watch = ev.kind == GPU_EVENT_WATCHED || ev.kind == GPU_EVENT_UNWATCHED;
        any = true;
        if (about_watch && *ev.uuid && !is_there(cards, n, ev.uuid))
            continue; /* once the card is read, a child that watches it reports so again */
        if (ev.kind == GPU_EVENT_WATCHED)
            news.changed |= take_watched(w, &ev);
        else if (ev.kind == GPU_EVENT_UNWATCHED)
            news.changed |= take_refusal(w, &ev);
        else if (ev.kind == GPU_EVENT_XID)
            take_xid(w, cards, n, &ev, &news);
        else
            news.look = true;
    }
    if (e.kind)
        log_warn("Ended the process that waits for events: what it reported makes no sense; "
                 "the next reading starts another",
                 kv_err(&e));
    if (w->d.watch && !gpu_watch_runs(w->d.watch) && w->n_watched) {
        w->n_watched = 0;
        any = true;
    }
    if (!any)
        return news;
    health_watch_mark(w, cards, n);
    return news;
}

/* --- Readings --- */

static void forget_others(struct health_watch *w, const struct card_view *cards, size_t n)
{
    auto_free const char **uuids = xcalloc(n, sizeof(*uuids));
    for (size_t i = 0; i < n; i++)
        uuids[i] = cards[i].card.uuid;
    health_keep(w->memory, uuids, n);
}

/* A card that cannot be read cannot be watched; one in another job's hands goes on being
 * watched. */
static void keep_watching(struct health_watch *w, const struct card_view *cards, size_t n)
{
    auto_free const char **uuids = xcalloc(n, sizeof(*uuids));
    size_t n_uuids = 0;
    auto_err struct err e = {0};
    for (size_t i = 0; i < n; i++)
        if ((!cards[i].card.unread || cards[i].card.busy) && !cards[i].card.no_events)
            uuids[n_uuids++] = cards[i].card.uuid;
    bool ran = gpu_watch_runs(w->d.watch);
    int rc = gpu_watch_keep(w->d.watch, uuids, n_uuids, &e);
    if (rc < 0 && !w->spawn_failed)
        log_warn("Could not have events watched; only readings tell of health", kv_err(&e));
    w->spawn_failed = rc < 0;
    if (!ran)
        w->n_watched = w->n_refused = 0;
}

void health_watch_take_reading(struct health_watch *w, const struct card_view *cards, size_t n,
                               bool all, int64_t began_mono_ms)
{
    for (size_t i = 0; i < n; i++)
        if (!cards[i].card.busy)
            health_reading(w->memory, &cards[i].card, began_mono_ms);
    if (all)
        forget_others(w, cards, n);
    if (all && w->d.watch)
        keep_watching(w, cards, n);
}
