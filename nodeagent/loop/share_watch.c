/* SPDX-License-Identifier: Apache-2.0 */
#include "nodeagent/loop/share_watch.h"

#include <assert.h>
#include <string.h>

#include "base/log.h"
#include "base/xalloc.h"

#include "nodeagent/audit/audit_text.h"
#include "nodeagent/slots/share_folder.h"
#include "partition/vendor.h"

/* A measure that changed by less is not written: each process of the container takes it up. */
#define CONTEXT_STEP_BYTES ((uint64_t)1 << 20)

#define NS_OF_US 1000

/* A breach, while it lasts. */
struct finding {
    char *text; /* of its Event; NULL: there is none */
    int64_t since_ms;
};

/* A share, for as long as it stands for this container. */
struct watched_share {
    unsigned slot;
    char card[GPU_UUID_BYTES];
    char *uid, *container; /* of its pod */
    uint64_t limit_bytes;
    unsigned percent;
    bool takes_turns;
    struct arbiter_sums turns;
    struct share_audit audit;
    struct finding over, unlimited;
};

static void watched_done(struct watched_share *s)
{
    share_audit_done(&s->audit);
    free(s->uid);
    free(s->container);
    free(s->over.text);
    free(s->unlimited.text);
}

/* --- Which shares --- */

static bool stands(const struct share_watch *w, unsigned slot, const char *uid,
                   const char *container)
{
    const struct share *share = shares_find(&w->cards->shares, slot);
    return share && share_is_of(share, uid, container);
}

static void forget_ended(struct share_watch *w)
{
    size_t n = 0;
    for (size_t i = 0; i < w->n; i++) {
        struct watched_share *s = &w->items[i];
        if (stands(w, s->slot, s->uid, s->container))
            w->items[n++] = *s;
        else
            watched_done(s);
    }
    w->n = n;
}

static struct watched_share *watched(struct share_watch *w, const struct share_sight *sight)
{
    for (size_t i = 0; i < w->n; i++)
        if (w->items[i].slot == sight->slot)
            return &w->items[i];
    struct watched_share *s = XPUSH(w->items, w->n);
    s->slot = sight->slot;
    memcpy(s->card, sight->card, sizeof(s->card));
    s->uid = xstrdup(sight->uid);
    s->container = xstrdup(sight->container);
    return s;
}

/* --- Words --- */

/* The pod as the kubelet lists it; NULL: it does not yet, or no more. Borrowed. */
static const struct holder *holder_of(const struct share_watch *w, const struct watched_share *s)
{
    char id[SLOT_WORD_BYTES];
    const struct holder *h =
        w->kubelet ? holders_get(kubelet_link_holders(w->kubelet), slot_id(s->slot, id), 0) : NULL;
    return h && h->ns && h->pod ? h : NULL;
}

/* Caller frees. */
static char *title_of(const struct share_watch *w, const struct watched_share *s)
{
    const struct holder *h = holder_of(w, s);
    const struct card_view *v = cards_find(w->cards, s->card);
    auto_free char *pod = h ? xasprintf("%s/%s", h->ns, h->pod) : xstrdup(s->uid);
    if (!v)
        return xasprintf("pod %s, container %s", pod, s->container);
    return xasprintf("pod %s, container %s, on %s GPU %u", pod, s->container,
                     vendor_title(v->card.vendor), v->card.index);
}

static void tell(const struct share_watch *w, const struct watched_share *s, const char *reason,
                 const char *text)
{
    auto_free char *title = title_of(w, s);
    auto_free char *all = xasprintf("%s: %s", title, text);
    agent_event(w->events, /* warning= */ true, reason, all);
}

/* Reports what begins, and forgets what ends. */
static void follow(const struct share_watch *w, const struct watched_share *s, const char *reason,
                   const char *begins, bool ends, struct finding *f)
{
    if (begins) {
        log_warn("A container goes beyond its share", kv("gpu", s->card), kv("pod", s->uid),
                 kv("container", s->container), kv("reason", reason), kv("message", begins));
        tell(w, s, reason, begins);
        f->since_ms = clock_wall_ms(w->events->clk);
    }
    if (ends)
        log_info("A container keeps to its share again", kv("gpu", s->card), kv("pod", s->uid),
                 kv("container", s->container), kv("reason", reason));
    if (begins || ends)
        xstr_set(&f->text, begins);
}

/* --- What contexts take --- */

static uint64_t difference(uint64_t a, uint64_t b)
{
    return a > b ? a - b : b - a;
}

/* Its container may end meanwhile, and the folder with it. */
static void tell_context(const struct share_watch *w, const struct share_sight *s, uint64_t bytes)
{
    auto_err struct err e = {0};
    char name[SLOT_WORD_BYTES];
    if (difference(bytes, s->context_bytes) > CONTEXT_STEP_BYTES &&
        share_folders_set_context(w->folders, s->folder, s->card, bytes, &e) < 0)
        log_warn("Could not tell a container what its contexts take",
                 kv("slot", slot_name(s->folder, name)), kv_err(&e));
}

/* --- What exceeds a share --- */

static bool is_to_end(const struct share_watch *w, const char *card)
{
    const struct device_want *want = spec_source_want(w->spec_source, card);
    return want && want->has_sharing && want->sharing.has_fractional &&
           want->sharing.fractional.has_on_exceed &&
           want->sharing.fractional.on_exceed == API_EXCEED_KILL;
}

static void end_process(const struct share_watch *w, const struct watched_share *s,
                        const struct audit_share *shown, const struct audit_process *p)
{
    auto_err struct err e = {0};
    bool ended = false;
    if (process_end(w->proc_root, &p->id, &ended, &e) < 0)
        log_error("Could not end a process that exceeds its share", kv_int("pid", p->id.pid),
                  kv("pod", s->uid), kv("container", s->container), kv_err(&e));
    if (!ended)
        return;
    auto_free char *text = audit_end_text(shown, &s->audit, p);
    log_warn("Ended a process that exceeds its share", kv_int("pid", p->id.pid),
             kv("process", p->name), kv("pod", s->uid), kv("container", s->container),
             kv("containerID", p->id.of.container_id), kv("gpu", s->card));
    tell(w, s, "ShareProcessEnded", text);
    share_metrics_ended(w->metrics);
}

/* --- A reading --- */

static void take(struct share_watch *w, const struct share_sight *sight, int64_t now_mono_ms)
{
    auto_audit_news struct audit_news news = {0};
    struct watched_share *s = watched(w, sight);
    const struct audit_share shown = {.limit_bytes = sight->limit_bytes,
                                      .context_bytes = sight->context_bytes,
                                      .is_driven = sight->is_driven,
                                      .ends = is_to_end(w, sight->card),
                                      .processes = sight->processes,
                                      .n = sight->n};
    s->limit_bytes = sight->limit_bytes;
    s->percent = sight->percent;
    s->takes_turns = sight->takes_turns;
    s->turns = sight->turns;
    share_audit_judge(&s->audit, &shown, now_mono_ms, &news);
    tell_context(w, sight, s->audit.context_bytes);
    auto_free char *unlimited =
        news.is_unlimited_now ? audit_unlimited_text(&shown, &s->audit) : NULL;
    auto_free char *over = news.is_over_now ? audit_over_text(&shown, &s->audit) : NULL;
    follow(w, s, BREACH_UNLIMITED, unlimited, news.is_limited_again, &s->unlimited);
    follow(w, s, BREACH_OVER_LIMIT, over, news.is_within_again, &s->over);
    for (size_t i = 0; i < news.n_ends; i++)
        end_process(w, s, &shown, &sight->processes[news.ends[i]]);
}

/* Of two breaches the one that takes something from others. */
static const struct finding *worst_of(const struct watched_share *s, const char **ret_reason)
{
    const struct finding *f = s->over.text ? &s->over : s->unlimited.text ? &s->unlimited : NULL;
    *ret_reason = !f ? NULL : f == &s->over ? BREACH_OVER_LIMIT : BREACH_UNLIMITED;
    return f;
}

static void list_breaches(struct share_watch *w)
{
    w->n_breaches = 0;
    for (size_t i = 0; i < w->n; i++) {
        const struct watched_share *s = &w->items[i];
        const char *reason = NULL;
        const struct finding *f = worst_of(s, &reason);
        if (f)
            *XPUSH(w->breaches, w->n_breaches) = (struct share_breach){
                .slot = s->slot,
                .uid = s->uid,
                .container = s->container,
                .since_ms = f->since_ms,
                .reason = reason,
                .message = f->text,
            };
    }
}

static void show(const struct share_watch *w)
{
    struct measured_share *list = NULL;
    size_t n = 0;
    for (size_t i = 0; i < w->n; i++) {
        const struct watched_share *s = &w->items[i];
        const struct holder *h = holder_of(w, s);
        const char *reason = NULL;
        (void)worst_of(s, &reason);
        *XPUSH(list, n) = (struct measured_share){
            .gpu = s->card,
            .ns = h ? h->ns : "",
            .pod = h ? h->pod : "",
            .container = s->container,
            .used_bytes = s->audit.used_bytes,
            .limit_bytes = s->limit_bytes,
            .context_bytes = s->audit.context_bytes,
            .takes_turns = s->takes_turns,
            .percent = s->percent,
            .turn_us = s->turns.held_ns / NS_OF_US,
            .throttled_us = s->turns.throttled_ns / NS_OF_US,
            .breach = reason,
        };
    }
    share_metrics_show(w->metrics, list, n);
    free(list);
}

void share_watch_take(struct share_watch *w, const struct agent_job *read)
{
    assert(read->kind == AGENT_JOB_READ);
    if (!w->folders)
        return;
    forget_ended(w);
    for (size_t i = 0; i < read->sights.n; i++) {
        const struct share_sight *s = &read->sights.items[i];
        if (stands(w, s->slot, s->uid, s->container))
            take(w, s, read->began_mono_ms);
    }
    list_breaches(w);
    show(w);
}

struct share_breaches share_watch_breaches(const struct share_watch *w)
{
    return (struct share_breaches){w->breaches, w->n_breaches};
}

void share_watch_done(struct share_watch *w)
{
    for (size_t i = 0; i < w->n; i++)
        watched_done(&w->items[i]);
    free(w->items);
    free(w->breaches);
}
