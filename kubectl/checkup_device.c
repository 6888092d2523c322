/* SPDX-License-Identifier: Apache-2.0 */
#include "kubectl/checkup_device.h"

#include <string.h>

#include "kubectl/status_card.h"
#include "kubectl/text.h"
#include "reconcilers/standing.h"
#include "service/conditions.h"

/* A card's reason where the driver gave none, and what a change of an ill card says. */
#define UNHEALTHY "Unhealthy"

/* --- Conditions that say how far the work is --- */

static bool is_in(const char *reason, const char *const *list)
{
    for (; reason && *list; list++)
        if (strcmp(reason, *list) == 0)
            return true;
    return false;
}

/* Reasons of work that goes on by itself. */
static bool is_patient(const char *reason)
{
    static const char *const list[] = {"Progressing", "Waiting", "Draining", "InUse", NULL};
    return is_in(reason, list);
}

/* Reasons that somebody has asked for. */
static bool is_meant(const char *reason)
{
    static const char *const list[] = {"Paused", "Overridden", NULL};
    return is_in(reason, list);
}

static void add(struct complaints *l, const struct complaint *like, enum severity severity,
                const struct condition *c)
{
    struct complaint what = *like;
    what.severity = severity;
    what.reason = c->reason && *c->reason ? c->reason : c->type;
    what.seen = c->message;
    what.since_ms = c->last_transition_ms;
    complaints_add(l, &what);
}

static void add_progress(struct complaints *l, const struct complaint *like,
                         const struct condition *c, int64_t now_ms)
{
    bool waits = is_patient(c->reason);
    if (c->status == CONDITION_TRUE)
        return;
    if (waits && now_ms - c->last_transition_ms <= CHECKUP_STUCK_MS)
        return;
    add(l, like, waits || is_meant(c->reason) ? SEVERITY_WARNING : SEVERITY_ERROR, c);
}

void checkup_ready(struct complaints *l, const struct complaint *like,
                   const struct conditions *conditions, int64_t now_ms)
{
    const struct condition *c = condition_get(conditions, "Ready");
    if (c)
        add_progress(l, like, c, now_ms);
}

/* --- Cards --- */

/* ill: the card's condition Healthy, or NULL. Of an event that several partitions have is told once. */
static void add_partition(struct complaints *l, const struct complaint *like,
                          const struct condition *ill, const struct device_partition *p)
{
    struct complaint what = *like;
    what.reason = p->unhealthy.reason ? p->unhealthy.reason : UNHEALTHY;
    what.seen = p->unhealthy.message;
    bool told = (ill && text_equal(ill->message, what.seen)) || complaints_end_with(l, &what);
    if (p->has_unhealthy && !told)
        complaints_add(l, &what);
    if (p->has_breach) {
        what.severity = SEVERITY_WARNING;
        what.reason = p->breach.reason ? p->breach.reason : "ShareOverLimit";
        what.seen = p->breach.message;
        what.since_ms = p->breach.since_ms;
        complaints_add(l, &what);
    }
}

/* Of an ill card Applied says no more than that it is ill, or that it cannot be read. */
static bool repeats(const struct device_card *card, const struct condition *ill,
                    const struct condition *applied)
{
    return !card->healthy && (text_equal(applied->reason, UNHEALTHY) ||
                              (ill && (text_equal(applied->reason, ill->reason) ||
                                       text_equal(applied->message, ill->message))));
}

static void add_card(struct complaints *l, const char *node, const struct device_card *card,
                     int64_t now_ms)
{
    auto_free char *part = status_card_title(card->vendor, card->index);
    struct complaint what = {.kind = "Device", .name = node, .part = part};
    const struct condition *ill = condition_get(&card->conditions, "Healthy");
    const struct condition *applied = condition_get(&card->conditions, "Applied");
    if (ill && ill->status != CONDITION_TRUE) {
        add(l, &what, card->healthy ? SEVERITY_WARNING : SEVERITY_ERROR, ill);
    } else if (!card->healthy) {
        what.reason = UNHEALTHY;
        complaints_add(l, &what);
    }
    if (applied && !repeats(card, ill, applied))
        add_progress(l, &what, applied, now_ms);
    for (size_t i = 0; i < card->n_partitions; i++)
        add_partition(l, &what, ill, &card->partitions[i]);
}

/* --- The node --- */

static const struct {
    const char *type;
    bool unknown_is_good;
    enum severity severity;
} kinds[] = {
    {"Accepted", true, SEVERITY_ERROR},
    {"DriverReady", false, SEVERITY_ERROR},
    {"ContainerRuntimeReady", true, SEVERITY_ERROR},
    {"ResourcesPublished", false, SEVERITY_ERROR},
    {"ConfigUnderstood", true, SEVERITY_WARNING},
    {"PersistenceMode", true, SEVERITY_WARNING},
    {"RebootRequired", true, SEVERITY_WARNING},
    {"Neighbours", true, SEVERITY_WARNING},
    {"GrantsOutdated", true, SEVERITY_WARNING},
};

static int good_status(const char *type)
{
    return device_condition_is_negative(type) ? CONDITION_FALSE : CONDITION_TRUE;
}

/* A condition whose reason a card, or another condition, has already is not told again. */
static void add_others(struct complaints *l, const struct complaint *like,
                       const struct conditions *all)
{
    for (size_t i = 0; i < ARRAY_LEN(kinds); i++) {
        const struct condition *c = condition_get(all, kinds[i].type);
        struct complaint same = *like;
        same.reason = c ? c->reason : NULL;
        if (!c || c->status == good_status(c->type) ||
            (c->status == CONDITION_UNKNOWN && kinds[i].unknown_is_good) ||
            complaints_have(l, &same))
            continue;
        add(l, like, kinds[i].severity, c);
    }
}

/* True when the reason is one that an ill card has given, whose finding is the illness. */
static bool is_of_ill_card(const struct device_status *st, const char *reason)
{
    for (size_t i = 0; i < st->n_devices; i++) {
        const struct condition *applied = condition_get(&st->devices[i].conditions, "Applied");
        if (!st->devices[i].healthy && applied && text_equal(applied->reason, reason))
            return true;
    }
    return false;
}

void checkup_status(struct complaints *l, const char *node, const struct device_status *st,
                    bool unseen, int64_t now_ms)
{
    struct complaint what = {.kind = "Device", .name = node};
    const struct condition *ready = condition_get(&st->conditions, "Ready");
    for (size_t i = 0; i < st->n_devices; i++)
        add_card(l, node, &st->devices[i], now_ms);
    add_others(l, &what, &st->conditions);
    what.reason = ready ? ready->reason : NULL;
    if (ready && !complaints_have(l, &what) && !is_of_ill_card(st, ready->reason))
        checkup_ready(l, &what, &st->conditions, now_ms);
    if (!ready) {
        what.severity = SEVERITY_WARNING;
        what.reason = "NotReported";
        what.seen = "the node's agent has reported nothing yet";
        complaints_add(l, &what);
    } else if (unseen) {
        what.reason = STANDING_SILENT;
        what.seen = "the node's agent has not seen the newest order";
        complaints_add(l, &what);
    }
}
