/* SPDX-License-Identifier: Apache-2.0 */
#include "reconcilers/rollout.h"

#include <assert.h>
#include <string.h>

#include "base/strmap.h"
#include "base/xalloc.h"

#include "reconcilers/serving.h"

/* One node under one profile. */
struct entry {
    char *node;
    bool noted, ticket, waiting;
    char *uid; /* with the generation: the noted edition */
    int64_t generation;
    struct standing standing;
    struct entry *prev, *next; /* in the queue of waiting nodes */
};

struct ledger {
    struct strmap *entries; /* node → struct entry */
    size_t tickets, noted;
    struct entry *first, *last;
    bool paced; /* last_write_mono_ms is valid */
    int64_t last_write_mono_ms;
};

struct rollout {
    pthread_mutex_t build_mu; /* held while the ledger is built; taken before mu */
    bool built;               /* guarded by build_mu */
    pthread_mutex_t mu;
    struct strmap *ledgers; /* guarded by mu: profile → struct ledger */
};

struct rollout *rollout_new(void)
{
    struct rollout *r = xmalloc(sizeof(*r));
    (void)pthread_mutex_init(&r->build_mu, NULL);
    (void)pthread_mutex_init(&r->mu, NULL);
    r->ledgers = strmap_new();
    return r;
}

void rollout_build(struct rollout *r, void (*build)(struct rollout *r, void *arg), void *arg)
{
    HOLD(&r->build_mu);
    if (!r->built)
        build(r, arg);
    r->built = true;
}

/* --- Ledgers and entries; the mutex is held --- */

static struct ledger *ledger_of(struct rollout *r, const char *profile)
{
    struct ledger *l = strmap_get(r->ledgers, profile);
    if (l)
        return l;
    l = xmalloc(sizeof(*l));
    l->entries = strmap_new();
    (void)strmap_put(r->ledgers, profile, l);
    return l;
}

static struct entry *entry_find(struct rollout *r, const char *profile, const char *node)
{
    const struct ledger *l = strmap_get(r->ledgers, profile);
    return l ? strmap_get(l->entries, node) : NULL;
}

static struct entry *entry_of(struct ledger *l, const char *node)
{
    struct entry *p = strmap_get(l->entries, node);
    if (p)
        return p;
    p = xmalloc(sizeof(*p));
    p->node = xstrdup(node);
    (void)strmap_put(l->entries, node, p);
    return p;
}

static void queue_leave(struct ledger *l, struct entry *p)
{
    if (!p->waiting)
        return;
    assert((p->prev ? p->prev->next : l->first) == p);
    assert((p->next ? p->next->prev : l->last) == p);
    *(p->prev ? &p->prev->next : &l->first) = p->next;
    *(p->next ? &p->next->prev : &l->last) = p->prev;
    p->prev = p->next = NULL;
    p->waiting = false;
}

static void queue_join(struct ledger *l, struct entry *p)
{
    if (p->waiting)
        return;
    assert(!p->prev && !p->next && !p->ticket && (!l->last || !l->last->next));
    p->prev = l->last;
    *(l->last ? &l->last->next : &l->first) = p;
    l->last = p;
    p->waiting = true;
}

static void set_ticket(struct ledger *l, struct entry *p, bool ticket)
{
    assert(ticket || !p->ticket || l->tickets > 0);
    if (p->ticket != ticket)
        l->tickets = ticket ? l->tickets + 1 : l->tickets - 1;
    p->ticket = ticket;
    assert(l->tickets <= strmap_count(l->entries));
}

static void entry_drop(struct ledger *l, struct entry *p)
{
    assert(strmap_get(l->entries, p->node) == p && l->noted >= p->noted);
    queue_leave(l, p);
    set_ticket(l, p, false);
    l->noted -= p->noted;
    (void)strmap_remove(l->entries, p->node);
    standing_done(&p->standing);
    free(p->node);
    free(p->uid);
    free(p);
}

static void ledger_free(struct ledger *l)
{
    size_t pos = 0;
    void *p;
    while (strmap_next(l->entries, &pos, &(const char *){NULL}, &p))
        entry_drop(l, p);
    assert(l->tickets == 0 && l->noted == 0 && !l->first && !l->last);
    (void)strmap_free(l->entries);
    free(l);
}

/* --- Tickets --- */

static size_t room(const struct ledger *l, const struct rollout_budget *b)
{
    return b->paused || l->tickets >= b->max ? 0 : b->max - l->tickets;
}

bool rollout_ask(struct rollout *r, const char *profile, const char *node,
                 const struct rollout_budget *budget)
{
    HOLD(&r->mu);
    struct ledger *l = ledger_of(r, profile);
    struct entry *p = entry_of(l, node);
    if (p->ticket)
        return true;
    if (room(l, budget) == 0) {
        queue_join(l, p);
        return false;
    }
    queue_leave(l, p);
    set_ticket(l, p, true);
    assert(l->tickets <= budget->max && !budget->paused);
    return true;
}

void rollout_force_ticket(struct rollout *r, const char *profile, const char *node)
{
    HOLD(&r->mu);
    struct ledger *l = ledger_of(r, profile);
    set_ticket(l, entry_of(l, node), true);
}

void rollout_settle(struct rollout *r, const char *profile, const char *node)
{
    HOLD(&r->mu);
    struct entry *p = entry_find(r, profile, node);
    if (!p)
        return;
    struct ledger *l = ledger_of(r, profile);
    queue_leave(l, p);
    set_ticket(l, p, false);
}

void rollout_stop_waiting(struct rollout *r, const char *profile, const char *node)
{
    HOLD(&r->mu);
    struct entry *p = entry_find(r, profile, node);
    if (p)
        queue_leave(ledger_of(r, profile), p);
}

bool rollout_has_ticket(struct rollout *r, const char *profile, const char *node)
{
    HOLD(&r->mu);
    const struct entry *p = entry_find(r, profile, node);
    return p && p->ticket;
}

size_t rollout_tickets(struct rollout *r, const char *profile)
{
    HOLD(&r->mu);
    const struct ledger *l = strmap_get(r->ledgers, profile);
    return l ? l->tickets : 0;
}

void rollout_wake(struct rollout *r, const char *profile, const struct rollout_budget *budget,
                  struct wq *nodes)
{
    HOLD(&r->mu);
    const struct ledger *l = strmap_get(r->ledgers, profile);
    size_t n = l ? room(l, budget) : 0;
    for (const struct entry *p = l ? l->first : NULL; p && n; p = p->next, n--)
        wq_add(nodes, &(struct object_key){.name = p->node});
}

/* --- Standings --- */

static void copy_standing(struct standing *to, const struct standing *from)
{
    standing_set(to, from->phase, from->reason, from->message);
    to->refused = from->refused;
    to->n_cards = from->n_cards;
}

struct rollout_edition rollout_edition_of(const struct object *o)
{
    return (struct rollout_edition){object_uid(o), object_generation(o)};
}

static bool is_of(const struct entry *p, struct rollout_edition e)
{
    return p->noted && p->generation == e.generation && strcmp(p->uid, e.uid) == 0;
}

bool rollout_note(struct rollout *r, const char *profile, struct rollout_edition edition,
                  const char *node, const struct standing *s, enum phase *ret_was)
{
    assert(s->phase < PHASES && edition.uid);
    HOLD(&r->mu);
    struct ledger *l = ledger_of(r, profile);
    struct entry *p = entry_of(l, node);
    if (is_of(p, edition) && standing_equal(&p->standing, s))
        return false;
    *ret_was = p->noted ? p->standing.phase : PHASES;
    l->noted += !p->noted;
    p->noted = true;
    p->generation = edition.generation;
    xstr_set(&p->uid, edition.uid);
    copy_standing(&p->standing, s);
    assert(l->noted <= strmap_count(l->entries));
    return true;
}

size_t rollout_matched(struct rollout *r, const char *profile)
{
    HOLD(&r->mu);
    const struct ledger *l = strmap_get(r->ledgers, profile);
    return l ? l->noted : 0;
}

void rollout_forget_node(struct rollout *r, const char *node,
                         bool (*keep)(const char *profile, const void *arg), const void *arg,
                         struct wq *out)
{
    HOLD(&r->mu);
    size_t pos = 0;
    const char *profile;
    void *l;
    while (strmap_next(r->ledgers, &pos, &profile, &l)) {
        struct entry *p = strmap_get(((struct ledger *)l)->entries, node);
        if (!p || (keep && keep(profile, arg)))
            continue;
        entry_drop(l, p);
        if (out)
            wq_add(out, &(struct object_key){.name = profile});
    }
}

void rollout_forget_profile(struct rollout *r, const char *profile)
{
    HOLD(&r->mu);
    struct ledger *l = strmap_remove(r->ledgers, profile);
    if (l)
        ledger_free(l);
}

/* --- Summary --- */

static void copy_failure(struct gpuprofile_failure *to, const struct entry *p)
{
    xstr_set(&to->node, p->node);
    xstr_set(&to->reason, p->standing.reason);
    xstr_set(&to->message, p->standing.message);
}

static void failure_done(struct gpuprofile_failure *f)
{
    free(f->node);
    free(f->reason);
    free(f->message);
}

/* Keeps the failure whose node is first by name. */
static void keep_lowest(struct gpuprofile_failure *f, const struct entry *p)
{
    if (!f->node || strcmp(p->node, f->node) < 0)
        copy_failure(f, p);
}

/* Inserts into the sorted sample; the last one is dropped when it is full. */
static void add_failure(struct rollout_summary *s, const struct entry *p)
{
    size_t at = s->n_failures;
    while (at > 0 && strcmp(p->node, s->failures[at - 1].node) < 0)
        at--;
    if (at == ROLLOUT_SAMPLE)
        return;
    struct gpuprofile_failure added = {0};
    copy_failure(&added, p);
    if (s->n_failures < ROLLOUT_SAMPLE)
        (void)XPUSH(s->failures, s->n_failures);
    else
        failure_done(&s->failures[ROLLOUT_SAMPLE - 1]);
    memmove(&s->failures[at + 1], &s->failures[at],
            (s->n_failures - 1 - at) * sizeof(*s->failures));
    s->failures[at] = added;
    assert(s->n_failures <= ROLLOUT_SAMPLE);
    assert(at == 0 || strcmp(s->failures[at - 1].node, p->node) <= 0);
}

/* True for the reasons that other hardware would not mend: names and conflicts. */
static bool is_misfit(const struct standing *s)
{
    static const char *const reasons[] = {"UnknownConfig", "Conflict", "Invalid"};
    assert(!s->refused || s->reason);
    for (size_t i = 0; i < ARRAY_LEN(reasons); i++)
        if (s->refused && strcmp(s->reason, reasons[i]) == 0)
            return true;
    return false;
}

/* A node whose agent does not answer is shown before all other changing nodes, because it needs a
 * person. */
static void add_busy(struct rollout_summary *s, const struct entry *p)
{
    bool silent = strcmp(p->standing.reason, STANDING_SILENT) == 0 ||
                  strcmp(p->standing.reason, SERVING_GONE) == 0;
    if (silent && !s->silent)
        failure_done(&s->busy);
    if (silent && !s->silent)
        s->busy = (struct gpuprofile_failure){0};
    assert(p->standing.reason);
    s->silent += silent;
    if (silent || !s->silent)
        keep_lowest(&s->busy, p);
}

static void add_entry(struct rollout_summary *s, const struct entry *p)
{
    const struct standing *st = &p->standing;
    s->noted++;
    s->n_cards += st->n_cards;
    s->count[st->phase]++;
    if (st->phase == PHASE_CHANGING)
        add_busy(s, p);
    if (st->reason && strcmp(st->reason, STANDING_OVERRIDDEN) == 0) {
        s->overridden++;
        keep_lowest(&s->ceded, p);
    }
    if (st->reason && strcmp(st->reason, RESOLVE_ROUNDED) == 0) {
        s->rounded++;
        keep_lowest(&s->first_rounded, p);
    }
    if (st->phase != PHASE_FAILED)
        return;
    s->refused += st->refused;
    s->tickets_of_failed += p->ticket;
    add_failure(s, p);
    if (is_misfit(st))
        keep_lowest(&s->misfit, p);
}

void rollout_summary(struct rollout *r, const char *profile, struct rollout_edition edition,
                     struct rollout_summary *ret)
{
    *ret = (struct rollout_summary){0};
    HOLD(&r->mu);
    const struct ledger *l = strmap_get(r->ledgers, profile);
    size_t pos = 0;
    void *value;
    while (l && strmap_next(l->entries, &pos, &(const char *){NULL}, &value)) {
        const struct entry *p = value;
        if (is_of(p, edition))
            add_entry(ret, p);
    }
}

void rollout_summary_done(struct rollout_summary *s)
{
    for (size_t i = 0; i < s->n_failures; i++)
        failure_done(&s->failures[i]);
    free(s->failures);
    failure_done(&s->misfit);
    failure_done(&s->busy);
    failure_done(&s->ceded);
    failure_done(&s->first_rounded);
    *s = (struct rollout_summary){0};
}

int64_t rollout_pace(struct rollout *r, const char *profile, int64_t now_mono_ms, int64_t gap_ms)
{
    assert(gap_ms >= 0);
    HOLD(&r->mu);
    struct ledger *l = ledger_of(r, profile);
    int64_t wait_ms = l->paced ? l->last_write_mono_ms + gap_ms - now_mono_ms : 0;
    if (wait_ms > 0)
        return wait_ms;
    l->paced = true;
    l->last_write_mono_ms = now_mono_ms;
    return 0;
}

struct rollout *rollout_free(struct rollout *r)
{
    if (!r)
        return NULL;
    size_t pos = 0;
    void *l;
    while (strmap_next(r->ledgers, &pos, &(const char *){NULL}, &l))
        ledger_free(l);
    (void)strmap_free(r->ledgers);
    (void)pthread_mutex_destroy(&r->mu);
    (void)pthread_mutex_destroy(&r->build_mu);
    free(r);
    return NULL;
}
