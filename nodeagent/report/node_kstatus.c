/* SPDX-License-Identifier: Apache-2.0 */
#include "nodeagent/report/node_kstatus.h"

#include <assert.h>
#include <string.h>

#include "base/xalloc.h"

#include "partition/vendor.h"

static bool is_waiting(const char *reason)
{
    static const char *const waiting[] = {"Progressing", "Draining", "InUse"};
    for (size_t i = 0; i < ARRAY_LEN(waiting); i++)
        if (strcmp(reason, waiting[i]) == 0)
            return true;
    return false;
}

static void take_card(const struct device_card *card, const struct condition *c,
                      struct node_kstatus *v)
{
    enum kstatus state = is_waiting(c->reason) ? KSTATUS_IN_PROGRESS : KSTATUS_STALLED;
    /* While one card is being changed, the node is in progress. After that the first card that
     * needs attention determines the node's state. */
    if (v->state == KSTATUS_IN_PROGRESS || (v->state == KSTATUS_STALLED && state == v->state))
        return;
    free(v->message);
    *v = (struct node_kstatus){state, c->reason,
                               xasprintf("%s GPU %lld: %s", vendor_title(card->vendor),
                                         (long long)card->index, c->message)};
}

/* Among the unended cards that the spec does not list, the one to report: one that is retried by
 * itself if there is any. NULL: none. *ret_more: the number of the others. */
static const struct unended_card *first_unended(const struct node_state *s, size_t *ret_more)
{
    const struct unended_card *first = NULL;
    size_t n = 0;
    for (size_t i = 0; s->unended && i < s->unended->n; i++) {
        const struct unended_card *u = &s->unended->items[i];
        if (node_state_want(s, u->uuid))
            continue;
        n++;
        if (!first || (first->waits && !u->waits))
            first = u;
    }
    assert(!first == (n == 0));
    *ret_more = n ? n - 1 : 0;
    return first;
}

/* The first card that is being changed though the spec does not list it; NULL: none. */
static const char *unwanted_change(const struct node_state *s)
{
    for (size_t i = 0; i < s->n_busy; i++)
        if (s->busy[i].changes && !node_state_want(s, s->busy[i].uuid))
            return s->busy[i].uuid;
    return NULL;
}

/* Reports unended cards that the spec does not list. Such a card may be gone from the node; then
 * this is the only report of it. */
static void take_unwanted(const struct node_state *s, struct node_kstatus *v)
{
    size_t more;
    const struct unended_card *u = first_unended(s, &more);
    const char *busy = unwanted_change(s);
    if ((!busy && !u) || v->state == KSTATUS_IN_PROGRESS)
        return;
    free(v->message);
    if (busy) {
        *v = (struct node_kstatus){
            KSTATUS_IN_PROGRESS, "Progressing",
            xasprintf("a change of %s that is no longer wanted is being ended", busy)};
        return;
    }
    auto_free char *others =
        more ? xasprintf("; so with %zu more, as the condition Applied of each card says", more)
             : NULL;
    *v = (struct node_kstatus){u->waits ? KSTATUS_STALLED : KSTATUS_IN_PROGRESS, unended_reason(u),
                               xasprintf("%s: %s%s", u->uuid, u->why, others ? others : "")};
}

/* The first card that was never read, and so is not listed. */
static const struct gpu_card *unknown_card(const struct node_state *s,
                                           const struct device_status *built)
{
    for (size_t i = 0; i < s->n_cards; i++)
        if (!*s->cards[i].card.uuid || !device_status_card(built, s->cards[i].card.uuid))
            return &s->cards[i].card;
    return NULL;
}

/* A card that is in another thread's hands has no illness to report. */
static struct node_kstatus kstatus_of_unknown(const struct gpu_card *c)
{
    const char *vendor = vendor_title(c->vendor);
    if (c->busy)
        return (
            struct node_kstatus){KSTATUS_IN_PROGRESS, "Progressing",
                                 xasprintf("%s GPU %u was not read yet: another call works on it",
                                           vendor, c->index)};
    return (struct node_kstatus){KSTATUS_STALLED, c->unhealthy_reason,
                                 xasprintf("%s GPU %u cannot be read: %s", vendor, c->index,
                                           c->unhealthy_message)};
}

/* The first wanted card that is not on the node. */
static const char *missing_card(const struct node_state *s)
{
    for (size_t i = 0; s->spec && i < s->spec->n_devices; i++) {
        bool found = false;
        for (size_t k = 0; k < s->n_cards && !found; k++)
            found = strcmp(s->cards[k].card.uuid, s->spec->devices[i].uuid) == 0;
        if (!found)
            return s->spec->devices[i].uuid;
    }
    return NULL;
}

static bool has_no_cards(const struct node_state *s)
{
    return s->n_cards == 0 && s->host && host_has_no_cards(s->host);
}

/* A node that has no card is as wanted, unless a card is wanted of it. */
static struct node_kstatus kstatus_without_cards(const struct host_facts *host)
{
    unsigned given = host_cards_given(host);
    char *text =
        given ? xasprintf("%u card%s of this node kept for virtual machines (driver vfio-pci), "
                          "and it has no other",
                          given, given == 1 ? " is" : "s are")
              : xstrdup("this node has no card of a vendor that Cleave knows; one that comes is "
                        "found by itself");
    return (struct node_kstatus){KSTATUS_CURRENT, DEVICE_NO_CARDS, text};
}

struct node_kstatus node_kstatus_of(const struct node_state *s, const struct device_status *built)
{
    struct node_kstatus v = {KSTATUS_CURRENT, "Applied", NULL};
    if (s->stuck_call)
        return (struct node_kstatus){KSTATUS_STALLED, "NVMLTimeout",
                                     xasprintf("%s does not answer; the driver may hang (dmesg)",
                                               s->stuck_call)};
    if (s->read_error)
        return (struct node_kstatus){KSTATUS_STALLED, s->read_reason, xstrdup(s->read_error)};
    if (!s->inventory || !s->spec_seen)
        return (struct node_kstatus){KSTATUS_IN_PROGRESS, "Progressing",
                                     xstrdup("the hardware is being read")};
    if (s->spec_error)
        return (struct node_kstatus){KSTATUS_STALLED, "Invalid",
                                     xasprintf("the spec cannot be read: %s", s->spec_error)};
    for (size_t i = 0; i < built->n_devices; i++) {
        const struct condition *c = condition_get(&built->devices[i].conditions, "Applied");
        if (c && c->status != CONDITION_TRUE && node_state_want(s, built->devices[i].uuid))
            take_card(&built->devices[i], c, &v);
    }
    take_unwanted(s, &v);
    const struct gpu_card *unknown = unknown_card(s, built);
    if (unknown && v.state == KSTATUS_CURRENT)
        return kstatus_of_unknown(unknown);
    const char *missing = missing_card(s);
    if (missing && v.state == KSTATUS_CURRENT)
        return (struct node_kstatus){KSTATUS_STALLED, "DeviceNotFound",
                                     xasprintf("there is no card %s on this node", missing)};
    return v.state == KSTATUS_CURRENT && has_no_cards(s) ? kstatus_without_cards(s->host) : v;
}
