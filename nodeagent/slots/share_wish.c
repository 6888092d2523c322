/* SPDX-License-Identifier: Apache-2.0 */
#include "nodeagent/slots/share_wish.h"

#include <stdlib.h>
#include <string.h>

#include "base/jx.h"
#include "base/xalloc.h"

#include "api/allocation.h"
#include "interop/hami_pod.h"
#include "interop/koordinator_pod.h"

static const json_t *find_container(const json_t *pod, const char *name)
{
    static const char *const lists[] = {"initContainers", "containers"};
    for (size_t l = 0; l < ARRAY_LEN(lists); l++) {
        const json_t *list = JX_AT(pod, "spec", lists[l]);
        for (size_t i = 0; i < json_array_size(list); i++) {
            const char *is = JX_STR_AT(json_array_get(list, i), "name");
            if (is && strcmp(is, name) == 0)
                return json_array_get(list, i);
        }
    }
    return NULL;
}

/* --- The scheduler's choice --- */

static int check_amounts(const struct allocation_share *s, const struct share_request *ask,
                         struct err *e)
{
    /* A percentage is known in MiB only with the card: share_place. */
    if (ask->memory_mib && s->memory_mib > ask->memory_mib)
        return err_set(e, ERR_INVALID,
                       "annotation %s gives %lld MiB of memory, and the container asks for %u: let "
                       "the scheduler write the annotation, or ask for more",
                       ALLOCATION_ANNOTATION, (long long)s->memory_mib, ask->memory_mib);
    if (s->compute > ask->compute)
        return err_set(e, ERR_INVALID,
                       "annotation %s gives %lld %% of compute, and the container asks for %u: let "
                       "the scheduler write the annotation, or ask for more",
                       ALLOCATION_ANNOTATION, (long long)s->compute, ask->compute);
    return 0;
}

static bool names_card(const struct share_given *given, size_t n, const char *uuid)
{
    for (size_t i = 0; i < n; i++)
        if (strcmp(given[i].card, uuid) == 0)
            return true;
    return false;
}

static int take_given(const struct allocation_container *c, struct share_wish *w, struct err *e)
{
    if (c->n_shares != w->ask.count)
        return err_set(e, ERR_INVALID,
                       "annotation %s gives container %s %zu shares, and it asks for %u",
                       ALLOCATION_ANNOTATION, c->name, c->n_shares, w->ask.count);
    auto_free struct share_given *given = xcalloc(c->n_shares, sizeof(*given));
    for (size_t i = 0; i < c->n_shares; i++) {
        const struct allocation_share *s = &c->shares[i];
        TRY(check_amounts(s, &w->ask, e));
        if (names_card(given, i, s->uuid))
            return err_set(e, ERR_INVALID, "annotation %s names card %s twice for container %s",
                           ALLOCATION_ANNOTATION, s->uuid, c->name);
        given[i] = (struct share_given){.memory_mib = (unsigned)s->memory_mib,
                                        .percent = (unsigned)s->compute};
        (void)snprintf(given[i].card, sizeof(given[i].card), "%s", s->uuid);
    }
    w->given = TAKE(given);
    w->said_by = ALLOCATION_ANNOTATION;
    return 0;
}

static int take_record(const char *text, const char *container, struct share_wish *w, struct err *e)
{
    AUTO(allocation) struct allocation a = {0};
    TRY(allocation_parse(text, &a, e));
    const struct allocation_container *c = allocation_of(&a, container);
    if (!c)
        return err_set(e, ERR_INVALID, "annotation %s does not mention container %s",
                       ALLOCATION_ANNOTATION, container);
    return take_given(c, w, e);
}

/* --- Koordinator's choice --- */

/* Leaves w->given NULL where it did not choose. */
static int take_koordinators(const json_t *pod, const char *container, enum slot_pool pool,
                             struct share_wish *w, struct err *e)
{
    auto_json json_t *cards = NULL;
    const char *resource = pool == SLOT_POOL_KOORDINATOR ? SHARE_SLOT : SHARE_COUNT;
    TRY(koordinator_pod_cards(pod, container, resource, w->ask.count, &cards, e));
    if (!cards)
        return 0;
    auto_free struct share_given *given = xcalloc(w->ask.count, sizeof(*given));
    for (size_t i = 0; i < w->ask.count; i++) {
        const char *uuid = json_string_value(json_array_get(cards, i));
        if (strlen(uuid) >= sizeof(given[i].card) || names_card(given, i, uuid))
            return err_set(e, ERR_INVALID,
                           "annotation " KOORDINATOR_ALLOCATED
                           " gives container %s card %.80s, which is none, or given twice",
                           container, uuid);
        memcpy(given[i].card, uuid, strlen(uuid) + 1);
    }
    w->given = TAKE(given);
    w->said_by = KOORDINATOR_ALLOCATED;
    return 0;
}

/* --- The pod's own wishes --- */

static int take_wishes(const json_t *pod, struct share_wish *w, struct err *e)
{
    struct hami_wish wish;
    TRY(hami_wish_of(pod, &wish, e));
    w->cards = wish.cards;
    w->cards.use_models = w->texts[0] = xstrdup(wish.cards.use_models);
    w->cards.no_models = w->texts[1] = xstrdup(wish.cards.no_models);
    w->cards.use_uuids = w->texts[2] = xstrdup(wish.cards.use_uuids);
    w->cards.no_uuids = w->texts[3] = xstrdup(wish.cards.no_uuids);
    if (wish.mode == HAMI_MODE_UNSET || wish.mode == HAMI_MODE_CORE)
        return 0;
    return err_set(e, ERR_INVALID,
                   "annotation " HAMI_MODE " asks for cards that are shared in another way, and "
                   "this node gives shares by limits: leave it out, or choose a node of that kind");
}

/* --- The whole --- */

static int check_count(const struct share_request *ask, const char *container, size_t n_slots,
                       struct err *e)
{
    if (ask->count == n_slots && n_slots <= FRACTION_MAX_CARDS)
        return 0;
    return err_set(e, ERR_INVALID, "container %s asks for %u shares and was granted %zu", container,
                   ask->count, n_slots);
}

/* Each pool binds its slots by itself, and the container has one set of variables. */
static int check_words(const json_t *container, struct err *e)
{
    const json_t *limits = JX_AT(container, "resources", "limits");
    if (!json_object_get(limits, SHARE_COUNT) || !json_object_get(limits, SHARE_SLOT))
        return 0;
    return err_set(e, ERR_INVALID,
                   "the container asks for " SHARE_COUNT " and for " SHARE_SLOT
                   ": write one of them");
}

int share_wish_of(const json_t *pod, const char *container, enum slot_pool pool, size_t n_slots,
                  struct share_wish *ret, struct err *e)
{
    const json_t *c = find_container(pod, container);
    bool koordinators = pool == SLOT_POOL_KOORDINATOR;
    const char *record =
        koordinators ? NULL : JX_STR_AT(pod, "metadata", "annotations", ALLOCATION_ANNOTATION);
    auto_share_wish struct share_wish w = {0};
    if (!c)
        return err_set(e, ERR_NOT_FOUND, "the pod has no container %s", container);
    TRY(check_words(c, e));
    TRY(koordinators ? koordinator_pod_request(c, &w.ask, e)
                     : share_request_of(c, &w.ask, /* warnings= */ NULL, e));
    TRY(check_count(&w.ask, container, n_slots, e));
    TRY(record ? take_record(record, container, &w, e)
               : take_koordinators(pod, container, pool, &w, e));
    if (!w.given)
        TRY(take_wishes(pod, &w, e));
    w.is_unlimited = hami_disables_control(c);
    w.is_capped = hami_caps_compute(c);
    *ret = w;
    w = (struct share_wish){0};
    return 0;
}

void share_wish_done(struct share_wish *w)
{
    free(w->given);
    for (size_t i = 0; i < ARRAY_LEN(w->texts); i++)
        free(w->texts[i]);
    *w = (struct share_wish){0};
}
