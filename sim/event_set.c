/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/event_set.h"

#include <pthread.h>
#include <stdlib.h>
#include <time.h>

#define SLOTS (HW_MAX_GPUS + MX_MAX_CARDS)

/* Guarded by sets_mu. `seen` is the last event that was read; older ones are not delivered
 * again. */
struct event_set {
    struct event_set *next;
    uint64_t seen;
    uint64_t types[SLOTS];
};

static pthread_mutex_t sets_mu = PTHREAD_MUTEX_INITIALIZER;
static struct event_set *sets;

/* SLOTS for no card. */
static uint32_t slot_of(uint32_t card)
{
    if (card < HW_MAX_GPUS)
        return card;
    bool metax = card >= HW_METAX && card - HW_METAX < MX_MAX_CARDS;
    return metax ? HW_MAX_GPUS + card - HW_METAX : SLOTS;
}

/* The set with that address, or NULL when it was freed or never existed. sets_mu is held. */
static struct event_set *find_set(const struct event_set *set)
{
    struct event_set *s = sets;
    while (s != NULL && s != set)
        s = s->next;
    return s;
}

struct event_set *event_set_new(uint64_t seen)
{
    struct event_set *s = calloc(1, sizeof(*s));
    if (s == NULL)
        return NULL;
    s->seen = seen;
    (void)pthread_mutex_lock(&sets_mu);
    s->next = sets;
    sets = s;
    (void)pthread_mutex_unlock(&sets_mu);
    return s;
}

bool event_set_drop(const struct event_set *set)
{
    (void)pthread_mutex_lock(&sets_mu);
    struct event_set **at = &sets;
    while (*at != NULL && *at != set)
        at = &(*at)->next;
    struct event_set *gone = *at;
    if (gone != NULL)
        *at = gone->next;
    (void)pthread_mutex_unlock(&sets_mu);
    free(gone);
    return gone != NULL;
}

bool event_set_register(const struct event_set *set, uint32_t card, uint64_t types)
{
    uint32_t slot = slot_of(card);
    (void)pthread_mutex_lock(&sets_mu);
    struct event_set *s = find_set(set);
    if (s != NULL && slot < SLOTS)
        s->types[slot] |= types;
    (void)pthread_mutex_unlock(&sets_mu);
    return s != NULL;
}

bool event_set_has(const struct event_set *set, uint32_t card)
{
    uint32_t slot = slot_of(card);
    return slot < SLOTS && set->types[slot] != 0;
}

static bool wants(const struct event_set *s, const struct hw_event *e)
{
    uint32_t slot = slot_of(e->gpu);
    return slot < SLOTS && (s->types[slot] & e->type) != 0;
}

/* Events that the ring has already dropped are lost, as on hardware. */
static bool next_wanted(struct event_set *s, const struct hw *hw, struct hw_event *ret)
{
    if (s->seen + HW_MAX_EVENTS < hw->event_sequence)
        s->seen = hw->event_sequence - HW_MAX_EVENTS;
    while (s->seen < hw->event_sequence) {
        const struct hw_event *e = &hw->events[++s->seen % HW_MAX_EVENTS];
        if (!wants(s, e))
            continue;
        *ret = *e;
        return true;
    }
    return false;
}

static enum event_found look(struct state *state, const struct event_set *set, event_end_fn *ends,
                             struct hw_event *ret)
{
    enum event_found found = EVENT_NONE;
    const struct hw *hw = state_lock(state);
    (void)pthread_mutex_lock(&sets_mu);
    struct event_set *s = find_set(set);
    if (s == NULL)
        found = EVENT_NO_SET;
    else if (next_wanted(s, hw, ret))
        found = EVENT_FOUND;
    else if (ends != NULL && ends(s, hw))
        found = EVENT_ENDED;
    (void)pthread_mutex_unlock(&sets_mu);
    state_unlock(state);
    return found;
}

static int64_t now_ms(void)
{
    struct timespec ts;
    (void)clock_gettime(CLOCK_MONOTONIC, &ts);
    return ts.tv_sec * INT64_C(1000) + ts.tv_nsec / 1000000;
}

enum event_found event_set_wait(struct state *s, const struct event_set *set, int64_t timeout_ms,
                                event_end_fn *ends, struct hw_event *ret)
{
    static const int64_t hour_ms = INT64_C(3600000);
    int64_t until = now_ms() + timeout_ms;
    for (;;) {
        uint32_t bell = state_event_bell(s);
        enum event_found found = look(s, set, ends, ret);
        int64_t left = timeout_ms < 0 ? hour_ms : until - now_ms();
        if (found != EVENT_NONE || left <= 0)
            return found;
        state_wait_event(s, bell, left);
    }
}
